// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Service points and connection requests.
#include "fixture.hpp"

#include <cstring>

using namespace test;

namespace {

struct service {
    explicit service(DAT_COUNT qlen = 8) : requests(c.make_evd(DAT_EVD_CR_FLAG, qlen)), s(c) {}

    DAT_RSP_HANDLE make_rsp(DAT_EP_HANDLE ep, DAT_CONN_QUAL qualifier = here)
    {
        DAT_RSP_HANDLE made = DAT_HANDLE_NULL;
        must(c.v.rsp_create_func(c.ia, qualifier, ep, requests, &made));
        return made;
    }
    /// The request that arrived, or null.
    DAT_CR_HANDLE request()
    {
        DAT_EVENT event;
        if (c.dequeue(requests, event) != DAT_SUCCESS)
            return DAT_HANDLE_NULL;
        return event.event_data.cr_arrival_event_data.cr_handle;
    }
    DAT_RETURN reject(DAT_CR_HANDLE cr) { return c.v.cr_reject_func(cr, 0, nullptr); }

    consumer c;
    DAT_EVD_HANDLE requests;
    station s;
};

} // namespace

TEST_SUITE_BEGIN("service_point");

TEST_CASE("a request carries its private data, padded with zeros, which may be changed in place")
{
    service v;
    v.c.make_psp(here, v.requests);
    char bytes[] = "knock";
    REQUIRE(arrive(here, {bytes, sizeof bytes}));
    const DAT_CR_HANDLE cr = v.request();
    DAT_CR_PARAM param;
    must(v.c.v.cr_query_func(cr, DAT_CR_FIELD_ALL, &param));
    REQUIRE_EQ(param.private_data_size, static_cast<DAT_COUNT>(sizeof bytes));
    CHECK_EQ(std::strcmp(static_cast<char *>(param.private_data), "knock"), 0);
    static_cast<char *>(param.private_data)[0] = 'K';
    must(v.c.v.cr_query_func(cr, DAT_CR_FIELD_ALL, &param));
    CHECK_EQ(std::strcmp(static_cast<char *>(param.private_data), "Knock"), 0);
    CHECK_EQ(param.remote_port_qual, 42);
    CHECK_EQ(param.local_ep_handle, DAT_HANDLE_NULL);
    must(v.reject(cr));
    CHECK_EQ(v.c.v.cr_query_func(cr, DAT_CR_FIELD_ALL, &param),
             error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CR));
}

TEST_CASE("a request on a full EVD is refused, leaks nothing, and is reported as an overflow")
{
    service v(2);
    v.c.make_psp(here, v.requests);
    REQUIRE(arrive(here));
    REQUIRE(arrive(here));
    for (int i = 0; i < 20; ++i)
        CHECK_FALSE(arrive(here));
    CHECK_EQ(from_handle<adapter>(v.c.ia)->live<core::cr>(), 2);
    must(v.reject(v.request()));
    CHECK(arrive(here));
    must(v.reject(v.request()));
    must(v.reject(v.request()));
    CHECK_EQ(from_handle<adapter>(v.c.ia)->live<core::cr>(), 0);
    const std::vector<DAT_EVENT> events = v.c.drain(v.c.async);
    REQUIRE_EQ(events.size(), 1);
    CHECK_EQ(events[0].event_number, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    CHECK_EQ(events[0].event_data.asynch_error_event_data.dat_handle, v.requests);
    while (arrive(here))
        ;
    CHECK_EQ(v.c.drain(v.c.async).size(), 1); // there was room meanwhile
    must(v.reject(v.request()));
    must(v.reject(v.request()));
}

TEST_CASE("a full EVD leaves the endpoint of an RSP reserved, and one made by a PSP gone")
{
    service v(1);
    v.c.make_psp(here, v.requests);
    REQUIRE(arrive(here));
    const DAT_RSP_HANDLE rsp = v.make_rsp(v.s.ep, 6);
    CHECK_FALSE(arrive(6));
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_RESERVED);
    v.c.make_psp(7, v.requests, DAT_PSP_PROVIDER_FLAG);
    const std::size_t before = from_handle<adapter>(v.c.ia)->live<endpoint>();
    CHECK_FALSE(arrive(7));
    CHECK_EQ(from_handle<adapter>(v.c.ia)->live<endpoint>(), before);
    must(v.reject(v.request()));
    CHECK(arrive(6));
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    must(v.reject(v.request()));
    must(v.c.v.rsp_free_func(rsp));
}

TEST_CASE("an RSP that is freed unused gives its endpoint back UNCONNECTED")
{
    service v;
    const DAT_RSP_HANDLE rsp = v.make_rsp(v.s.ep);
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_RESERVED);
    CHECK_EQ(v.c.v.ep_free_func(v.s.ep),
             error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_RESERVED));
    must(v.c.v.rsp_free_func(rsp));
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_UNCONNECTED);
    CHECK_FALSE(arrive(here));
}

TEST_CASE("requests that go with their EVD are refused, and leave no endpoint behind")
{
    service v;
    const DAT_RSP_HANDLE rsp = v.make_rsp(v.s.ep);
    const DAT_PSP_HANDLE psp = v.c.make_psp(6, v.requests, DAT_PSP_PROVIDER_FLAG);
    REQUIRE(arrive(here));
    REQUIRE(arrive(6));
    REQUIRE(arrive(6));
    const DAT_CR_HANDLE taken = v.request();
    must(v.c.v.rsp_free_func(rsp));
    must(v.c.v.psp_free_func(psp));
    must(v.c.v.evd_free_func(v.requests));
    adapter &ia = *from_handle<adapter>(v.c.ia);
    CHECK_EQ(ia.live<core::cr>(), 1);
    CHECK_EQ(ia.live<endpoint>(), 1);
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    must(v.reject(taken));
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_UNCONNECTED);
    CHECK_EQ(ia.live<core::cr>(), 0);
}

TEST_CASE("an RSP serves exactly one request")
{
    service v;
    const DAT_RSP_HANDLE rsp = v.make_rsp(v.s.ep);
    REQUIRE(arrive(here));
    CHECK_FALSE(arrive(here));
    must(v.reject(v.request()));
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_UNCONNECTED);
    CHECK_FALSE(arrive(here));
    must(v.c.v.rsp_free_func(rsp));
}

TEST_CASE("an RSP that was used has no say over its endpoint any more: another one reserves it")
{
    service v;
    const DAT_RSP_HANDLE used = v.make_rsp(v.s.ep);
    REQUIRE(arrive(here));
    must(v.reject(v.request()));
    const DAT_RSP_HANDLE second = v.make_rsp(v.s.ep, 6);
    CHECK_FALSE(arrive(here)); // the used RSP takes no request
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_RESERVED);
    while (const DAT_CR_HANDLE unexpected = v.request())
        (void)v.reject(unexpected);
    must(v.c.v.rsp_free_func(used));
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_RESERVED);
    must(v.c.v.rsp_free_func(second));
}

TEST_CASE("an RSP that was used has no say over a new endpoint at the place of its own")
{
    service v;
    const DAT_RSP_HANDLE used = v.make_rsp(v.s.ep);
    REQUIRE(arrive(here));
    must(v.c.v.cr_accept_func(v.request(), DAT_HANDLE_NULL, 0, nullptr));
    must(v.c.v.ep_free_func(v.s.ep));
    const DAT_EP_HANDLE fresh = v.s.make_ep();
    CHECK_EQ(fresh, v.s.ep); // the only free slot
    const DAT_RSP_HANDLE second = v.make_rsp(fresh, 6);
    must(v.c.v.rsp_free_func(used));
    CHECK_EQ(v.c.state(fresh), DAT_EP_STATE_RESERVED);
    CHECK_EQ(from_handle<endpoint>(fresh)->references.load(), 0);
    must(v.c.v.rsp_free_func(second));
}

TEST_CASE("the endpoint of an RSP is accepted with a null handle, and with no other")
{
    service v;
    const DAT_RSP_HANDLE rsp = v.make_rsp(v.s.ep);
    const DAT_EP_HANDLE other = v.s.make_ep();
    REQUIRE(arrive(here));
    const DAT_CR_HANDLE cr = v.request();
    DAT_CR_PARAM param;
    must(v.c.v.cr_query_func(cr, DAT_CR_FIELD_ALL, &param));
    CHECK_EQ(param.local_ep_handle, v.s.ep);
    CHECK_EQ(v.c.v.cr_accept_func(cr, other, 0, nullptr),
             error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
    must(v.c.v.cr_accept_func(cr, DAT_HANDLE_NULL, 0, nullptr));
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_COMPLETION_PENDING);
    REQUIRE(fire(v.s.port(), DAT_CONNECTION_EVENT_ESTABLISHED));
    CHECK_EQ(v.s.connect_event(), DAT_CONNECTION_EVENT_ESTABLISHED);
    must(v.c.v.rsp_free_func(rsp));
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_CONNECTED);
}

TEST_CASE("a provider PSP brings an endpoint, usable once it has a zone and EVDs")
{
    service v;
    v.c.make_psp(here, v.requests, DAT_PSP_PROVIDER_FLAG);
    REQUIRE(arrive(here));
    const DAT_CR_HANDLE cr = v.request();
    DAT_CR_PARAM param;
    must(v.c.v.cr_query_func(cr, DAT_CR_FIELD_ALL, &param));
    const DAT_EP_HANDLE ep = param.local_ep_handle;
    REQUIRE_NE(ep, DAT_HANDLE_NULL);
    CHECK_EQ(v.c.state(ep), DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
    CHECK_EQ(DAT_GET_TYPE(v.c.v.cr_accept_func(cr, DAT_HANDLE_NULL, 0, nullptr)),
             DAT_INVALID_STATE);
    CHECK_EQ(DAT_GET_TYPE(v.c.v.ep_free_func(ep)), DAT_INVALID_STATE);
    DAT_EP_PARAM wanted{};
    wanted.pz_handle = v.s.pz;
    wanted.recv_evd_handle = v.s.recv;
    wanted.request_evd_handle = v.s.request;
    wanted.connect_evd_handle = v.s.connections;
    must(v.c.v.ep_modify_func(ep,
                              DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                                  DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                              &wanted));
    must(v.c.v.cr_accept_func(cr, DAT_HANDLE_NULL, 0, nullptr));
    REQUIRE(fire(*find_qp(ep), DAT_CONNECTION_EVENT_ESTABLISHED));
    CHECK_EQ(v.c.state(ep), DAT_EP_STATE_CONNECTED);
    must(v.c.v.ep_free_func(ep));
}

TEST_CASE("rejecting a request destroys the endpoint that a provider PSP made")
{
    service v;
    v.c.make_psp(here, v.requests, DAT_PSP_PROVIDER_FLAG);
    const std::size_t before = from_handle<adapter>(v.c.ia)->live<endpoint>();
    REQUIRE(arrive(here));
    CHECK_EQ(from_handle<adapter>(v.c.ia)->live<endpoint>(), before + 1);
    must(v.reject(v.request()));
    CHECK_EQ(from_handle<adapter>(v.c.ia)->live<endpoint>(), before);
}

TEST_CASE("requests outlive their PSP")
{
    service v;
    const DAT_PSP_HANDLE psp = v.c.make_psp(here, v.requests);
    REQUIRE(arrive(here));
    REQUIRE(arrive(here));
    must(v.c.v.psp_free_func(psp));
    CHECK_FALSE(arrive(here));
    must(v.reject(v.request()));
    must(v.c.v.cr_accept_func(v.request(), v.s.ep, 0, nullptr));
    REQUIRE(fire(v.s.port(), DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR));
    CHECK_EQ(v.s.connect_event(), DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_DISCONNECTED);
}

TEST_CASE("an accept that the port refuses leaves request and endpoint as they were")
{
    service v;
    v.c.make_psp(here, v.requests);
    REQUIRE(arrive(here));
    const DAT_CR_HANDLE cr = v.request();
    lab::fail(lab::op::accept, error_code(DAT_INSUFFICIENT_RESOURCES));
    CHECK_EQ(v.c.v.cr_accept_func(cr, v.s.ep, 0, nullptr), error_code(DAT_INSUFFICIENT_RESOURCES));
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_UNCONNECTED);
    must(v.c.v.cr_accept_func(cr, v.s.ep, 0, nullptr));
    CHECK_EQ(v.c.v.cr_accept_func(cr, v.s.ep, 0, nullptr),
             error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CR));
}

TEST_CASE("a service point that cannot listen leaves no trace")
{
    service v;
    const DAT_RETURN busy = error_code(DAT_CONN_QUAL_IN_USE);
    DAT_HANDLE made = DAT_HANDLE_NULL;
    lab::fail(lab::op::listen, busy);
    CHECK_EQ(v.c.v.psp_create_func(v.c.ia, here, v.requests, DAT_PSP_CONSUMER_FLAG, &made), busy);
    lab::fail(lab::op::listen, busy);
    CHECK_EQ(v.c.v.rsp_create_func(v.c.ia, here, v.s.ep, v.requests, &made), busy);
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_UNCONNECTED);
    CHECK_EQ(v.c.v.rsp_create_func(v.c.ia, here, v.s.ep, v.s.recv, &made),
             error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EVD_CR));
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_UNCONNECTED);
    CHECK_EQ(made, DAT_HANDLE_NULL);
    must(v.c.v.evd_free_func(v.requests));
}

TEST_CASE("psp_free waits for a request that is arriving")
{
    service v;
    lab::latch gate;
    agent a;
    a.what = [&](DAT_EVD_HANDLE) { gate.wait(); };
    must(v.c.v.evd_modify_cno_func(v.requests, v.c.make_cno(a.value())));
    const DAT_PSP_HANDLE psp = v.c.make_psp(here, v.requests);
    std::thread peer([] { (void)arrive(here); });
    gate.await_arrival();
    std::atomic<bool> freed{false};
    std::thread frees([&] {
        (void)v.c.v.psp_free_func(psp);
        freed = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_FALSE(freed.load());
    gate.open();
    peer.join();
    frees.join();
    must(v.reject(v.request()));
}

TEST_CASE("a request that comes before the port has said where it listens is announced when it has")
{
    service v;
    lab::latch gate;
    lab::plan_of(lab::op::listening).gate = &gate;
    const DAT_CONN_QUAL chosen = next_qualifier();
    DAT_CONN_QUAL told = 0;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    std::thread creates([&] {
        (void)v.c.v.psp_create_any_func(v.c.ia, &told, v.requests, DAT_PSP_CONSUMER_FLAG, &psp);
    });
    gate.await_arrival();
    CHECK(arrive(chosen));
    CHECK(arrive(chosen));
    CHECK_EQ(v.request(), DAT_HANDLE_NULL);
    gate.open();
    creates.join();
    CHECK_EQ(told, chosen);
    for (int i = 0; i < 2; ++i) {
        DAT_EVENT event;
        must(v.c.dequeue(v.requests, event));
        const auto &arrival = event.event_data.cr_arrival_event_data;
        CHECK_EQ(arrival.conn_qual, chosen);
        CHECK_EQ(arrival.sp_handle.psp_handle, psp);
        must(v.reject(arrival.cr_handle));
    }
    CHECK(arrive(chosen));
    must(v.reject(v.request()));
}

TEST_CASE("a request that came early and finds its EVD full is refused like any other")
{
    service v(1);
    v.c.make_psp(here, v.requests);
    REQUIRE(arrive(here));
    lab::latch gate;
    lab::plan_of(lab::op::listening).gate = &gate;
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    std::thread creates([&] { (void)v.c.v.rsp_create_func(v.c.ia, 6, v.s.ep, v.requests, &rsp); });
    gate.await_arrival();
    CHECK(arrive(6));
    gate.open();
    creates.join();
    CHECK_EQ(lab::calls(lab::op::reject), 1);
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_RESERVED);
    const std::vector<DAT_EVENT> events = v.c.drain(v.c.async);
    REQUIRE_EQ(events.size(), 1);
    CHECK_EQ(events[0].event_number, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    must(v.reject(v.request()));
    CHECK(arrive(6));
    must(v.reject(v.request()));
    CHECK_EQ(from_handle<adapter>(v.c.ia)->live<core::cr>(), 0);
    must(v.c.v.rsp_free_func(rsp));
}

TEST_CASE("a listener that fails after a request came in refuses it")
{
    service v;
    lab::latch gate;
    lab::plan_of(lab::op::listening).gate = &gate;
    const DAT_RETURN failure = error_code(DAT_INSUFFICIENT_RESOURCES);
    lab::fail(lab::op::listening, failure);
    DAT_RETURN code = DAT_SUCCESS;
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    std::thread creates(
        [&] { code = v.c.v.rsp_create_func(v.c.ia, here, v.s.ep, v.requests, &rsp); });
    gate.await_arrival();
    CHECK(arrive(here));
    gate.open();
    creates.join();
    CHECK_EQ(code, failure);
    CHECK_EQ(lab::calls(lab::op::reject), 1);
    CHECK_EQ(v.request(), DAT_HANDLE_NULL);
    CHECK_EQ(v.c.state(v.s.ep), DAT_EP_STATE_UNCONNECTED);
    CHECK_EQ(from_handle<adapter>(v.c.ia)->live<core::cr>(), 0);
}

// ---------------------------------------------------------------------------------- handing on

namespace {

/// Two service points with an EVD each: a request comes in at the first.
struct relay : service {
    explicit relay(DAT_COUNT qlen = 8) : others(c.make_evd(DAT_EVD_CR_FLAG, qlen))
    {
        c.make_psp(here, requests);
    }
    DAT_CR_HANDLE next_request(const private_data &data = {})
    {
        REQUIRE(arrive(here, data));
        const DAT_CR_HANDLE cr = request();
        REQUIRE_NE(cr, DAT_HANDLE_NULL);
        return cr;
    }
    DAT_RETURN hand_on(DAT_CR_HANDLE cr) { return c.v.cr_handoff_func(cr, there); }
    DAT_CR_ARRIVAL_EVENT_DATA arrival()
    {
        DAT_EVENT event{};
        must(c.dequeue(others, event));
        CHECK_EQ(event.event_number, DAT_CONNECTION_REQUEST_EVENT);
        CHECK_EQ(event.evd_handle, others);
        return event.event_data.cr_arrival_event_data;
    }
    DAT_CR_PARAM query(DAT_CR_HANDLE cr)
    {
        DAT_CR_PARAM param{};
        must(c.v.cr_query_func(cr, DAT_CR_FIELD_ALL, &param));
        return param;
    }
    std::size_t live_requests() { return from_handle<adapter>(c.ia)->live<core::cr>(); }

    static constexpr DAT_CONN_QUAL there = 6;
    DAT_EVD_HANDLE others;
};

constexpr DAT_RETURN nowhere = error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
constexpr DAT_RETURN no_request = error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CR);

} // namespace

TEST_CASE("a request that is handed on arrives there as it is, and is no handle here any more")
{
    relay r;
    const DAT_PSP_HANDLE other = r.c.make_psp(relay::there, r.others);
    char bytes[] = "knock";
    const DAT_CR_HANDLE cr = r.next_request({bytes, sizeof bytes});
    static_cast<char *>(r.query(cr).private_data)[0] = 'K'; // its consumer may do that
    must(r.hand_on(cr));
    CHECK_EQ(r.hand_on(cr), no_request);
    CHECK_EQ(r.reject(cr), no_request);
    CHECK_EQ(lab::calls(lab::op::reject), 0);
    const DAT_CR_ARRIVAL_EVENT_DATA arrival = r.arrival();
    CHECK_EQ(arrival.sp_handle.psp_handle, other);
    CHECK_EQ(arrival.conn_qual, relay::there);
    const DAT_CR_PARAM param = r.query(arrival.cr_handle);
    REQUIRE_EQ(param.private_data_size, static_cast<DAT_COUNT>(sizeof bytes));
    CHECK_EQ(std::string(static_cast<char *>(param.private_data)), "Knock");
    CHECK_EQ(param.remote_port_qual, 42);
    CHECK_NE(param.remote_ia_address_ptr, nullptr);
    CHECK_EQ(r.request(), DAT_HANDLE_NULL);
    must(r.c.v.cr_accept_func(arrival.cr_handle, r.s.ep, 0, nullptr));
    REQUIRE(fire(r.s.port(), DAT_CONNECTION_EVENT_ESTABLISHED));
    CHECK_EQ(r.live_requests(), 0);
}

TEST_CASE("a request cannot be handed to a qualifier without a listener, and stays")
{
    relay r;
    const DAT_CR_HANDLE cr = r.next_request();
    CHECK_EQ(r.hand_on(cr), nowhere);
    const DAT_RSP_HANDLE rsp = r.make_rsp(r.s.ep, relay::there);
    REQUIRE(arrive(relay::there));
    CHECK_EQ(r.hand_on(cr), nowhere); // it has had its one request
    must(r.reject(r.request()));
    must(r.c.v.rsp_free_func(rsp));
    CHECK_EQ(r.hand_on(cr), nowhere);
    CHECK_EQ(r.c.v.cr_handoff_func(cr, 0), nowhere);
    must(r.reject(cr));
}

TEST_CASE("a request handed to an RSP takes its endpoint along, and leaves it when handed on again")
{
    relay r;
    const DAT_RSP_HANDLE rsp = r.make_rsp(r.s.ep, relay::there);
    must(r.hand_on(r.next_request()));
    const DAT_CR_HANDLE cr = r.request();
    CHECK_EQ(r.query(cr).local_ep_handle, r.s.ep);
    CHECK_EQ(r.c.state(r.s.ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    must(r.c.v.cr_handoff_func(cr, here));
    CHECK_EQ(r.c.state(r.s.ep), DAT_EP_STATE_UNCONNECTED);
    const DAT_CR_HANDLE again = r.request();
    CHECK_EQ(r.query(again).local_ep_handle, DAT_HANDLE_NULL);
    must(r.reject(again));
    must(r.c.v.rsp_free_func(rsp));
}

TEST_CASE(
    "a request handed to a PSP that makes endpoints gets one, which goes when it is handed on")
{
    relay r;
    r.c.make_psp(relay::there, r.others, DAT_PSP_PROVIDER_FLAG);
    const std::size_t before = from_handle<adapter>(r.c.ia)->live<endpoint>();
    must(r.hand_on(r.next_request()));
    const DAT_CR_HANDLE cr = r.arrival().cr_handle;
    CHECK_EQ(r.c.state(r.query(cr).local_ep_handle), DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
    CHECK_EQ(from_handle<adapter>(r.c.ia)->live<endpoint>(), before + 1);
    must(r.c.v.cr_handoff_func(cr, here));
    CHECK_EQ(from_handle<adapter>(r.c.ia)->live<endpoint>(), before);
    must(r.reject(r.request()));
}

TEST_CASE("a request handed to a full EVD is refused, and that is reported")
{
    relay r(1);
    r.c.make_psp(relay::there, r.others);
    REQUIRE(arrive(relay::there));
    must(r.hand_on(r.next_request()));
    CHECK_EQ(lab::calls(lab::op::reject), 1);
    CHECK_EQ(r.live_requests(), 1);
    const std::vector<DAT_EVENT> events = r.c.drain(r.c.async);
    REQUIRE_EQ(events.size(), 1);
    CHECK_EQ(events[0].event_number, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    CHECK_EQ(events[0].event_data.asynch_error_event_data.dat_handle, r.others);
    must(r.reject(r.arrival().cr_handle));
}

TEST_CASE("race of handing on and the end of where it goes: every request is answered once")
{
    service v;
    const DAT_EVD_HANDLE others = v.c.make_evd(DAT_EVD_CR_FLAG, 64);
    v.c.make_psp(here, v.requests);
    std::atomic<bool> stop{false};
    std::thread comes_and_goes([&] {
        while (!stop) {
            DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
            if (v.c.v.psp_create_func(v.c.ia, relay::there, others, DAT_PSP_CONSUMER_FLAG, &psp) ==
                DAT_SUCCESS)
                (void)v.c.v.psp_free_func(psp);
        }
    });
    int wrong = 0;
    for (int i = 0; i < rounds(4000); ++i) {
        wrong += !arrive(here);
        const DAT_CR_HANDLE cr = v.request();
        const DAT_RETURN code = v.c.v.cr_handoff_func(cr, relay::there);
        wrong += code != DAT_SUCCESS && code != nowhere;
        DAT_EVENT event;
        if (code != DAT_SUCCESS)
            wrong += v.reject(cr) != DAT_SUCCESS;
        else if (v.c.dequeue(others, event) == DAT_SUCCESS)
            wrong += v.reject(event.event_data.cr_arrival_event_data.cr_handle) != DAT_SUCCESS;
        else
            ++wrong;
    }
    stop = true;
    comes_and_goes.join();
    CHECK_EQ(wrong, 0);
    CHECK_EQ(from_handle<adapter>(v.c.ia)->live<core::cr>(), 0);
}

// ---------------------------------------------------------------------- common service points

namespace {

sockaddr_in at_port(unsigned port, std::uint32_t host = INADDR_LOOPBACK)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(host);
    return address;
}

DAT_IA_ADDRESS_PTR plain(sockaddr_in &address)
{
    return reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address);
}

DAT_COMM stream{AF_INET, SOCK_STREAM, 0};

} // namespace

TEST_CASE("a CSP tells what it was made with, and takes requests for its port")
{
    service v;
    sockaddr_in address = at_port(here, INADDR_ANY);
    DAT_CSP_HANDLE csp = DAT_HANDLE_NULL;
    must(v.c.v.csp_create_func(v.c.ia, &stream, plain(address), v.requests, &csp));
    DAT_CSP_PARAM param{};
    must(v.c.v.csp_query_func(csp, DAT_CSP_FIELD_ALL, &param));
    CHECK_EQ(param.ia_handle, v.c.ia);
    CHECK_EQ(param.evd_handle, v.requests);
    CHECK_EQ(param.comm->type, stream.type);
    CHECK_EQ(std::memcmp(param.address_ptr, &address, sizeof address), 0);
    DAT_HANDLE_TYPE type{};
    must(v.c.v.get_handle_type_func(csp, &type));
    CHECK_EQ(type, DAT_HANDLE_TYPE_CSP);
    REQUIRE(arrive(here));
    DAT_EVENT event;
    must(v.c.dequeue(v.requests, event));
    CHECK_EQ(event.event_data.cr_arrival_event_data.sp_handle.csp_handle, csp);
    CHECK_EQ(event.event_data.cr_arrival_event_data.conn_qual, here);
    CHECK_EQ(DAT_GET_TYPE(v.c.v.psp_free_func(csp)), DAT_INVALID_HANDLE);
    must(v.c.v.csp_free_func(csp));
    CHECK_EQ(v.c.v.csp_free_func(csp), error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CSP));
    CHECK_FALSE(arrive(here));
    must(v.reject(event.event_data.cr_arrival_event_data.cr_handle)); // it outlives the CSP
}

TEST_CASE("a CSP is refused for a socket, an address or a port that the adapter does not have")
{
    service v;
    DAT_CSP_HANDLE csp = DAT_HANDLE_NULL;
    const auto create = [&](DAT_COMM comm, sockaddr_in address) {
        return v.c.v.csp_create_func(v.c.ia, &comm, plain(address), v.requests, &csp);
    };
    sockaddr_in address = at_port(here);
    const DAT_RETURN unknown = error_code(DAT_COMM_NOT_SUPPORTED);
    CHECK_EQ(create({AF_INET, SOCK_DGRAM, 0}, address), unknown);
    CHECK_EQ(create({AF_INET6, SOCK_STREAM, 0}, address), unknown);
    CHECK_EQ(create({AF_INET, SOCK_STREAM, IPPROTO_UDP}, address), unknown);
    CHECK_EQ(create(stream, at_port(here, 0xc0000201)),
             error_code(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED));
    CHECK_EQ(create(stream, at_port(0)), error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    address.sin_family = 200;
    CHECK_EQ(create(stream, address),
             error_code(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED));
    address = at_port(here);
    CHECK_EQ(v.c.v.csp_create_func(v.c.ia, nullptr, plain(address), v.requests, &csp),
             error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    CHECK_EQ(v.c.v.csp_create_func(v.c.ia, &stream, nullptr, v.requests, &csp),
             error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    CHECK_EQ(v.c.v.csp_create_func(v.c.ia, &stream, plain(address), v.s.recv, &csp),
             error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EVD_CR));
    CHECK_EQ(v.c.v.csp_create_func(v.c.ia, &stream, plain(address), v.requests, nullptr),
             error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG5));
    lab::fail(lab::op::listen, error_code(DAT_CONN_QUAL_IN_USE));
    CHECK_EQ(create({AF_INET, SOCK_STREAM, IPPROTO_TCP}, address), error_code(DAT_PORT_IN_USE));
    CHECK_EQ(csp, DAT_HANDLE_NULL);
    must(v.c.v.evd_free_func(v.requests)); // nothing kept it
}

TEST_CASE("connecting to a socket address reaches the CSP of its port")
{
    service v;
    lab::loopback = true;
    station other(v.c);
    sockaddr_in address = at_port(7001);
    DAT_CSP_HANDLE csp = DAT_HANDLE_NULL;
    must(v.c.v.csp_create_func(v.c.ia, &stream, plain(address), v.requests, &csp));
    const auto connect = [&](DAT_IA_ADDRESS_PTR to, DAT_TIMEOUT timeout, DAT_COUNT size) {
        return v.c.v.ep_common_connect_func(v.s.ep, to, timeout, size, nullptr);
    };
    const auto bad = [](DAT_RETURN_SUBTYPE which) {
        return error_code(DAT_INVALID_PARAMETER, which);
    };
    CHECK_EQ(connect(nullptr, 1000, 0), bad(DAT_INVALID_ARG2));
    sockaddr_in nowhere_at = at_port(0);
    CHECK_EQ(connect(plain(nowhere_at), 1000, 0), bad(DAT_INVALID_ARG2));
    CHECK_EQ(connect(plain(address), 0, 0), bad(DAT_INVALID_ARG3));
    CHECK_EQ(connect(plain(address), 1000, 65), bad(DAT_INVALID_ARG4));
    CHECK_EQ(connect(plain(address), 1000, 4), bad(DAT_INVALID_ARG5));
    must(connect(plain(address), DAT_TIMEOUT_INFINITE, 0));
    must(v.c.v.cr_accept_func(v.request(), other.ep, 0, nullptr));
    CHECK_EQ(v.s.connect_event(), DAT_CONNECTION_EVENT_ESTABLISHED);
    CHECK_EQ(other.connect_event(), DAT_CONNECTION_EVENT_ESTABLISHED);
    DAT_EP_PARAM param{};
    must(v.c.v.ep_query_func(v.s.ep, DAT_EP_FIELD_ALL, &param));
    CHECK_EQ(param.remote_port_qual, 7001);
    CHECK_EQ(std::memcmp(param.remote_ia_address_ptr, &address, sizeof address), 0);
}

TEST_SUITE_END();
