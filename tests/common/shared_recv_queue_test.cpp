// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// SRQ: receives that several endpoints draw from, in any order, and receives that an endpoint took
// before it went.
#include "fixture.hpp"

using namespace test;

namespace {

constexpr bool srq_claimed = port_features.srq;
constexpr DAT_RETURN srq_refused = error_code(DAT_MODEL_NOT_SUPPORTED);

/// An SRQ, and endpoints that draw from it; all receives complete in one EVD.
struct pond {
    explicit pond(consumer &on, DAT_COUNT depth = 4) : c(on)
    {
        DAT_SRQ_ATTR attr{depth, 1, DAT_SRQ_LW_DEFAULT};
        must(c.v.srq_create_func(c.ia, pz, &attr, &srq));
        for (DAT_EP_HANDLE &ep : eps)
            ep = make_ep();
    }

    DAT_EP_HANDLE make_ep()
    {
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        must(c.v.ep_create_with_srq_func(c.ia, pz, recv, request, connections, srq, nullptr, &ep));
        return ep;
    }
    DAT_RETURN post(DAT_UINT64 number)
    {
        DAT_LMR_TRIPLET room{};
        room.segment_length = 24;
        return c.v.srq_post_recv_func(srq, 1, &room, cookie(number));
    }
    void connect(DAT_EP_HANDLE ep)
    {
        must(c.connect(ep, 1));
        REQUIRE(fire(*find_qp(ep), DAT_CONNECTION_EVENT_ESTABLISHED));
        REQUIRE_EQ(c.drain(connections).size(), 1);
    }
    void free_eps()
    {
        for (DAT_EP_HANDLE ep : eps)
            must(c.v.ep_free_func(ep));
    }

    consumer &c;
    DAT_PZ_HANDLE pz = c.make_pz();
    DAT_EVD_HANDLE recv = c.make_evd(DAT_EVD_DTO_FLAG, 64);
    DAT_EVD_HANDLE request = c.make_evd(DAT_EVD_DTO_FLAG, 64);
    DAT_EVD_HANDLE connections = c.make_evd(DAT_EVD_CONNECTION_FLAG);
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    DAT_EP_HANDLE eps[2];
};

DAT_EP_HANDLE ep_of(const DAT_EVENT &event)
{
    return event.event_data.dto_completion_event_data.ep_handle;
}

} // namespace

TEST_SUITE_BEGIN("shared_recv_queue");

TEST_CASE("a port without shared receive queues refuses them" * doctest::skip(srq_claimed))
{
    consumer c;
    DAT_SRQ_ATTR attr{4, 1, 0};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    CHECK_EQ(c.v.srq_create_func(c.ia, c.make_pz(), &attr, &srq), srq_refused);
    CHECK_EQ(c.v.ep_create_with_srq_func(c.ia, c.make_pz(), nullptr, nullptr, nullptr, nullptr,
                                         nullptr, &ep),
             srq_refused);
}

TEST_CASE("create looks at its arguments" * doctest::skip(!srq_claimed))
{
    consumer c;
    const DAT_PZ_HANDLE pz = c.make_pz();
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    DAT_SRQ_ATTR good{4, 1, 4};
    CHECK_EQ(c.v.srq_create_func(c.ia, c.ia, &good, &srq),
             error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_PZ));
    for (DAT_SRQ_ATTR bad : {DAT_SRQ_ATTR{0, 1, 0}, DAT_SRQ_ATTR{4, 0, 0}, DAT_SRQ_ATTR{4, 1, 5},
                             DAT_SRQ_ATTR{100000, 1, 0}, DAT_SRQ_ATTR{4, 1, -1}})
        CHECK_EQ(c.v.srq_create_func(c.ia, pz, &bad, &srq),
                 error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    CHECK_EQ(c.v.srq_create_func(c.ia, pz, &good, nullptr),
             error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4));
    must(c.v.srq_create_func(c.ia, pz, &good, &srq));
    DAT_SRQ_PARAM param;
    must(c.v.srq_query_func(srq, DAT_SRQ_FIELD_ALL, &param));
    CHECK_EQ(param.max_recv_dtos, 4);
    CHECK_EQ(param.low_watermark, 4);
    CHECK_EQ(param.pz_handle, pz);
    CHECK_EQ(param.srq_state, DAT_SRQ_STATE_OPERATIONAL);
    CHECK_EQ(c.v.pz_free_func(pz), error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE));
    CHECK_EQ(c.close(DAT_CLOSE_GRACEFUL_FLAG),
             error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE));
    must(c.v.srq_free_func(srq));
    CHECK_EQ(c.v.srq_free_func(srq), error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_SRQ));
}

TEST_CASE("an endpoint on an SRQ: zone and EVD must fit, it takes no receives of its own" *
          doctest::skip(!srq_claimed))
{
    consumer c;
    pond p(c);
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    CHECK_EQ(c.v.ep_create_with_srq_func(c.ia, c.make_pz(), p.recv, p.request, p.connections, p.srq,
                                         nullptr, &ep),
             error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    CHECK_EQ(c.v.ep_create_with_srq_func(c.ia, p.pz, nullptr, p.request, p.connections, p.srq,
                                         nullptr, &ep),
             error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EVD_RECV));
    CHECK_EQ(c.v.ep_create_with_srq_func(c.ia, p.pz, p.recv, p.request, p.connections, p.pz,
                                         nullptr, &ep),
             error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_SRQ));
    CHECK_EQ(c.post_recv(p.eps[0]), error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_SRQ_IN_USE));
    CHECK_EQ(c.v.srq_free_func(p.srq), error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_SRQ_IN_USE));
    DAT_EP_PARAM param;
    must(c.v.ep_query_func(p.eps[0], DAT_EP_FIELD_ALL, &param));
    CHECK_EQ(param.srq_handle, p.srq);
    p.free_eps();
    must(c.v.srq_free_func(p.srq));
}

TEST_CASE("an endpoint on an SRQ is not modified to what it could not be made with" *
          doctest::skip(!srq_claimed))
{
    consumer c;
    pond p(c);
    const auto modify = [&](DAT_EP_PARAM_MASK field, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv) {
        DAT_EP_PARAM wanted{};
        wanted.pz_handle = pz;
        wanted.recv_evd_handle = recv;
        return c.v.ep_modify_func(p.eps[0], field, &wanted);
    };
    for (const DAT_PZ_HANDLE other : {c.make_pz(), DAT_PZ_HANDLE{}})
        CHECK_EQ(modify(DAT_EP_FIELD_PZ_HANDLE, other, p.recv),
                 error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    CHECK_EQ(modify(DAT_EP_FIELD_RECV_EVD_HANDLE, p.pz, DAT_HANDLE_NULL),
             error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EVD_RECV));
    const DAT_EVD_HANDLE another = c.make_evd(DAT_EVD_DTO_FLAG);
    must(modify(DAT_EP_FIELD_RECV_EVD_HANDLE, p.pz, another));
    p.connect(p.eps[0]);
    must(p.post(1));
    CHECK(complete_shared_recv(*find_qp(p.eps[0]), 10));
    CHECK_EQ(c.drain(another).size(), 1);
    p.free_eps();
}

TEST_CASE("a receive completes at the endpoint that took it, and its place is free again" *
          doctest::skip(!srq_claimed))
{
    consumer c;
    pond p(c);
    for (DAT_EP_HANDLE ep : p.eps)
        p.connect(ep);
    for (DAT_UINT64 round = 0; round < 100; ++round) {
        for (DAT_UINT64 i = 0; i < 4; ++i)
            must(p.post(i));
        CHECK_EQ(p.post(9), error_code(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
        for (DAT_UINT64 i = 0; i < 4; ++i)
            REQUIRE(complete_shared_recv(*find_qp(p.eps[(i + round) % 2]), 10));
        const auto events = c.drain(p.recv);
        REQUIRE_EQ(events.size(), 4);
        for (DAT_UINT64 i = 0; i < 4; ++i) {
            CHECK_EQ(cookie_of(events[i]), i);
            CHECK_EQ(ep_of(events[i]), p.eps[(i + round) % 2]);
            CHECK_EQ(events[i].event_data.dto_completion_event_data.transfered_length, 10);
        }
    }
}

TEST_CASE("what a freed or reset endpoint took surfaces no more, and its place is free" *
          doctest::skip(!srq_claimed))
{
    for (const bool staged : {false, true})
        for (const bool reset : {false, true}) {
            CAPTURE(staged);
            CAPTURE(reset);
            consumer c;
            pond p(c);
            for (DAT_EP_HANDLE ep : p.eps)
                p.connect(ep);
            for (DAT_UINT64 i = 0; i < 4; ++i) {
                must(p.post(i));
                REQUIRE(complete_shared_recv(*find_qp(p.eps[i % 2])));
            }
            if (staged)
                (void)c.wait(p.recv, 0, 60);
            REQUIRE(fire(*find_qp(p.eps[0]), DAT_CONNECTION_EVENT_DISCONNECTED));
            must(reset ? c.v.ep_reset_func(p.eps[0]) : c.v.ep_free_func(p.eps[0]));
            const auto events = c.drain(p.recv);
            REQUIRE_EQ(events.size(), 2);
            CHECK_EQ(ep_of(events[0]), p.eps[1]);
            for (DAT_UINT64 i = 0; i < 4; ++i)
                must(p.post(i));
            if (!reset)
                continue;
            CHECK_EQ(c.drain(p.connections).size(), 1);
            p.connect(p.eps[0]);
            REQUIRE(complete_shared_recv(*find_qp(p.eps[0])));
            CHECK_EQ(c.drain(p.recv).size(), 1);
        }
}

TEST_CASE("what a freed endpoint took is free again when its EVD goes unpolled" *
          doctest::skip(!srq_claimed))
{
    for (const bool staged : {false, true}) {
        CAPTURE(staged);
        consumer c;
        pond p(c);
        for (int round = 0; round < 3; ++round) {
            p.connect(p.eps[0]);
            for (DAT_UINT64 i = 0; i < 4; ++i) {
                must(p.post(i));
                REQUIRE(complete_shared_recv(*find_qp(p.eps[0])));
            }
            if (staged)
                (void)c.wait(p.recv, 0, 60);
            p.free_eps();
            must(c.v.evd_free_func(p.recv));
            p.recv = c.make_evd(DAT_EVD_DTO_FLAG, 64);
            for (DAT_EP_HANDLE &ep : p.eps)
                ep = p.make_ep();
        }
    }
}

TEST_CASE("an SRQ may go while completions of its receives are unpolled" *
          doctest::skip(!srq_claimed))
{
    consumer c;
    pond p(c);
    p.connect(p.eps[0]);
    for (DAT_UINT64 i = 0; i < 3; ++i)
        must(p.post(i));
    REQUIRE(complete_shared_recv(*find_qp(p.eps[0])));
    REQUIRE(complete_shared_recv(*find_qp(p.eps[0])));
    p.free_eps();
    must(c.v.srq_free_func(p.srq));
    CHECK(c.drain(p.recv).empty());
}

TEST_CASE("resize: up and down, not below what is posted or the low watermark" *
          doctest::skip(!srq_claimed))
{
    consumer c;
    pond p(c);
    for (DAT_UINT64 i = 0; i < 4; ++i)
        must(p.post(i));
    CHECK_EQ(c.v.srq_resize_func(p.srq, 0), error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    CHECK_EQ(c.v.srq_resize_func(p.srq, 3), error_code(DAT_INVALID_STATE));
    must(c.v.srq_resize_func(p.srq, 6));
    must(p.post(4));
    must(p.post(5));
    CHECK_EQ(DAT_GET_TYPE(p.post(6)), DAT_INSUFFICIENT_RESOURCES);
    p.connect(p.eps[0]);
    for (int i = 0; i < 6; ++i)
        REQUIRE(complete_shared_recv(*find_qp(p.eps[0])));
    CHECK_EQ(c.drain(p.recv).size(), 6);
    must(c.v.srq_resize_func(p.srq, 2));
    must(p.post(0));
    must(p.post(1));
    CHECK_EQ(DAT_GET_TYPE(p.post(2)), DAT_INSUFFICIENT_RESOURCES);
    lab::fail(lab::op::srq_resize, error_code(DAT_INTERNAL_ERROR));
    CHECK_EQ(c.v.srq_resize_func(p.srq, 8), error_code(DAT_INTERNAL_ERROR));
    CHECK_EQ(DAT_GET_TYPE(p.post(2)), DAT_INSUFFICIENT_RESOURCES);
}

TEST_CASE("no receive is posted between the check of a resize and the port's resize" *
          doctest::skip(!srq_claimed))
{
    consumer c(line::threadsafe);
    pond p(c);
    must(p.post(0));
    must(p.post(1));
    lab::latch held;
    lab::plan_of(lab::op::srq_resize).gate = &held;
    DAT_RETURN resized = DAT_SUCCESS;
    std::thread resizing([&] { resized = c.v.srq_resize_func(p.srq, 2); });
    held.await_arrival();
    DAT_RETURN posted = DAT_SUCCESS;
    std::atomic<bool> has_posted{false};
    std::thread posting([&] {
        posted = p.post(2);
        has_posted = true;
    });
    for (int i = 0; i < 50 && !has_posted; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lab::plan_of(lab::op::srq_resize).gate = nullptr;
    held.open();
    resizing.join();
    posting.join();
    CHECK_EQ(resized, DAT_SUCCESS);
    CHECK_EQ(posted, error_code(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    CHECK(lab::violations().empty());
    p.connect(p.eps[0]);
    for (int i = 0; i < 2; ++i)
        REQUIRE(complete_shared_recv(*find_qp(p.eps[0])));
    CHECK_EQ(c.drain(p.recv).size(), 2);
}

TEST_CASE("the low watermark is one asynchronous event for each arming" *
          doctest::skip(!srq_claimed))
{
    consumer c;
    pond p(c);
    CHECK_EQ(c.v.srq_set_lw_func(p.srq, 5), error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    p.connect(p.eps[0]);
    for (int arming = 0; arming < 2; ++arming) {
        for (DAT_UINT64 i = 0; i < 4; ++i)
            must(p.post(i));
        must(c.v.srq_set_lw_func(p.srq, 4));
        for (int i = 0; i < 4; ++i)
            REQUIRE(complete_shared_recv(*find_qp(p.eps[0])));
        const auto events = c.drain(c.async);
        REQUIRE_EQ(events.size(), 1);
        CHECK_EQ(events[0].event_data.asynch_error_event_data.dat_handle, p.srq);
        CHECK_EQ(events[0].event_data.asynch_error_event_data.reason, DAT_SRQ_LOW_WATERMARK_EVENT);
        (void)c.drain(p.recv);
    }
}

TEST_CASE("after its disconnect an endpoint says that it takes no receive any more" *
          doctest::skip(!srq_claimed))
{
    consumer c;
    pond p(c);
    for (DAT_EP_HANDLE ep : p.eps)
        p.connect(ep);
    for (DAT_EP_HANDLE ep : p.eps)
        REQUIRE(fire(*find_qp(ep), DAT_CONNECTION_EVENT_DISCONNECTED));
    const auto events = c.drain(c.async);
    REQUIRE_EQ(events.size(), 2);
    for (int i = 0; i < 2; ++i) {
        CHECK_EQ(events[i].event_number, DAT_ASYNC_ERROR_EP_BROKEN);
        CHECK_EQ(events[i].event_data.asynch_error_event_data.dat_handle, p.eps[i]);
    }
}

TEST_SUITE_END();
