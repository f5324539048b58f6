// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The life of a connection: states, events, each exactly once.
#include "fixture.hpp"

using namespace test;

namespace {

constexpr DAT_EVENT_NUMBER established = DAT_CONNECTION_EVENT_ESTABLISHED;
constexpr DAT_EVENT_NUMBER disconnected = DAT_CONNECTION_EVENT_DISCONNECTED;
constexpr DAT_EVENT_NUMBER broken = DAT_CONNECTION_EVENT_BROKEN;

std::vector<int> numbers(consumer &c, DAT_EVD_HANDLE evd)
{
    std::vector<int> out;
    for (const DAT_EVENT &event : c.drain(evd))
        out.push_back(event.event_number);
    return out;
}

} // namespace

TEST_SUITE_BEGIN("connection");

TEST_CASE("each way an attempt can fail gives its event and leaves the endpoint DISCONNECTED")
{
    consumer c;
    station s(c);
    for (const DAT_EVENT_NUMBER outcome :
         {DAT_CONNECTION_EVENT_PEER_REJECTED, DAT_CONNECTION_EVENT_NON_PEER_REJECTED,
          DAT_CONNECTION_EVENT_UNREACHABLE, DAT_CONNECTION_EVENT_TIMED_OUT}) {
        must(c.connect(s.ep, 1));
        CHECK_EQ(c.state(s.ep), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
        REQUIRE(fire(s.port(), outcome));
        CHECK_EQ(c.state(s.ep), DAT_EP_STATE_DISCONNECTED);
        CHECK_EQ(s.connect_event(), outcome);
        REQUIRE(fire(s.port(), established)); // late
        CHECK_EQ(s.connect_event(), 0);
        CHECK_EQ(c.connect(s.ep, 1),
                 error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_DISCONNECTED));
        must(c.v.ep_reset_func(s.ep));
    }
}

TEST_CASE("what an accept sent along stays readable until reset")
{
    consumer c;
    station s(c);
    must(c.connect(s.ep, 1));
    char bytes[] = "welcome";
    REQUIRE(fire(s.port(), established, {bytes, sizeof bytes}));
    bytes[0] = 'X';
    DAT_EVENT event;
    must(c.dequeue(s.connections, event));
    const auto &data = event.event_data.connect_event_data;
    REQUIRE_EQ(data.private_data_size, static_cast<DAT_COUNT>(sizeof bytes));
    REQUIRE(fire(s.port(), disconnected));
    CHECK_EQ(std::string(static_cast<const char *>(data.private_data)), "welcome");
}

TEST_CASE("a connection ends in exactly one event, whichever side reports first")
{
    consumer c;
    station s(c);
    const auto end_twice = [&](DAT_EVENT_NUMBER first, DAT_EVENT_NUMBER second) {
        s.connect_by_hand();
        REQUIRE(fire(s.port(), first));
        REQUIRE(fire(s.port(), second));
        CHECK_EQ(numbers(c, s.connections), std::vector<int>{first});
        CHECK_EQ(c.v.ep_disconnect_func(s.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
        CHECK(numbers(c, s.connections).empty());
        must(c.v.ep_reset_func(s.ep));
    };
    end_twice(disconnected, broken);
    end_twice(broken, disconnected);
    end_twice(disconnected, disconnected);
    end_twice(broken, broken);
}

TEST_CASE("a failed operation breaks the connection once; flushed ones do not")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    for (int i = 0; i < 4; ++i)
        must(c.post_send(s.ep));
    REQUIRE(complete_send(s.port(), DAT_DTO_ERR_FLUSHED));
    CHECK_EQ(c.drain(s.request).size(), 1);
    CHECK_EQ(c.state(s.ep), DAT_EP_STATE_CONNECTED);
    REQUIRE(complete_send(s.port(), DAT_DTO_ERR_REMOTE_ACCESS));
    REQUIRE(complete_send(s.port(), DAT_DTO_ERR_REMOTE_ACCESS));
    CHECK_EQ(c.drain(s.request).size(), 3);
    CHECK_EQ(numbers(c, s.connections), std::vector<int>{broken});
    CHECK_EQ(lab::calls(lab::op::disconnect_clean), 1);
}

TEST_CASE("after a failed operation the endpoints of both sides are reset, connect again, and go")
{
    consumer c;
    station active(c);
    station passive(c);
    const DAT_EVD_HANDLE requests = c.make_evd(DAT_EVD_CR_FLAG);
    const DAT_PSP_HANDLE psp = c.make_psp(here, requests);
    for (int round = 0; round < 3; ++round) {
        active.connect_by_hand();
        REQUIRE(arrive(here));
        DAT_EVENT event;
        must(c.dequeue(requests, event));
        must(c.v.cr_accept_func(event.event_data.cr_arrival_event_data.cr_handle, passive.ep, 0,
                                nullptr));
        REQUIRE(fire(passive.port(), established));
        CHECK_EQ(passive.connect_event(), established);
        for (station *side : {&active, &passive}) {
            must(c.post_send(side->ep));
            REQUIRE(complete_send(side->port(), DAT_DTO_ERR_REMOTE_ACCESS));
            CHECK_EQ(c.drain(side->request).size(), 1);
            CHECK_EQ(numbers(c, side->connections), std::vector<int>{broken});
            must(c.v.ep_reset_func(side->ep));
            CHECK_EQ(c.state(side->ep), DAT_EP_STATE_UNCONNECTED);
        }
        CHECK_EQ(from_handle<adapter>(c.ia)->live<core::cr>(), 0);
    }
    must(c.v.psp_free_func(psp));
    must(c.v.evd_free_func(requests));
    for (station *side : {&active, &passive}) {
        must(c.v.ep_free_func(side->ep));
        for (const DAT_EVD_HANDLE evd : {side->recv, side->request, side->connections})
            must(c.v.evd_free_func(evd));
        must(c.v.pz_free_func(side->pz));
    }
    CHECK_EQ(c.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
}

TEST_CASE("each operation comes back exactly once when the connection breaks")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    for (DAT_UINT64 i = 0; i < 8; ++i) {
        must(c.post_recv(s.ep, i));
        must(c.post_send(s.ep, i));
    }
    REQUIRE(complete_recv(s.port(), DAT_DTO_ERR_LOCAL_LENGTH));
    for (const DAT_EVD_HANDLE e : {s.recv, s.request}) {
        const std::vector<DAT_EVENT> events = c.drain(e);
        const std::vector<DAT_EVENT> more = c.drain(e);
        CHECK_EQ(events.size() + more.size(), 8);
        for (std::size_t i = 0; i < events.size(); ++i)
            CHECK_EQ(cookie_of(events[i]), i);
    }
}

TEST_CASE("disconnecting: the first call counts, graceful again is nothing, abrupt goes further")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    must(c.v.ep_disconnect_func(s.ep, DAT_CLOSE_GRACEFUL_FLAG));
    CHECK_EQ(c.state(s.ep), DAT_EP_STATE_DISCONNECT_PENDING);
    must(c.v.ep_disconnect_func(s.ep, DAT_CLOSE_GRACEFUL_FLAG));
    CHECK_EQ(lab::calls(lab::op::disconnect), 1);
    must(c.v.ep_disconnect_func(s.ep, DAT_CLOSE_ABRUPT_FLAG));
    CHECK_EQ(lab::calls(lab::op::disconnect), 2);
    REQUIRE(fire(s.port(), disconnected));
    CHECK_EQ(numbers(c, s.connections), std::vector<int>{disconnected});
}

TEST_CASE("disconnecting a pending attempt gives DISCONNECTED once, and a late answer nothing")
{
    consumer c;
    station s(c);
    must(c.connect(s.ep, 1));
    must(c.v.ep_disconnect_func(s.ep, DAT_CLOSE_ABRUPT_FLAG));
    CHECK_EQ(numbers(c, s.connections), std::vector<int>{disconnected});
    REQUIRE(fire(s.port(), established));
    CHECK(numbers(c, s.connections).empty());
    CHECK_EQ(c.state(s.ep), DAT_EP_STATE_DISCONNECTED);
}

TEST_CASE("disconnecting an accept that is pending gives DISCONNECTED once")
{
    consumer c;
    station s(c);
    const DAT_EVD_HANDLE requests = c.make_evd(DAT_EVD_CR_FLAG);
    c.make_psp(here, requests);
    REQUIRE(arrive(here));
    DAT_EVENT event;
    must(c.dequeue(requests, event));
    must(c.v.cr_accept_func(event.event_data.cr_arrival_event_data.cr_handle, s.ep, 0, nullptr));
    CHECK_EQ(c.state(s.ep), DAT_EP_STATE_COMPLETION_PENDING);
    must(c.v.ep_disconnect_func(s.ep, DAT_CLOSE_GRACEFUL_FLAG));
    REQUIRE(fire(s.port(), established)); // late
    CHECK_EQ(numbers(c, s.connections), std::vector<int>{disconnected});
    CHECK_EQ(c.state(s.ep), DAT_EP_STATE_DISCONNECTED);
}

TEST_CASE("after the event of an abandoned attempt the endpoint can be used at once")
{
    consumer c;
    station s(c);
    agent told;
    told.what = [&](DAT_EVD_HANDLE) {
        DAT_EP_PARAM param;
        (void)c.v.ep_query_func(s.ep, DAT_EP_FIELD_ALL, &param);
        (void)c.v.ep_reset_func(s.ep);
    };
    must(c.v.evd_modify_cno_func(s.connections, c.make_cno(told.value())));
    must(c.connect(s.ep, 1));
    DAT_RETURN code = DAT_INTERNAL_ERROR;
    REQUIRE(finishes([&] { code = c.v.ep_disconnect_func(s.ep, DAT_CLOSE_ABRUPT_FLAG); }));
    CHECK_EQ(code, DAT_SUCCESS);
    CHECK_EQ(told.calls.load(), 1);
    CHECK_EQ(c.state(s.ep), DAT_EP_STATE_UNCONNECTED);
}

TEST_CASE("after the event UNREACHABLE the endpoint can be used at once")
{
    consumer c;
    station s(c);
    agent told;
    told.what = [&](DAT_EVD_HANDLE) { (void)c.v.ep_reset_func(s.ep); };
    must(c.v.evd_modify_cno_func(s.connections, c.make_cno(told.value())));
    lab::fail(lab::op::connect, error_code(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE));
    DAT_RETURN code = DAT_INTERNAL_ERROR;
    REQUIRE(finishes([&] { code = c.connect(s.ep, 1); }));
    CHECK_EQ(code, DAT_SUCCESS);
    CHECK_EQ(c.state(s.ep), DAT_EP_STATE_UNCONNECTED);
    CHECK_EQ(numbers(c, s.connections), std::vector<int>{DAT_CONNECTION_EVENT_UNREACHABLE});
}

TEST_CASE("disconnecting what never connected flushes its receives, and nothing else")
{
    consumer c;
    station s(c);
    must(c.v.ep_disconnect_func(s.ep, DAT_CLOSE_ABRUPT_FLAG));
    CHECK_EQ(lab::calls(lab::op::qp_reset), 0); // there was nothing to flush
    for (DAT_UINT64 i = 0; i < 3; ++i)
        must(c.post_recv(s.ep, i));
    must(c.v.ep_disconnect_func(s.ep, DAT_CLOSE_GRACEFUL_FLAG));
    CHECK_EQ(c.state(s.ep), DAT_EP_STATE_UNCONNECTED);
    must(c.post_recv(s.ep, 3));
    const std::vector<DAT_EVENT> flushed = c.drain(s.recv);
    REQUIRE_EQ(flushed.size(), 3);
    for (DAT_UINT64 i = 0; i < 3; ++i) {
        CHECK_EQ(status_of(flushed[i]), DAT_DTO_ERR_FLUSHED);
        CHECK_EQ(cookie_of(flushed[i]), i);
    }
    CHECK(numbers(c, s.connections).empty());
    s.connect_by_hand();
    REQUIRE(complete_recv(s.port(), DAT_DTO_SUCCESS));
    const std::vector<DAT_EVENT> received = c.drain(s.recv);
    REQUIRE_EQ(received.size(), 1);
    CHECK_EQ(cookie_of(received[0]), 3);
    CHECK_EQ(status_of(received[0]), DAT_DTO_SUCCESS);
}

TEST_CASE("a flush whose reset fails leaves the endpoint to be reset again")
{
    consumer c;
    station s(c);
    must(c.post_recv(s.ep, 7));
    const DAT_RETURN failure = error_code(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
    lab::fail(lab::op::qp_reset, failure);
    CHECK_EQ(c.v.ep_disconnect_func(s.ep, DAT_CLOSE_ABRUPT_FLAG), failure);
    CHECK_EQ(c.drain(s.recv).size(), 1);
    CHECK_EQ(c.state(s.ep), DAT_EP_STATE_DISCONNECTED);
    must(c.v.ep_reset_func(s.ep));
    s.connect_by_hand();
}

TEST_CASE("calls that a state does not allow are refused with that state")
{
    consumer c;
    station s(c);
    const DAT_RETURN unconnected = error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_UNCONNECTED);
    CHECK_EQ(c.post_send(s.ep), unconnected);
    s.connect_by_hand();
    const DAT_RETURN connected = error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_CONNECTED);
    CHECK_EQ(c.connect(s.ep, 1), connected);
    CHECK_EQ(c.v.ep_reset_func(s.ep), connected);
    must(c.v.ep_disconnect_func(s.ep, DAT_CLOSE_GRACEFUL_FLAG));
    const DAT_RETURN pending = error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_DISCPENDING);
    CHECK_EQ(c.v.ep_reset_func(s.ep), pending);
    CHECK_EQ(c.post_send(s.ep), pending);
}

TEST_CASE("an endpoint without a protection zone refuses posts by its state")
{
    consumer c;
    station s(c);
    DAT_EP_HANDLE bare = DAT_HANDLE_NULL;
    must(c.v.ep_create_func(c.ia, DAT_HANDLE_NULL, s.recv, s.request, s.connections, nullptr,
                            &bare));
    DAT_LMR_TRIPLET segment{};
    const DAT_RETURN sent =
        c.v.ep_post_send_func(bare, 1, &segment, {}, DAT_COMPLETION_DEFAULT_FLAG);
    CHECK_EQ(DAT_GET_TYPE(sent), DAT_INVALID_STATE);
    const DAT_RETURN received =
        c.v.ep_post_recv_func(bare, 1, &segment, {}, DAT_COMPLETION_DEFAULT_FLAG);
    CHECK_EQ(DAT_GET_TYPE(received), DAT_INVALID_STATE);
    CHECK_EQ(c.connect(bare, 1), error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_NOTREADY));
}

TEST_CASE("lengths that do not match the remote segment are refused, also past 32 bits")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    DAT_LMR_TRIPLET local[2]{};
    DAT_RMR_TRIPLET remote{};
    remote.segment_length = 16;
    const auto write = [&](DAT_COUNT n) {
        return c.v.ep_post_rdma_write_func(s.ep, n, local, {}, &remote,
                                           DAT_COMPLETION_DEFAULT_FLAG);
    };
    const auto read = [&](DAT_COUNT n) {
        return c.v.ep_post_rdma_read_func(s.ep, n, local, {}, &remote, DAT_COMPLETION_DEFAULT_FLAG);
    };
    local[0].segment_length = 17;
    CHECK_EQ(write(1), error_code(DAT_LENGTH_ERROR));
    CHECK_EQ(read(1), DAT_SUCCESS);
    local[0].segment_length = 15;
    CHECK_EQ(read(1), error_code(DAT_LENGTH_ERROR));
    CHECK_EQ(write(1), DAT_SUCCESS);
    local[0].segment_length = local[1].segment_length = 0x80000000;
    CHECK_EQ(write(2), error_code(DAT_LENGTH_ERROR));
}

TEST_CASE("a connection event on a full EVD is an overflow, told once on the async EVD")
{
    consumer c;
    station s(c, 1);
    must(c.connect(s.ep, 1));
    REQUIRE(fire(s.port(), established));
    REQUIRE(fire(s.port(), disconnected));
    CHECK_EQ(c.state(s.ep), DAT_EP_STATE_DISCONNECTED);
    const std::vector<DAT_EVENT> events = c.drain(c.async);
    REQUIRE_EQ(events.size(), 1);
    CHECK_EQ(events[0].event_number, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    CHECK_EQ(events[0].event_data.asynch_error_event_data.dat_handle, s.connections);
}

TEST_CASE("a queue pair that fails makes an async event and breaks the connection")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    REQUIRE(fire_qp_error(s.port()));
    CHECK_EQ(numbers(c, s.connections), std::vector<int>{broken});
    const std::vector<DAT_EVENT> events = c.drain(c.async);
    REQUIRE_EQ(events.size(), 1);
    CHECK_EQ(events[0].event_number, DAT_ASYNC_ERROR_EP_BROKEN);
    CHECK_EQ(events[0].event_data.asynch_error_event_data.dat_handle, s.ep);
}

TEST_CASE("ep_modify is all or nothing")
{
    consumer c;
    station s(c);
    DAT_EP_PARAM param{};
    param.ep_attr.max_request_dtos = 3;
    lab::fail(lab::op::qp_alloc, error_code(DAT_INSUFFICIENT_RESOURCES));
    CHECK_EQ(c.v.ep_modify_func(s.ep, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, &param),
             error_code(DAT_INSUFFICIENT_RESOURCES));
    DAT_EP_PARAM now;
    must(c.v.ep_query_func(s.ep, DAT_EP_FIELD_ALL, &now));
    CHECK_EQ(now.ep_attr.max_request_dtos, 16);
    must(c.v.ep_modify_func(s.ep, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, &param));
    s.connect_by_hand();
    for (int i = 0; i < 3; ++i)
        must(c.post_send(s.ep));
    CHECK_EQ(DAT_GET_TYPE(c.post_send(s.ep)), DAT_INSUFFICIENT_RESOURCES);
}

TEST_CASE("on a thread-safe adapter, of two changes by ep_modify at once none is lost")
{
    consumer c(line::threadsafe);
    station s(c);
    const DAT_EVD_HANDLE requests[] = {s.request, c.make_evd(DAT_EVD_DTO_FLAG)};
    const DAT_EVD_HANDLE connects[] = {s.connections, c.make_evd(DAT_EVD_CONNECTION_FLAG)};
    for (int turn = 1; turn <= 1000; ++turn) {
        DAT_EP_PARAM wanted{};
        wanted.request_evd_handle = requests[turn % 2];
        wanted.connect_evd_handle = connects[turn % 2];
        std::atomic<int> ready{0};
        const auto modify = [&](DAT_EP_PARAM_MASK field) {
            for (ready.fetch_add(1); ready != 2;)
                std::this_thread::yield();
            return c.v.ep_modify_func(s.ep, field, &wanted);
        };
        auto other =
            std::async(std::launch::async, [&] { return modify(DAT_EP_FIELD_CONNECT_EVD_HANDLE); });
        must(modify(DAT_EP_FIELD_REQUEST_EVD_HANDLE));
        must(other.get());
        DAT_EP_PARAM now;
        must(c.v.ep_query_func(s.ep, DAT_EP_FIELD_ALL, &now));
        REQUIRE_EQ(now.request_evd_handle, wanted.request_evd_handle);
        REQUIRE_EQ(now.connect_evd_handle, wanted.connect_evd_handle);
    }
}

TEST_CASE("race of all that ends a connection: exactly one event, one end")
{
    consumer c(line::threadsafe);
    const DAT_EVD_HANDLE connections = c.make_evd(DAT_EVD_CONNECTION_FLAG, 8);
    station s(c, c.make_evd(DAT_EVD_DTO_FLAG, 64), connections);
    int wrong = 0;
    for (int i = 0; i < rounds(1500); ++i) {
        s.connect_by_hand();
        must(c.post_send(s.ep));
        must(c.post_send(s.ep));
        REQUIRE(complete_send(s.port(), DAT_DTO_ERR_TRANSPORT));
        qp &port = s.port();
        std::atomic<int> ready{0};
        const auto together = [&](auto what) {
            return std::thread([&ready, what] {
                ++ready;
                while (ready < 3)
                    std::this_thread::yield();
                what();
            });
        };
        std::thread threads[] = {
            together([&] {
                DAT_EVENT event;
                (void)c.dequeue(s.request, event);
            }),
            together([&] { (void)c.v.ep_disconnect_func(s.ep, DAT_CLOSE_ABRUPT_FLAG); }),
            together([&] { fire(port, disconnected); }),
        };
        for (std::thread &t : threads)
            t.join();
        const std::vector<int> events = numbers(c, connections);
        wrong += events.size() != 1 || (events[0] != disconnected && events[0] != broken);
        wrong += c.state(s.ep) != DAT_EP_STATE_DISCONNECTED;
        must(c.v.ep_reset_func(s.ep));
        (void)c.drain(s.request);
    }
    CHECK_EQ(wrong, 0);
}

TEST_CASE("loopback: two endpoints connect, talk and part, each event once")
{
    consumer c;
    lab::loopback = true;
    station a(c), b(c);
    const DAT_EVD_HANDLE requests = c.make_evd(DAT_EVD_CR_FLAG);
    const DAT_PSP_HANDLE psp = c.make_psp(5, requests);
    must(c.connect(a.ep, 5));
    DAT_EVENT event;
    must(c.dequeue(requests, event));
    CHECK_EQ(event.event_data.cr_arrival_event_data.sp_handle.psp_handle, psp);
    const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
    must(c.post_recv(b.ep, 1));
    must(c.v.cr_accept_func(cr, b.ep, 0, nullptr));
    CHECK_EQ(a.connect_event(), established);
    CHECK_EQ(b.connect_event(), established);
    must(c.post_send(a.ep, 2));
    CHECK_EQ(c.drain(a.request).size(), 1);
    CHECK_EQ(c.drain(b.recv).size(), 1);
    must(c.post_recv(b.ep, 3));
    must(c.v.ep_disconnect_func(a.ep, DAT_CLOSE_GRACEFUL_FLAG));
    CHECK_EQ(a.connect_event(), disconnected);
    CHECK_EQ(b.connect_event(), disconnected);
    const std::vector<DAT_EVENT> flushed = c.drain(b.recv);
    REQUIRE_EQ(flushed.size(), 1);
    CHECK_EQ(status_of(flushed[0]), DAT_DTO_ERR_FLUSHED);
    must(c.v.ep_disconnect_func(b.ep, DAT_CLOSE_GRACEFUL_FLAG));
    CHECK_EQ(b.connect_event(), 0);
}

TEST_SUITE_END();
