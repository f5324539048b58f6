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

TEST_CASE("a request on a full EVD is refused, leaks nothing, and is told as an overflow")
{
    service v(2);
    v.c.make_psp(here, v.requests);
    REQUIRE(arrive(here));
    REQUIRE(arrive(here));
    for (int i = 0; i < 20; ++i)
        CHECK_FALSE(arrive(here));
    CHECK_EQ(from_handle<adapter>(v.c.ia)->crs.live(), 2);
    must(v.reject(v.request()));
    CHECK(arrive(here));
    must(v.reject(v.request()));
    must(v.reject(v.request()));
    CHECK_EQ(from_handle<adapter>(v.c.ia)->crs.live(), 0);
    const std::vector<DAT_EVENT> events = v.c.drain(v.c.async);
    REQUIRE_FALSE(events.empty());
    CHECK_EQ(events[0].event_number, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    CHECK_EQ(events[0].event_data.asynch_error_event_data.dat_handle, v.requests);
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
    const std::size_t before = from_handle<adapter>(v.c.ia)->eps.live();
    CHECK_FALSE(arrive(7));
    CHECK_EQ(from_handle<adapter>(v.c.ia)->eps.live(), before);
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
    CHECK_FALSE(arrive(here)); // through the used one
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
    CHECK_EQ(from_handle<endpoint>(fresh)->users.load(), 0);
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
    const std::size_t before = from_handle<adapter>(v.c.ia)->eps.live();
    REQUIRE(arrive(here));
    CHECK_EQ(from_handle<adapter>(v.c.ia)->eps.live(), before + 1);
    must(v.reject(v.request()));
    CHECK_EQ(from_handle<adapter>(v.c.ia)->eps.live(), before);
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

TEST_SUITE_END();
