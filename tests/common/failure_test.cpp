// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Every operation of the port fails, at every place, and so does every allocation: the code is
// passed on, and no object, reference or memory stays behind.
#include "fixture.hpp"
#include "wraps.hpp"

#include "dapl_debug.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <string>
#include <utility>

using namespace test;

namespace {

/// Makes one of everything, as far as it goes; takes it down again gracefully.
class everything {
public:
    explicit everything(consumer &on) : c(on), v(on.v) {}

    DAT_RETURN make()
    {
        for (const auto step :
             {&everything::make_zone, &everything::make_evds, &everything::make_region,
              &everything::make_endpoints, &everything::make_service, &everything::modify})
            if (const DAT_RETURN code = (this->*step)(); code != DAT_SUCCESS)
                return code;
        return DAT_SUCCESS;
    }

    void unmake()
    {
        free_one(rsp, v.rsp_free_func);
        free_one(psp, v.psp_free_func);
        free_one(ep, v.ep_free_func);
        free_one(reserved, v.ep_free_func);
        free_one(region, v.lmr_free_func);
        free_one(window, v.rmr_free_func);
        for (DAT_EVD_HANDLE *evd : {&requests, &connections, &dto, &bound, &software})
            free_one(*evd, v.evd_free_func);
        free_one(zone, v.pz_free_func);
        free_one(cno, v.cno_free_func);
    }

private:
    template <class Free>
    void free_one(DAT_HANDLE &what, Free how)
    {
        if (what != DAT_HANDLE_NULL)
            CHECK_EQ(how(what), DAT_SUCCESS);
        what = DAT_HANDLE_NULL;
    }

    DAT_RETURN make_zone()
    {
        if (const DAT_RETURN code = v.pz_create_func(c.ia, &zone); code != DAT_SUCCESS)
            return code;
        if (const DAT_RETURN code = v.rmr_create_func(zone, &window); code != DAT_SUCCESS)
            return code;
        return v.cno_create_func(c.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno);
    }

    DAT_RETURN make_evds()
    {
        const struct {
            DAT_EVD_HANDLE &out;
            unsigned streams;
        } wanted[] = {{requests, DAT_EVD_CR_FLAG},
                      {connections, DAT_EVD_CONNECTION_FLAG},
                      {dto, DAT_EVD_DTO_FLAG | DAT_EVD_SOFTWARE_FLAG},
                      {bound, DAT_EVD_RMR_BIND_FLAG},
                      {software, DAT_EVD_SOFTWARE_FLAG}};
        for (const auto &w : wanted)
            if (const DAT_RETURN code = v.evd_create_func(c.ia, 8, cno, flags(w.streams), &w.out);
                code != DAT_SUCCESS)
                return code;
        return DAT_SUCCESS;
    }

    DAT_RETURN make_region()
    {
        DAT_REGION_DESCRIPTION where{};
        where.for_va = buffer;
        return v.lmr_create_func(c.ia, DAT_MEM_TYPE_VIRTUAL, where, sizeof buffer, zone,
                                 DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &region, nullptr, nullptr,
                                 nullptr, nullptr);
    }

    DAT_RETURN make_endpoints()
    {
        for (DAT_EP_HANDLE *out : {&ep, &reserved})
            if (const DAT_RETURN code =
                    v.ep_create_func(c.ia, zone, dto, dto, connections, nullptr, out);
                code != DAT_SUCCESS)
                return code;
        return DAT_SUCCESS;
    }

    DAT_RETURN make_service()
    {
        DAT_CONN_QUAL qualifier = 0;
        if (const DAT_RETURN code =
                v.psp_create_any_func(c.ia, &qualifier, requests, DAT_PSP_PROVIDER_FLAG, &psp);
            code != DAT_SUCCESS)
            return code;
        if (const DAT_RETURN code = v.rsp_create_func(c.ia, here, reserved, requests, &rsp);
            code != DAT_SUCCESS)
            return code;
        if (const bool taken = arrive(qualifier); taken)
            take_request();
        return DAT_SUCCESS;
    }

    void take_request()
    {
        DAT_EVENT event;
        must(c.dequeue(requests, event));
        must(v.cr_reject_func(event.event_data.cr_arrival_event_data.cr_handle, 0, nullptr));
    }

    DAT_RETURN modify()
    {
        DAT_EP_PARAM param{};
        param.ep_attr.max_recv_dtos = 5;
        if (const DAT_RETURN code =
                v.ep_modify_func(ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &param);
            code != DAT_SUCCESS)
            return code;
        return connect();
    }

    /// Connects, leaves completions behind, ends, and resets.
    DAT_RETURN connect()
    {
        if (const DAT_RETURN code = c.connect(ep, 1); code != DAT_SUCCESS)
            return code;
        fire(*find_qp(ep), DAT_CONNECTION_EVENT_ESTABLISHED);
        must(c.post_send(ep));
        complete_send(*find_qp(ep));
        fire(*find_qp(ep), DAT_CONNECTION_EVENT_DISCONNECTED);
        return v.ep_reset_func(ep);
    }

    consumer &c;
    const DAT_PROVIDER &v;
    DAT_HANDLE zone = DAT_HANDLE_NULL, window = DAT_HANDLE_NULL, cno = DAT_HANDLE_NULL;
    DAT_HANDLE requests = DAT_HANDLE_NULL, connections = DAT_HANDLE_NULL, dto = DAT_HANDLE_NULL;
    DAT_HANDLE bound = DAT_HANDLE_NULL, software = DAT_HANDLE_NULL, region = DAT_HANDLE_NULL;
    DAT_HANDLE ep = DAT_HANDLE_NULL, reserved = DAT_HANDLE_NULL;
    DAT_HANDLE psp = DAT_HANDLE_NULL, rsp = DAT_HANDLE_NULL;
    char buffer[64] = {};
};

DAT_RETURN make_and_unmake()
{
    consumer c;
    everything all(c);
    const DAT_RETURN code = all.make();
    lab::plan_of(lab::op::qp_alloc).fail_after = -1;
    wraps::fail_allocation(-1);
    all.unmake();
    CHECK_EQ(c.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
    return code;
}

/// Connects; of a receive, 0xa1, and three sends, from 0xb1, only the first send is done.
void leave_under_way(consumer &c, station &s)
{
    s.connect_by_hand();
    must(c.post_recv(s.ep, 0xa1));
    for (const DAT_UINT64 cookie : {0xb1, 0xb2, 0xb3})
        must(c.post_send(s.ep, cookie));
    REQUIRE(complete_send(s.port()));
    CHECK_EQ(c.drain(s.request).size(), 1);
}

} // namespace

TEST_SUITE_BEGIN("failure");

TEST_CASE("without a failure everything is made and unmade")
{
    CHECK_EQ(make_and_unmake(), DAT_SUCCESS);
}

TEST_CASE("an operation of the port that fails, at its first call or a later one, is passed on")
{
    using lab::op;
    const DAT_RETURN broken = error_code(DAT_INTERNAL_ERROR);
    for (const op which : {op::pd_alloc, op::mr_register, op::cq_alloc, op::qp_alloc, op::listen,
                           op::connect, op::qp_reset})
        for (int skip = 0; skip < 6; ++skip) {
            CAPTURE(static_cast<int>(which));
            CAPTURE(skip);
            consumer c;
            everything all(c);
            lab::fail(which, broken, skip);
            const DAT_RETURN code = all.make();
            const bool reached = lab::plan_of(which).fail_after.load() < 0;
            CHECK_EQ(code, reached ? broken : success.code());
            lab::plan_of(which).fail_after = -1;
            all.unmake();
            CHECK_EQ(c.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
        }
}

TEST_CASE("an adapter that cannot be opened leaves nothing: device, or async EVD")
{
    lab::reset();
    const DAT_PROVIDER &v = provider(line::nonthreadsafe);
    char name[] = "programmable-lo";
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    const DAT_RETURN broken = error_code(DAT_INTERNAL_ERROR);
    lab::fail(lab::op::open_hca, broken);
    CHECK_EQ(v.ia_open_func(name, 8, &async, &ia), broken);
    CHECK_EQ(v.ia_open_func(name, 1'000'000, &async, &ia),
             error_code(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD));
    CHECK_EQ(DAT_GET_TYPE(v.ia_open_func(name, 0, &async, &ia)), DAT_INVALID_PARAMETER);
    CHECK_EQ(ia, DAT_HANDLE_NULL);
    CHECK_EQ(async, DAT_HANDLE_NULL);
    CHECK_EQ(lab::live_objects.load(), 0);
    CHECK_EQ(lab::calls(lab::op::close_hca), 1);
}

TEST_CASE("an adapter that is not registered is PROVIDER_NOT_FOUND")
{
    const DAT_PROVIDER &v = provider(line::nonthreadsafe);
    char name[] = "another-lo";
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    CHECK_EQ(DAT_GET_TYPE(v.ia_open_func(name, 8, &async, &ia)), DAT_PROVIDER_NOT_FOUND);
}

TEST_CASE("every allocation that fails is INSUFFICIENT_RESOURCES, and leaves nothing behind")
{
    const DAT_RETURN expected = error_code(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    int failures = 0;
    for (int skip = 0; skip < 200; ++skip) {
        CAPTURE(skip);
        consumer c;
        everything all(c);
        wraps::fail_allocation(skip);
        const DAT_RETURN code = all.make();
        const bool failed = wraps::allocation_failed();
        wraps::fail_allocation(-1);
        // One without a code: a request that finds no memory is refused.
        if (failed)
            CHECK((code == expected || code == DAT_SUCCESS));
        failures += code == expected;
        all.unmake();
        CHECK_EQ(c.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
        if (!failed)
            break;
    }
    CHECK(failures > 10);
}

TEST_CASE("no memory to open an adapter")
{
    lab::reset();
    const DAT_PROVIDER &v = provider(line::nonthreadsafe);
    char name[] = "programmable-lo";
    for (int skip = 0; skip < 3; ++skip) {
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
        wraps::fail_allocation(skip);
        CHECK_EQ(v.ia_open_func(name, 8, &async, &ia),
                 error_code(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
        wraps::fail_allocation(-1);
        CHECK_EQ(lab::live_objects.load(), 0);
    }
}

TEST_CASE("a reset that fails leaves the endpoint DISCONNECTED; the next one works")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    must(c.post_send(s.ep));
    REQUIRE(complete_send(s.port()));
    REQUIRE(fire(s.port(), DAT_CONNECTION_EVENT_DISCONNECTED));
    lab::fail(lab::op::qp_reset, error_code(DAT_INTERNAL_ERROR));
    CHECK_EQ(c.v.ep_reset_func(s.ep), error_code(DAT_INTERNAL_ERROR));
    CHECK_EQ(c.state(s.ep), DAT_EP_STATE_DISCONNECTED);
    wraps::fail_allocation(0);
    CHECK_EQ(DAT_GET_TYPE(c.v.ep_reset_func(s.ep)), DAT_INSUFFICIENT_RESOURCES);
    wraps::fail_allocation(-1);
    CHECK_EQ(c.state(s.ep), DAT_EP_STATE_DISCONNECTED);
    must(c.v.ep_reset_func(s.ep));
    CHECK(c.drain(s.request).empty());
}

TEST_CASE("a reset without memory for either queue leaves the endpoint as it was")
{
    for (int skip : {0, 1, 2, 3}) {
        CAPTURE(skip);
        consumer c;
        station s(c);
        s.connect_by_hand();
        must(c.post_recv(s.ep));
        must(c.post_send(s.ep));
        REQUIRE(complete_send(s.port()));
        REQUIRE(fire(s.port(), DAT_CONNECTION_EVENT_DISCONNECTED));
        wraps::fail_allocation(skip);
        CHECK_EQ(DAT_GET_TYPE(c.v.ep_reset_func(s.ep)), DAT_INSUFFICIENT_RESOURCES);
        wraps::fail_allocation(-1);
        CHECK_EQ(c.state(s.ep), DAT_EP_STATE_DISCONNECTED);
        CHECK_EQ(lab::calls(lab::op::qp_reset), 0);
        CHECK_EQ(c.drain(s.request).size(), 1);
    }
}

TEST_CASE("a resize without memory for any of its rings leaves the EVD as it was")
{
    consumer c;
    constexpr unsigned streams = DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CONNECTION_FLAG |
                                 (port_features.cq_resize ? unsigned{DAT_EVD_DTO_FLAG} : 0u);
    const DAT_EVD_HANDLE e = c.make_evd(streams, 4);
    const int rings = port_features.cq_resize ? 3 : 1;
    for (int skip = 0; skip < rings; ++skip) {
        CAPTURE(skip);
        for (int i = 0; i < 4; ++i)
            must(c.post_se(e));
        wraps::fail_allocation(skip);
        CHECK_EQ(c.v.evd_resize_func(e, 8),
                 error_code(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
        wraps::fail_allocation(-1);
        CHECK_EQ(c.post_se(e), error_code(DAT_QUEUE_FULL));
        CHECK_EQ(c.drain(e).size(), 4);
    }
    CHECK_EQ(lab::calls(lab::op::cq_resize), 0);
}

TEST_CASE("a connect refused as unreachable succeeds and reports that by an event")
{
    consumer c;
    station s(c);
    lab::fail(lab::op::connect, error_code(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE));
    must(c.post_recv(s.ep, 6));
    CHECK_EQ(c.connect(s.ep, 1, 1'000'000), DAT_SUCCESS);
    CHECK_EQ(s.connect_event(), DAT_CONNECTION_EVENT_UNREACHABLE);
    CHECK_EQ(c.state(s.ep), DAT_EP_STATE_DISCONNECTED);
    must(c.post_send(s.ep, 7));
    DAT_EVENT event;
    must(c.dequeue(s.recv, event));
    CHECK_EQ(cookie_of(event), 6);
    CHECK_EQ(status_of(event), DAT_DTO_ERR_FLUSHED);
    must(c.dequeue(s.request, event));
    CHECK_EQ(cookie_of(event), 7);
    CHECK_EQ(status_of(event), DAT_DTO_ERR_FLUSHED);
}

TEST_CASE("no memory for an SRQ, its port, or an endpoint on it: nothing stays behind" *
          doctest::skip(!port_features.srq))
{
    for (int skip = 0; skip < 12; ++skip) {
        CAPTURE(skip);
        consumer c;
        const DAT_PZ_HANDLE pz = c.make_pz();
        const DAT_EVD_HANDLE dto = c.make_evd(DAT_EVD_DTO_FLAG, 64);
        DAT_SRQ_ATTR attr{4, 1, 0};
        DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        wraps::fail_allocation(skip);
        DAT_RETURN code = c.v.srq_create_func(c.ia, pz, &attr, &srq);
        if (code == DAT_SUCCESS)
            code = c.v.ep_create_with_srq_func(c.ia, pz, dto, dto, nullptr, srq, nullptr, &ep);
        CHECK_EQ(code == DAT_SUCCESS, !wraps::allocation_failed());
        wraps::fail_allocation(-1);
    }
    consumer c;
    DAT_SRQ_ATTR attr{4, 1, 0};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    lab::fail(lab::op::srq_alloc, error_code(DAT_INTERNAL_ERROR));
    CHECK_EQ(c.v.srq_create_func(c.ia, c.make_pz(), &attr, &srq), error_code(DAT_INTERNAL_ERROR));
}

TEST_CASE("operations not known to be done are shown when their endpoint is reset or freed")
{
    for (const bool freed : {false, true}) {
        CAPTURE(freed);
        consumer c;
        station s(c);
        leave_under_way(c, s);
        REQUIRE(fire(s.port(), DAT_CONNECTION_EVENT_DISCONNECTED));
        const std::string said = standard_error_of([&] {
            const unsigned before = debug_mask.exchange(DAPL_DBG_TYPE_DTO_COMP_ERR);
            must(freed ? c.v.ep_free_func(s.ep) : c.v.ep_reset_func(s.ep));
            debug_mask = before;
        });
        CAPTURE(said);
        CHECK(said.find("requests: 2 outstanding") != std::string::npos);
        CHECK(said.find("DAT_DTO_SEND, 0 bytes, cookie 0xb1, done") != std::string::npos);
        CHECK(said.find("DAT_DTO_SEND, 0 bytes, cookie 0xb2, not known to be done") !=
              std::string::npos);
        CHECK(said.find("DAT_DTO_SEND, 0 bytes, cookie 0xb3, not known to be done") !=
              std::string::npos);
        CHECK(said.find("receives: 1 outstanding") != std::string::npos);
        CHECK(said.find("DAT_DTO_RECEIVE, 24 bytes, cookie 0xa1, not known") != std::string::npos);
    }
}

TEST_CASE("posts that are refused are reported with the reason, so many in a second")
{
    consumer c;
    station s(c);
    const std::string said = standard_error_of([&] {
        const unsigned before = debug_mask.exchange(DAPL_DBG_TYPE_EP);
        for (int i = 0; i < 100; ++i)
            CHECK_EQ(c.v.ep_post_recv_func(s.ep, 1, nullptr, {}, DAT_COMPLETION_DEFAULT_FLAG),
                     error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
        debug_mask = before;
    });
    CAPTURE(said);
    CHECK(said.find("a post (DAT_DTO_RECEIVE) is refused: DAT_INVALID_PARAMETER DAT_INVALID_ARG3; "
                    "0 of ") != std::string::npos);
    const auto lines = std::count(said.begin(), said.end(), '\n');
    CHECK(lines >= 1);
    CHECK(lines < 100); // ten, or some more on a machine that takes seconds for this
}

namespace {

/// What the log says of a call that is refused: one line. Lines are limited, so it is made again
/// until there is one.
std::string line_of(const std::function<DAT_RETURN()> &call)
{
    std::string said;
    for (int i = 0; i < 1000 && said.empty(); ++i) {
        said = standard_error_of([&] {
            const unsigned before = debug_mask.exchange(DAPL_DBG_TYPE_EP);
            CHECK(call() != DAT_SUCCESS);
            debug_mask = before;
        });
        if (said.empty())
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    CHECK_EQ(std::count(said.begin(), said.end(), '\n'), 1);
    return said;
}

void check_line(const std::function<DAT_RETURN()> &call, const std::string &expected)
{
    const std::string said = line_of(call);
    CAPTURE(said);
    CAPTURE(expected);
    CHECK(said.find(expected) != std::string::npos);
}

std::string text_of(const void *handle)
{
    char text[32];
    std::snprintf(text, sizeof text, "%p", handle);
    return text;
}

} // namespace

TEST_CASE("each refused post of an endpoint is reported once: which, where, why and by whom")
{
    consumer c;
    station s(c);
    const std::string here = "EP " + text_of(s.ep) + " in state DAT_EP_STATE_";
    const std::string full = " are outstanding: a completion that is dequeued makes room; ";
    check_line([&] { return c.post_send(s.ep); },
               here + "UNCONNECTED: a post (DAT_DTO_SEND) is refused: DAT_INVALID_STATE "
                      "DAT_INVALID_STATE_EP_UNCONNECTED; 0 of 16 are outstanding; ");
    s.connect_by_hand();
    check_line(
        [&] {
            lab::fail(lab::op::post_recv, error_code(DAT_INTERNAL_ERROR));
            return c.post_recv(s.ep);
        },
        here + "CONNECTED: a post (DAT_DTO_RECEIVE) is refused by the port: DAT_INTERNAL_ERROR");
    check_line(
        [&] {
            lab::fail(lab::op::post_send, error_code(DAT_INTERNAL_ERROR));
            return c.post_send(s.ep);
        },
        here + "CONNECTED: a post (DAT_DTO_SEND) is refused by the port: DAT_INTERNAL_ERROR");
    for (int i = 0; i < 16; ++i)
        must(c.post_recv(s.ep));
    check_line([&] { return c.post_recv(s.ep); }, "16 of 16" + full);
    for (int i = 0; i < 16; ++i)
        must(c.post_send(s.ep));
    check_line([&] { return c.post_send(s.ep); }, "16 of 16" + full);
}

TEST_CASE("refused posts of the rare operations are reported like the others")
{
    consumer c;
    station s(c, c.make_evd(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, 64),
              c.make_evd(DAT_EVD_CONNECTION_FLAG));
    constexpr auto normally = DAT_COMPLETION_DEFAULT_FLAG;
    DAT_RMR_HANDLE window = DAT_HANDLE_NULL;
    must(c.v.rmr_create_func(s.pz, &window));
    const std::string by_port = " is refused by the port: DAT_INTERNAL_ERROR";
    const auto ports_error = [] { lab::fail(lab::op::post_send, error_code(DAT_INTERNAL_ERROR)); };
    DAT_LMR_TRIPLET nothing{};
    const auto bind = [&](const DAT_LMR_TRIPLET *part) {
        return c.v.rmr_bind_func(window, DAT_HANDLE_NULL, part, DAT_MEM_PRIV_REMOTE_READ_FLAG,
                                 DAT_VA_TYPE_VA, s.ep, cookie(1), normally, nullptr);
    };
    check_line([&] { return bind(nullptr); },
               "a post (DAT_DTO_BIND_MW) is refused: DAT_INVALID_PARAMETER DAT_INVALID_ARG3; ");
    check_line([&] { return bind(&nothing); }, "a post (DAT_DTO_BIND_MW) is refused: ");
    check_line(
        [&] {
            return c.v.ep_post_send_with_invalidate_func(s.ep, 1, nullptr, cookie(2), normally,
                                                         DAT_FALSE, 5);
        },
        "a post (DAT_DTO_SEND) is refused: DAT_INVALID_PARAMETER DAT_INVALID_ARG3; 0 of 16");
    check_line(
        [&] {
            return c.v.ep_post_rdma_read_to_rmr_func(s.ep, nullptr, cookie(3), nullptr, normally);
        },
        "a post (DAT_DTO_RDMA_READ) is refused: DAT_INVALID_PARAMETER DAT_INVALID_ARG2; 0 of 16");
    s.connect_by_hand();
    if (port_features.memory_windows)
        check_line(
            [&] {
                ports_error();
                return bind(&nothing);
            },
            "a post (DAT_DTO_BIND_MW)" + by_port);
    if (!port_features.immediate_data)
        return;
    DAT_LMR_TRIPLET local{0x1000, 8, 1};
    DAT_RMR_TRIPLET remote{0x2000, 8, 2};
    const auto write = [&](const DAT_RMR_TRIPLET *there) {
        return extended(c, s.ep, DAT_IB_RDMA_WRITE_IMMED_OP, DAT_COUNT{1}, &local, cookie(4), there,
                        DAT_UINT32{7}, normally);
    };
    check_line([&] { return write(nullptr); },
               "a post (DAT_IB_DTO_RDMA_WRITE_IMMED) is refused: DAT_INVALID_PARAMETER "
               "DAT_INVALID_ARG5; 0 of 16");
    check_line(
        [&] {
            ports_error();
            return write(&remote);
        },
        "a post (DAT_IB_DTO_RDMA_WRITE_IMMED)" + by_port);
}

TEST_CASE("a receive that an SRQ refuses is reported like the others" *
          doctest::skip(!port_features.srq))
{
    consumer c;
    DAT_SRQ_ATTR attr{4, 1, 0};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    must(c.v.srq_create_func(c.ia, c.make_pz(), &attr, &srq));
    const std::string refused = "SRQ " + text_of(srq) + ": a post (DAT_DTO_RECEIVE) is refused";
    DAT_LMR_TRIPLET room{};
    check_line([&] { return c.v.srq_post_recv_func(srq, 1, nullptr, cookie(1)); },
               refused + ": DAT_INVALID_PARAMETER DAT_INVALID_ARG3; 0 of 4 are outstanding; ");
    check_line(
        [&] {
            lab::fail(lab::op::post_recv, error_code(DAT_INTERNAL_ERROR));
            return c.v.srq_post_recv_func(srq, 1, &room, cookie(1));
        },
        refused + " by the port: DAT_INTERNAL_ERROR");
    for (int i = 0; i < 4; ++i)
        must(c.v.srq_post_recv_func(srq, 1, &room, cookie(2)));
    check_line([&] { return c.v.srq_post_recv_func(srq, 1, &room, cookie(3)); },
               refused +
                   ": DAT_INSUFFICIENT_RESOURCES DAT_RESOURCE_MEMORY; 4 of 4 are outstanding: "
                   "a completion that is dequeued makes room; ");
}

TEST_CASE("a wait that expires names the endpoints with operations outstanding there")
{
    consumer c;
    station s(c);
    station other(c);
    leave_under_way(c, s);
    const auto said_by_wait = [&](DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout_us) {
        return standard_error_of([&] {
            const unsigned before = debug_mask.exchange(DAPL_DBG_TYPE_DTO_COMP_ERR);
            CHECK_EQ(DAT_GET_TYPE(c.wait(evd, timeout_us).code), DAT_TIMEOUT_EXPIRED);
            debug_mask = before;
        });
    };
    const std::string of_requests = said_by_wait(s.request, 1000);
    CAPTURE(of_requests);
    CHECK(of_requests.find("requests: 2 outstanding") != std::string::npos);
    CHECK(of_requests.find("receives") == std::string::npos);
    const std::string of_receives = said_by_wait(s.recv, 1000);
    CAPTURE(of_receives);
    CHECK(of_receives.find("receives: 1 outstanding") != std::string::npos);
    CHECK_EQ(said_by_wait(other.request, 1000), "");
    CHECK_EQ(said_by_wait(s.request, 0), ""); // a poll
}

TEST_CASE("completed operations are not logged, nor any while that log type is off")
{
    for (const unsigned mask : {0u, unsigned{DAPL_DBG_TYPE_DTO_COMP_ERR}}) {
        CAPTURE(mask);
        consumer c;
        station s(c);
        s.connect_by_hand();
        must(c.post_send(s.ep));
        REQUIRE(complete_send(s.port()));
        if (mask != 0)
            CHECK_EQ(c.drain(s.request).size(), 1);
        const std::string said = standard_error_of([&] {
            const unsigned before = debug_mask.exchange(mask);
            must(c.v.ep_free_func(s.ep));
            debug_mask = before;
        });
        CHECK_EQ(said, "");
    }
}

TEST_CASE("an attempt to connect that fails is logged with its peer, by a few lines")
{
    const auto said_of = [](DAT_EVENT_NUMBER outcome, int times) {
        consumer c;
        station s(c);
        return standard_error_of([&] {
            const unsigned before = debug_mask.exchange(DAPL_DBG_TYPE_ERR);
            for (int i = 0; i < times; ++i) {
                must(c.connect(s.ep, 4711));
                REQUIRE(fire(s.port(), outcome));
                CHECK_EQ(s.connect_event(), outcome);
                must(c.v.ep_reset_func(s.ep));
            }
            debug_mask = before;
        });
    };
    const auto has = [](const std::string &said, const char *what) {
        return said.find(what) != std::string::npos;
    };
    const std::string refused = said_of(DAT_CONNECTION_EVENT_NON_PEER_REJECTED, 1);
    CAPTURE(refused);
    CHECK(has(refused, "no connection to 0.0.0.0:4711: nobody listens there"));
    CHECK(has(refused, "NON_PEER_REJECTED"));
    CHECK(has(said_of(DAT_CONNECTION_EVENT_UNREACHABLE, 1), "no way to it"));
    CHECK(has(said_of(DAT_CONNECTION_EVENT_TIMED_OUT, 1), "no answer in time"));
    CHECK_EQ(said_of(DAT_CONNECTION_EVENT_PEER_REJECTED, 1), ""); // its consumer's own affair
    const std::string many = said_of(DAT_CONNECTION_EVENT_NON_PEER_REJECTED, 50);
    CHECK_EQ(std::count(many.begin(), many.end(), '\n'), 3);
}

TEST_CASE("arguments of a connection that are refused are logged with what is possible")
{
    consumer c;
    station s(c);
    const int most = from_handle<adapter>(c.ia)->attr.max_private_data_size;
    const auto said_to_connect = [&](DAT_COUNT size, const void *bytes, bool six = false) {
        sockaddr_in6 address{};
        address.sin6_family = static_cast<decltype(address.sin6_family)>(six ? AF_INET6 : AF_INET);
        return standard_error_of([&] {
            const unsigned before = debug_mask.exchange(DAPL_DBG_TYPE_ERR);
            CHECK(c.v.ep_connect_func(s.ep, reinterpret_cast<DAT_SOCK_ADDR *>(&address), 1,
                                      1'000'000, size, const_cast<void *>(bytes),
                                      DAT_QOS_BEST_EFFORT,
                                      DAT_CONNECT_DEFAULT_FLAG) != DAT_SUCCESS);
            debug_mask = before;
        });
    };
    const auto has = [](const std::string &said, const std::string &what) {
        CAPTURE(said);
        return said.find(what) != std::string::npos &&
               std::count(said.begin(), said.end(), '\n') == 1;
    };
    const std::string possible = "refused: 0 to " + std::to_string(most) + " are possible";
    CHECK(has(said_to_connect(most + 1, "x"), possible));
    CHECK(has(said_to_connect(-3, "x"), "private data of -3 bytes are " + possible));
    CHECK(has(said_to_connect(1, nullptr), "their address is null"));
    lab::fail(lab::op::connect, error_code(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED));
    CHECK(has(said_to_connect(0, nullptr, true),
              "an address that is IPv6 is refused, this adapter is IPv4; the option family"));
}

TEST_CASE("async events that are lost are logged once, until one is stored again")
{
    consumer c(line::nonthreadsafe, 2);
    const auto lines_of = [&c](int events) {
        const std::string said = standard_error_of([&c, events] {
            const unsigned before = debug_mask.exchange(DAPL_DBG_TYPE_ERR);
            for (int i = 0; i < events; ++i)
                fire_hca_error(from_handle<adapter>(c.ia)->hca);
            debug_mask = before;
        });
        return std::count(said.begin(), said.end(), '\n');
    };
    CHECK_EQ(lines_of(2), 0);
    CHECK_EQ(lines_of(50), 1);
    CHECK_EQ(lines_of(50), 0);
    CHECK_EQ(c.drain(c.async).size(), 2);
    CHECK_EQ(lines_of(2), 0);
    CHECK_EQ(lines_of(50), 1);
}

TEST_SUITE_END();
