// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// DTO and connection streams on one EVD: ESTABLISHED before the connection's completions, its end
// after the last that was not flushed.
#include "fixture.hpp"

#include <algorithm>

using namespace test;

namespace {

constexpr unsigned all_streams = DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG;
constexpr DAT_EVENT_NUMBER up = DAT_CONNECTION_EVENT_ESTABLISHED;
constexpr DAT_EVENT_NUMBER down = DAT_CONNECTION_EVENT_DISCONNECTED;
constexpr DAT_EVENT_NUMBER broke = DAT_CONNECTION_EVENT_BROKEN;
constexpr int dto = DAT_DTO_COMPLETION_EVENT;

/// Endpoints all of whose events go to one EVD.
struct merged_stations {
    explicit merged_stations(DAT_COUNT qlen = 64, line which = line::nonthreadsafe)
        : c(which), e(c.make_evd(all_streams, qlen)), one(c, e, e), other(c, e, e)
    {}
    /// Numbers of the events that there are.
    std::vector<int> take()
    {
        std::vector<int> out;
        for (const DAT_EVENT &event : c.drain(e))
            out.push_back(event.event_number);
        return out;
    }
    bool empty()
    {
        DAT_EVENT event;
        return c.dequeue(e, event) == DAT_QUEUE_EMPTY;
    }

    consumer c;
    DAT_EVD_HANDLE e;
    station one;
    station other;
};

void receive(station &s, DAT_UINT64 cookie, DAT_DTO_COMPLETION_STATUS how = DAT_DTO_SUCCESS)
{
    must(s.c.post_recv(s.ep, cookie));
    REQUIRE(complete_recv(s.port(), how));
}

bool is_flushed(const DAT_EVENT &event)
{
    return event.event_number == DAT_DTO_COMPLETION_EVENT &&
           status_of(event) == DAT_DTO_ERR_FLUSHED;
}

} // namespace

TEST_SUITE_BEGIN("order");

TEST_CASE("a completion that is faster than ESTABLISHED waits for it")
{
    merged_stations m;
    must(m.c.connect(m.one.ep, 1));
    receive(m.one, 7);
    CHECK(m.empty());
    const wait_answer got = m.c.wait(m.e, 1000);
    CHECK_EQ(got.code, DAT_TIMEOUT_EXPIRED);
    CHECK_EQ(got.nmore, 1);
    receive(m.one, 8);
    REQUIRE(fire(m.one.port(), up));
    const std::vector<DAT_EVENT> all = m.c.drain(m.e);
    REQUIRE_EQ(all.size(), 3);
    CHECK_EQ(all[0].event_number, up);
    CHECK_EQ(cookie_of(all[1]), 7);
    CHECK_EQ(cookie_of(all[2]), 8);
}

TEST_CASE("the passive side's completions wait, too, until the accept is through")
{
    merged_stations m;
    const DAT_EVD_HANDLE requests = m.c.make_evd(DAT_EVD_CR_FLAG);
    (void)m.c.make_psp(here, requests);
    REQUIRE(arrive(here));
    DAT_EVENT event;
    must(m.c.dequeue(requests, event));
    must(m.c.v.cr_accept_func(event.event_data.cr_arrival_event_data.cr_handle, m.one.ep, 0,
                              nullptr));
    receive(m.one, 1);
    CHECK(m.empty());
    REQUIRE(fire(m.one.port(), up));
    CHECK_EQ(m.take(), std::vector<int>{up, dto});
}

TEST_CASE("ESTABLISHED that comes while the consumer looks at a completion goes first")
{
    merged_stations m;
    must(m.c.connect(m.one.ep, 1));
    must(m.c.post_recv(m.one.ep, 7));
    qp &port = m.one.port();
    work_queue &posted_to = *port.recvs.ring[0]->queue;
    REQUIRE(complete_recv(port));
    DAT_EVENT event{};
    std::future<DAT_RETURN> taken;
    {
        osd::lock_guard hold(posted_to.owner_lock); // here it stops on its way to the endpoint
        taken = std::async(std::launch::async, [&] { return m.c.dequeue(m.e, event); });
        while (port.recv_cq->head.load() == 0)
            std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20)); // lets it get there
        REQUIRE(fire(port, up));
    }
    CHECK_EQ(taken.get(), DAT_SUCCESS);
    CHECK_EQ(event.event_number, up);
    CHECK_EQ(m.take(), std::vector<int>{dto});
}

TEST_CASE("completions of others overtake those that wait")
{
    merged_stations m;
    m.other.connect_by_hand();
    must(m.c.connect(m.one.ep, 1));
    receive(m.one, 1);
    receive(m.other, 2);
    receive(m.one, 3);
    receive(m.other, 4);
    const std::vector<DAT_EVENT> before = m.c.drain(m.e);
    REQUIRE_EQ(before.size(), 2);
    CHECK_EQ(cookie_of(before[0]), 2);
    CHECK_EQ(cookie_of(before[1]), 4);
    receive(m.other, 5);
    REQUIRE(fire(m.one.port(), up));
    const std::vector<DAT_EVENT> after = m.c.drain(m.e);
    REQUIRE_EQ(after.size(), 4);
    CHECK_EQ(after[0].event_number, up);
    CHECK_EQ(cookie_of(after[1]), 1);
    CHECK_EQ(cookie_of(after[2]), 3);
    CHECK_EQ(cookie_of(after[3]), 5);
}

TEST_CASE("what an endpoint left waiting goes with it")
{
    merged_stations m;
    m.other.connect_by_hand();
    must(m.c.connect(m.one.ep, 1));
    receive(m.one, 1);
    receive(m.other, 2);
    CHECK_EQ(m.take().size(), 1);
    must(m.c.v.ep_free_func(m.one.ep));
    receive(m.other, 3);
    const std::vector<DAT_EVENT> rest = m.c.drain(m.e);
    REQUIRE_EQ(rest.size(), 1);
    CHECK_EQ(cookie_of(rest[0]), 3);
    CHECK_EQ(m.c.wait(m.e, 0).nmore, 0);
}

TEST_CASE("an attempt that fails gives back what was flushed, each once")
{
    merged_stations m;
    must(m.c.connect(m.one.ep, 1));
    receive(m.one, 1, DAT_DTO_ERR_FLUSHED);
    REQUIRE(fire(m.one.port(), DAT_CONNECTION_EVENT_PEER_REJECTED));
    const std::vector<int> all = m.take();
    CHECK_EQ(all.size(), 2);
    CHECK_EQ(std::count(all.begin(), all.end(), dto), 1);
}

TEST_CASE("an endpoint whose connection events go elsewhere does not wait for them")
{
    merged_stations m;
    station split(m.c, m.e, m.c.make_evd(DAT_EVD_CONNECTION_FLAG));
    must(m.c.connect(split.ep, 1));
    receive(split, 1);
    CHECK_EQ(m.take(), std::vector<int>{dto});
}

TEST_CASE(
    "an end comes after the completions before it, wherever they are; flushed ones may follow")
{
    for (const DAT_EVENT_NUMBER end : {down, broke})
        for (const bool counted : {false, true}) {
            merged_stations m;
            m.one.connect_by_hand();
            receive(m.one, 1);
            receive(m.one, 2);
            receive(m.one, 3);
            if (counted) {
                CHECK_EQ(cookie_of(m.c.wait(m.e, 0).event), 1);
                receive(m.one, 4);
            }
            receive(m.one, 5, DAT_DTO_ERR_FLUSHED);
            receive(m.one, 6, DAT_DTO_ERR_FLUSHED);
            REQUIRE(fire(m.one.port(), end));
            const std::vector<DAT_EVENT> all = m.c.drain(m.e);
            REQUIRE_EQ(all.size(), 6);
            bool ended = false;
            for (const DAT_EVENT &event : all) {
                ended |= event.event_number == end;
                if (event.event_number == DAT_DTO_COMPLETION_EVENT)
                    CHECK_EQ(ended && !is_flushed(event), false);
            }
            CHECK(ended);
        }
}

TEST_CASE("an end does not wait for the completions of others, nor for what comes later")
{
    merged_stations m;
    m.one.connect_by_hand();
    m.other.connect_by_hand();
    receive(m.one, 1);
    receive(m.other, 2);
    receive(m.other, 3);
    REQUIRE(fire(m.one.port(), down));
    DAT_EVENT event;
    must(m.c.dequeue(m.e, event));
    CHECK_EQ(cookie_of(event), 1);
    must(m.c.dequeue(m.e, event));
    CHECK_EQ(event.event_number, down);
    CHECK_EQ(m.take().size(), 2);
}

TEST_CASE("a failed operation comes before the BROKEN that it causes, and so do those before it")
{
    merged_stations m;
    m.one.connect_by_hand();
    receive(m.one, 1);
    receive(m.one, 2, DAT_DTO_ERR_LOCAL_LENGTH);
    receive(m.one, 3, DAT_DTO_ERR_FLUSHED);
    const std::vector<int> all = m.take();
    CHECK_EQ(all.size(), 4);
    CHECK_EQ(std::count(all.begin(), all.end(), int{broke}), 1);
    CHECK(std::find(all.begin(), all.end(), int{broke}) >= all.begin() + 2);
}

/// Holds the port's disconnect_clean up while `meanwhile` runs.
template <class Meanwhile>
void while_cleaning(Meanwhile &&meanwhile)
{
    lab::latch gate;
    lab::plan_of(lab::op::disconnect_clean).gate.store(&gate);
    meanwhile(gate);
    lab::plan_of(lab::op::disconnect_clean).gate.store(nullptr);
}

TEST_CASE("BROKEN is not told before the port has finished with the connection")
{
    merged_stations m;
    station split(m.c, m.e, m.e);
    split.request = m.c.make_evd(DAT_EVD_DTO_FLAG);
    split.ep = split.make_ep();
    split.connect_by_hand();
    must(m.c.post_send(split.ep, 1));
    REQUIRE(complete_send(split.port(), DAT_DTO_ERR_REMOTE_ACCESS));
    while_cleaning([&](lab::latch &gate) {
        DAT_EVENT event;
        auto failure =
            std::async(std::launch::async, [&] { return m.c.dequeue(split.request, event); });
        gate.await_arrival();
        CHECK(m.empty());
        receive(split, 2);
        gate.open();
        CHECK_EQ(failure.get(), DAT_SUCCESS);
    });
    CHECK_EQ(m.take(), std::vector<int>{dto, broke});
}

TEST_CASE("a queue pair is not freed or reset while its port cleans up after an error")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    bool resets = false;
    SUBCASE("freed") {}
    SUBCASE("reset")
    {
        resets = true;
    }
    const lab::op fence = resets ? lab::op::qp_reset : lab::op::qp_free;
    while_cleaning([&](lab::latch &gate) {
        std::thread port([&] { CHECK(fire_qp_error(s.port())); });
        gate.await_arrival();
        std::thread consumer(
            [&] { must(resets ? c.v.ep_reset_func(s.ep) : c.v.ep_free_func(s.ep)); });
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        CHECK_EQ(lab::calls(fence), 0);
        gate.open();
        port.join();
        consumer.join();
    });
    CHECK_EQ(lab::calls(fence), 1);
}

TEST_CASE("what came for an attempt that timed out comes before TIMED_OUT")
{
    merged_stations m;
    while_cleaning([&](lab::latch &gate) {
        must(m.c.connect(m.one.ep, 1, 5'000));
        gate.await_arrival();
        receive(m.one, 1); // the peer had accepted, and the port not told yet
        gate.open();
        std::vector<int> all;
        for (int i = 0; i < 2; ++i) // nothing waits for ever for an event that is lost
            all.push_back(m.c.wait(m.e, 5'000'000).event.event_number);
        CHECK_EQ(all, std::vector<int>{dto, DAT_CONNECTION_EVENT_TIMED_OUT});
    });
}

TEST_CASE("several connections at once: each in its order, though one's ESTABLISHED came after "
          "another's end")
{
    merged_stations m;
    m.one.connect_by_hand();
    must(m.c.connect(m.other.ep, 1));
    receive(m.other, 20); // early
    receive(m.one, 10);
    REQUIRE(fire(m.one.port(), down));
    receive(m.other, 21);
    REQUIRE(fire(m.other.port(), up));
    receive(m.other, 22);
    REQUIRE(fire(m.other.port(), down));
    const std::vector<DAT_EVENT> all = m.c.drain(m.e);
    REQUIRE_EQ(all.size(), 7);
    std::vector<int> of_one;
    std::vector<int> of_other;
    for (const DAT_EVENT &event : all) {
        const bool is_dto = event.event_number == DAT_DTO_COMPLETION_EVENT;
        const DAT_EP_HANDLE ep = is_dto ? event.event_data.dto_completion_event_data.ep_handle
                                        : event.event_data.connect_event_data.ep_handle;
        (ep == m.one.ep ? of_one : of_other)
            .push_back(is_dto ? static_cast<int>(cookie_of(event)) : event.event_number);
    }
    CHECK_EQ(of_one, std::vector<int>{10, down});
    CHECK_EQ(of_other, std::vector<int>{up, 20, 21, 22, down});
}

TEST_CASE("the end of a connection comes before news of the endpoint's next one")
{
    for (const bool looked_at : {false, true}) {
        merged_stations m;
        m.one.connect_by_hand();
        m.other.connect_by_hand();
        for (DAT_UINT64 i = 0; i < 3; ++i)
            receive(m.other, i);
        receive(m.one, 9);
        REQUIRE(fire(m.one.port(), down));
        if (looked_at)
            CHECK_EQ(cookie_of(m.c.wait(m.e, 0).event), 0); // the end waits since
        must(m.c.v.ep_reset_func(m.one.ep));
        must(m.c.connect(m.one.ep, 1));
        receive(m.one, 10);
        REQUIRE(fire(m.one.port(), up));
        std::vector<int> of_one;
        for (const DAT_EVENT &event : m.c.drain(m.e))
            if (event.event_number != DAT_DTO_COMPLETION_EVENT)
                of_one.push_back(event.event_number);
            else if (cookie_of(event) >= 9)
                of_one.push_back(static_cast<int>(cookie_of(event)));
        CHECK_EQ(of_one, std::vector<int>{down, up, 10});
    }
}

TEST_CASE("an end that waits is not held up by an endpoint that got the place of its own")
{
    merged_stations m;
    const DAT_EVD_HANDLE elsewhere = m.c.make_evd(DAT_EVD_CONNECTION_FLAG);
    m.one.connect_by_hand();
    m.other.connect_by_hand();
    receive(m.other, 1);
    receive(m.one, 2);
    REQUIRE(fire(m.one.port(), down));
    CHECK_EQ(cookie_of(m.c.wait(m.e, 0).event), 1);
    const DAT_EP_HANDLE gone = m.one.ep;
    must(m.c.v.ep_free_func(gone));
    station next(m.c, m.e, elsewhere);
    CHECK_EQ(next.ep, gone);
    next.connect_by_hand();
    receive(next, 3);
    CHECK_EQ(m.c.wait(m.e, 0, 10).code, DAT_TIMEOUT_EXPIRED); // counts it
    CHECK_EQ(m.take(), std::vector<int>{down, dto});
}

TEST_CASE("more completions than the EVD is long: the end still comes last")
{
    merged_stations m(2); // the EVD holds two, and the CQ four
    m.one.connect_by_hand();
    for (DAT_UINT64 i = 0; i < 4; ++i)
        receive(m.one, i);
    CHECK_EQ(m.c.wait(m.e, 0, 2).nmore, port_features.cq_count ? 3 : 2);
    receive(m.one, 4);
    REQUIRE(fire(m.one.port(), down));
    CHECK_EQ(m.take(), std::vector<int>{dto, dto, dto, dto, down});
}

TEST_CASE("more ends than the EVD is long come all the same")
{
    merged_stations m(1);
    m.one.connect_by_hand();
    m.other.connect_by_hand();
    receive(m.one, 1);
    REQUIRE(fire(m.one.port(), down));
    receive(m.other, 2);
    DAT_EVENT event;
    must(m.c.dequeue(m.e, event));
    REQUIRE(fire(m.other.port(), down));
    const std::vector<int> rest = m.take();
    CHECK_EQ(rest.size(), 3);
    CHECK_EQ(std::count(rest.begin(), rest.end(), int{down}), 2);
}

TEST_CASE("thresholds and nmore count what waits, and the count is exact")
{
    merged_stations m;
    must(m.c.connect(m.one.ep, 1));
    receive(m.one, 1);
    CHECK_EQ(m.c.wait(m.e, 1000, 2).code, DAT_TIMEOUT_EXPIRED);
    REQUIRE(fire(m.one.port(), up));
    receive(m.one, 2);
    REQUIRE(fire(m.one.port(), down));
    must(m.c.post_se(m.e));
    for (DAT_COUNT left = 4; left >= 0; --left) {
        const wait_answer got = m.c.wait(m.e, 0, left + 1);
        CHECK_EQ(got.code, DAT_SUCCESS);
        CHECK_EQ(got.nmore, left);
    }
    CHECK(m.empty());
}

TEST_CASE("who waits beside an early completion is woken by ESTABLISHED")
{
    for (int turn = 0; turn < rounds(200); ++turn) {
        merged_stations m;
        must(m.c.connect(m.one.ep, 1));
        auto waiter =
            std::async(std::launch::async, [&] { return m.c.wait(m.e, DAT_TIMEOUT_INFINITE); });
        receive(m.one, 1);
        REQUIRE(fire(m.one.port(), up));
        CHECK_EQ(waiter.get().event.event_number, up);
        CHECK_EQ(m.take(), std::vector<int>{dto});
    }
}

TEST_CASE("a resize keeps what waits, and the order" * doctest::skip(!port_features.cq_resize))
{
    merged_stations m(8);
    m.other.connect_by_hand();
    must(m.c.connect(m.one.ep, 1));
    receive(m.one, 1);
    receive(m.other, 2);
    receive(m.other, 3);
    REQUIRE(fire(m.other.port(), down));
    CHECK_EQ(cookie_of(m.c.wait(m.e, 0).event), 2);
    must(m.c.v.evd_resize_func(m.e, 3));
    must(m.c.v.evd_resize_func(m.e, 30));
    CHECK_EQ(m.take(), std::vector<int>{dto, down});
    REQUIRE(fire(m.one.port(), up));
    CHECK_EQ(m.take(), std::vector<int>{up, dto});
}

TEST_CASE("the callback races with the completions: the consumer sees one order")
{
    for (const line which : {line::nonthreadsafe, line::threadsafe}) {
        auto *m = new merged_stations(64, which);
        qp &port = m->one.port();
        const int total = rounds(20'000);
        std::atomic<int> round{0};
        std::atomic<int> received{0};
        const auto await = [](const std::atomic<int> &what, int value) {
            while (what.load() != value)
                std::this_thread::yield();
        };
        std::thread data([&] {
            for (int i = 1; i <= total; ++i) {
                await(round, i);
                complete_recv(port);
                complete_recv(port);
                received.store(i);
            }
        });
        std::thread callbacks([&] {
            for (int i = 1; i <= total; ++i) {
                await(round, i);
                fire(port, up);
                await(received, i);
                fire(port, down);
            }
        });
        int wrong = 0;
        const bool done = finishes(
            [&] {
                const int expected[] = {up, dto, dto, down};
                for (int i = 1; i <= total; ++i) {
                    wrong += m->c.post_recv(m->one.ep) != DAT_SUCCESS;
                    wrong += m->c.post_recv(m->one.ep) != DAT_SUCCESS;
                    wrong += m->c.connect(m->one.ep, 1) != DAT_SUCCESS;
                    round.store(i);
                    for (const int number : expected) {
                        DAT_EVENT event;
                        if (i % 2 == 0)
                            event = m->c.wait(m->e, DAT_TIMEOUT_INFINITE).event;
                        else
                            while (m->c.dequeue(m->e, event) != DAT_SUCCESS)
                                std::this_thread::yield();
                        wrong += event.event_number != number;
                    }
                    wrong += m->c.v.ep_reset_func(m->one.ep) != DAT_SUCCESS;
                }
            },
            [&] { return round.load(); });
        REQUIRE_MESSAGE(done, "hangs in round " << round.load());
        data.join();
        callbacks.join();
        CHECK_EQ(wrong, 0);
        delete m;
    }
}

TEST_SUITE_END();
