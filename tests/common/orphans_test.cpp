// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Operations posted on an endpoint that is gone: dropped, freed, never delivered.
#include "fixture.hpp"

using namespace test;

namespace {

/// A connected endpoint with completions of both directions in its CQs.
void leave_completions(consumer &c, station &s, int count)
{
    for (int i = 0; i < count; ++i) {
        must(c.post_recv(s.ep, 100));
        must(c.post_send(s.ep, 200));
        REQUIRE(complete_recv(s.port()));
        REQUIRE(complete_send(s.port()));
    }
}

void disconnected_by_peer(station &s)
{
    REQUIRE(fire(s.port(), DAT_CONNECTION_EVENT_DISCONNECTED));
    CHECK_EQ(s.connect_event(), DAT_CONNECTION_EVENT_DISCONNECTED);
}

} // namespace

TEST_SUITE_BEGIN("orphans");

TEST_CASE("after ep_free no completion of the endpoint is delivered")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    leave_completions(c, s, 5);
    must(c.v.ep_free_func(s.ep));
    CHECK(c.drain(s.recv).empty());
    CHECK(c.drain(s.request).empty());
    CHECK_EQ(c.wait(s.recv, 0).nmore, 0);
}

TEST_CASE("after ep_free no failure of the endpoint is delivered either")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    must(c.post_recv(s.ep));
    must(c.post_send(s.ep));
    REQUIRE(complete_send(s.port(), DAT_DTO_ERR_TRANSPORT));
    flush(s.port());
    must(c.v.ep_free_func(s.ep));
    CHECK_EQ(c.wait(s.recv, 0).code, DAT_TIMEOUT_EXPIRED);
    CHECK_EQ(c.wait(s.request, 0).code, DAT_TIMEOUT_EXPIRED);
    CHECK_EQ(s.connect_event(), 0);
}

TEST_CASE("after ep_reset no completion of earlier operations surfaces, and the endpoint works")
{
    consumer c;
    station s(c);
    for (int turn = 0; turn < 3; ++turn) {
        s.connect_by_hand();
        leave_completions(c, s, 5);
        disconnected_by_peer(s);
        must(c.v.ep_reset_func(s.ep));
        CHECK(c.drain(s.recv).empty());
        CHECK(c.drain(s.request).empty());
    }
    s.connect_by_hand();
    must(c.post_send(s.ep, 5));
    REQUIRE(complete_send(s.port()));
    const std::vector<DAT_EVENT> events = c.drain(s.request);
    REQUIRE_EQ(events.size(), 1);
    CHECK_EQ(cookie_of(events[0]), 5);
}

TEST_CASE("completions that a wait has counted are dropped by ep_reset like those in the CQ")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    leave_completions(c, s, 3);
    CHECK_EQ(c.wait(s.recv, 0).nmore, 2);
    disconnected_by_peer(s);
    must(c.v.ep_reset_func(s.ep));
    CHECK(c.drain(s.recv).empty());
    CHECK(c.drain(s.request).empty());
}

TEST_CASE("completions that a wait has counted are dropped by ep_free like those in the CQ")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    leave_completions(c, s, 3);
    CHECK_EQ(c.wait(s.recv, 0).nmore, 2);
    must(c.v.ep_free_func(s.ep));
    CHECK(c.drain(s.recv).empty());
}

TEST_CASE("completions of others on a shared EVD stay, in order, when an endpoint is freed")
{
    consumer c;
    const DAT_EVD_HANDLE shared = c.make_evd(DAT_EVD_DTO_FLAG, 64);
    const DAT_EVD_HANDLE connections = c.make_evd(DAT_EVD_CONNECTION_FLAG);
    station goes(c, shared, connections);
    station stays(c, shared, connections);
    goes.connect_by_hand();
    stays.connect_by_hand();
    for (DAT_UINT64 i = 0; i < 8; ++i) {
        must(c.post_send(goes.ep, 99));
        must(c.post_send(stays.ep, i));
        REQUIRE(complete_send(goes.port()));
        REQUIRE(complete_send(stays.port()));
    }
    must(c.v.ep_free_func(goes.ep));
    const std::vector<DAT_EVENT> events = c.drain(shared);
    REQUIRE_EQ(events.size(), 8);
    for (DAT_UINT64 i = 0; i < 8; ++i) {
        CHECK_EQ(cookie_of(events[i]), i);
        CHECK_EQ(events[i].event_data.dto_completion_event_data.ep_handle, stays.ep);
    }
}

TEST_CASE("a threshold does not count completions of a freed endpoint")
{
    consumer c;
    const DAT_EVD_HANDLE shared = c.make_evd(DAT_EVD_DTO_FLAG, 64);
    const DAT_EVD_HANDLE connections = c.make_evd(DAT_EVD_CONNECTION_FLAG);
    station goes(c, shared, connections);
    station stays(c, shared, connections);
    goes.connect_by_hand();
    stays.connect_by_hand();
    leave_completions(c, goes, 4);
    must(c.post_send(stays.ep, 1));
    REQUIRE(complete_send(stays.port()));
    must(c.v.ep_free_func(goes.ep));
    const wait_answer got = c.wait(shared, 0, 2);
    CHECK_EQ(got.code, DAT_TIMEOUT_EXPIRED);
    CHECK_EQ(got.nmore, 1);
}

TEST_CASE("a threshold does not count completions that a wait had counted before the endpoint went")
{
    consumer c;
    const DAT_EVD_HANDLE shared = c.make_evd(DAT_EVD_DTO_FLAG, 64);
    const DAT_EVD_HANDLE connections = c.make_evd(DAT_EVD_CONNECTION_FLAG);
    station goes(c, shared, connections);
    station stays(c, shared, connections);
    goes.connect_by_hand();
    stays.connect_by_hand();
    leave_completions(c, goes, 4);
    for (DAT_UINT64 i = 1; i <= 2; ++i) {
        must(c.post_send(stays.ep, i));
        REQUIRE(complete_send(stays.port()));
        leave_completions(c, goes, 1);
    }
    CHECK_EQ(c.wait(shared, 0, 30).nmore, 14);
    must(c.v.ep_free_func(goes.ep));
    const wait_answer too_few = c.wait(shared, 0, 3);
    CHECK_EQ(too_few.code, DAT_TIMEOUT_EXPIRED);
    CHECK_EQ(too_few.nmore, 2);
    const wait_answer enough = c.wait(shared, 0, 2);
    CHECK_EQ(enough.code, DAT_SUCCESS);
    CHECK_EQ(enough.nmore, 1);
    CHECK_EQ(cookie_of(enough.event), 1);
    const std::vector<DAT_EVENT> events = c.drain(shared);
    REQUIRE_EQ(events.size(), 1);
    CHECK_EQ(cookie_of(events[0]), 2);
}

// Otherwise its memory is read after it was freed, which a sanitizer tells.
TEST_CASE(
    "a queue is kept for what was counted of it, when a wait meets the rest while it is freed")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    for (DAT_UINT64 i = 0; i < 8; ++i)
        must(c.post_recv(s.ep, i));
    for (int i = 0; i < 4; ++i)
        REQUIRE(complete_recv(s.port()));
    CHECK_EQ(c.wait(s.recv, 0).nmore, 3);
    flush(s.port());
    lab::latch gate;
    lab::plan_of(lab::op::qp_free).gate = &gate;
    std::thread freeing([&] { must(c.v.ep_free_func(s.ep)); });
    gate.await_arrival();
    CHECK_EQ(c.wait(s.recv, 0, 8).code, DAT_TIMEOUT_EXPIRED);
    gate.open();
    freeing.join();
    lab::plan_of(lab::op::qp_free).gate = nullptr;
    CHECK(c.drain(s.recv).empty());
}

TEST_CASE("an EVD can be freed with completions of a freed endpoint still in it")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    leave_completions(c, s, 4);
    must(c.v.ep_free_func(s.ep));
    must(c.v.evd_free_func(s.recv));
    must(c.v.evd_free_func(s.request));
    must(c.v.evd_free_func(s.connections));
    must(c.v.pz_free_func(s.pz));
    CHECK_EQ(c.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
}

TEST_CASE("queues of freed endpoints go when the EVD is found empty")
{
    consumer c;
    const DAT_EVD_HANDLE shared = c.make_evd(DAT_EVD_DTO_FLAG, 4);
    const DAT_EVD_HANDLE connections = c.make_evd(DAT_EVD_CONNECTION_FLAG, 4);
    for (int i = 0; i < 50; ++i) {
        station s(c, shared, connections);
        s.connect_by_hand();
        must(c.post_recv(s.ep));
        REQUIRE(complete_recv(s.port()));
        must(c.v.ep_free_func(s.ep));
        CHECK(c.drain(shared).empty());
    }
}

TEST_CASE("one thread polls a shared EVD while others free endpoints: each event has a live owner")
{
    consumer c(line::threadsafe);
    const DAT_EVD_HANDLE shared = c.make_evd(DAT_EVD_DTO_FLAG, 4096);
    const DAT_EVD_HANDLE connections = c.make_evd(DAT_EVD_CONNECTION_FLAG, 8192);
    const DAT_PZ_HANDLE pz = c.make_pz();
    const int turns = rounds(1500);
    std::atomic<int> running{2};
    std::atomic<int> failed{0};
    const auto live_and_die = [&](bool break_it) {
        for (int i = 0; i < turns; ++i) {
            DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
            failed += c.v.ep_create_func(c.ia, pz, shared, shared, connections, nullptr, &ep) !=
                      DAT_SUCCESS;
            failed += c.connect(ep, 1) != DAT_SUCCESS;
            qp &port = *find_qp(ep);
            fire(port, DAT_CONNECTION_EVENT_ESTABLISHED);
            for (int n = 0; n < 4; ++n) {
                (void)c.post_recv(ep, 7);
                (void)c.post_send(ep, 7);
            }
            complete_send(port);
            complete_recv(port);
            if (break_it)
                complete_send(port, DAT_DTO_ERR_TRANSPORT);
            else
                flush(port);
            failed += c.v.ep_free_func(ep) != DAT_SUCCESS;
        }
        --running;
    };
    std::thread first(live_and_die, false), second(live_and_die, true);
    int wrong = 0;
    while (running != 0) {
        DAT_EVENT event;
        if (c.dequeue(shared, event) == DAT_SUCCESS)
            wrong += cookie_of(event) != 7;
        while (c.dequeue(connections, event) == DAT_SUCCESS) {
        }
    }
    first.join();
    second.join();
    CHECK(c.drain(shared).empty());
    CHECK_EQ(wrong, 0);
    CHECK_EQ(failed.load(), 0);
}

TEST_CASE("a failure polled while its endpoint is being freed leaves the queue pair alone")
{
    consumer c(line::threadsafe);
    station s(c);
    s.connect_by_hand();
    must(c.post_send(s.ep));
    REQUIRE(complete_send(s.port(), DAT_DTO_ERR_TRANSPORT));
    lab::latch gate;
    lab::plan_of(lab::op::qp_free).gate = &gate;
    std::thread free_it([&] { (void)c.v.ep_free_func(s.ep); });
    gate.await_arrival();
    DAT_EVENT event;
    (void)c.dequeue(s.request, event); // whether it is delivered is open: the two run side by side
    gate.open();
    free_it.join();
    CHECK_EQ(lab::violations(), "");
    CHECK(c.drain(s.request).empty());
}

TEST_CASE("no lock is held while a proxy agent runs because an operation failed")
{
    auto *c = new consumer;
    agent a;
    const DAT_CNO_HANDLE cno = c->make_cno(a.value());
    const DAT_EVD_HANDLE connections = c->make_evd(DAT_EVD_CONNECTION_FLAG, 8);
    auto *s = new station(*c, c->make_evd(DAT_EVD_DTO_FLAG), connections);
    s->connect_by_hand();
    must(c->v.evd_modify_cno_func(connections, cno));
    must(c->v.cno_modify_agent_func(cno, a.value()));
    must(c->post_send(s->ep));
    REQUIRE(complete_send(s->port(), DAT_DTO_ERR_TRANSPORT));
    std::atomic<bool> freed{false};
    std::thread other;
    bool in_time = false;
    std::atomic<bool> done{false};
    a.what = [&](DAT_EVD_HANDLE) {
        other = std::thread([&] {
            (void)c->v.ep_free_func(s->ep);
            freed = true;
        });
        for (int i = 0; i < 2000 && !freed; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        in_time = freed;
        done = true;
    };
    DAT_EVENT event;
    must(c->dequeue(s->request, event));
    for (int i = 0; i < 4000 && !done; ++i) // the agent runs on a thread of the provider's
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK_EQ(a.calls.load(), 1);
    CHECK_MESSAGE(in_time, "ep_free of the broken endpoint waits for the agent to return");
    if (other.joinable())
        other.join();
    delete s;
    delete c;
}

TEST_SUITE_END();
