// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connect timeouts: in order, once, never after the endpoint has moved on.
#include "fixture.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

using namespace test;

namespace {

struct recorder : timer_record {
    std::atomic<int> runs{0};
    std::int64_t ran_at = 0;
    lab::latch *gate = nullptr;

    recorder()
    {
        expired = [](timer_record &record) -> deferred_call {
            auto &me = static_cast<recorder &>(record);
            me.ran_at = osd::now_ns();
            if (me.gate != nullptr)
                me.gate->wait();
            me.runs.fetch_add(1);
            return {};
        };
    }
    void await() const
    {
        while (runs == 0)
            std::this_thread::yield();
    }
};

/// Keeps the thread of a queue busy from here to release(): nothing expires meanwhile, however long
/// the machine lets this thread wait.
class occupied {
public:
    explicit occupied(timer_queue &timers)
    {
        blocker_.gate = &gate_;
        REQUIRE(timers.arm(blocker_, osd::deadline::passed()));
        gate_.await_arrival();
    }
    ~occupied() { release(); }
    void release()
    {
        gate_.open();
        blocker_.await();
    }

private:
    lab::latch gate_;
    recorder blocker_;
};

void sleep_ms(int ms)
{
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

} // namespace

TEST_SUITE_BEGIN("timer");

TEST_CASE("many timers expire once each, in the order of their deadlines")
{
    timer_queue timers;
    std::vector<recorder> records(200);
    std::minstd_rand dice(7);
    occupied busy(timers);
    for (recorder &r : records)
        REQUIRE(timers.arm(r, osd::deadline::after_us(20'000 + dice() % 60'000)));
    busy.release();
    for (const recorder &r : records)
        r.await();
    sleep_ms(20);
    std::vector<recorder *> order;
    for (recorder &r : records)
        order.push_back(&r);
    std::sort(order.begin(), order.end(), [](const recorder *a, const recorder *b) {
        return std::pair(a->due.at_ns(), a->ran_at) < std::pair(b->due.at_ns(), b->ran_at);
    });
    std::int64_t last = 0;
    for (const recorder *r : order) {
        CHECK_EQ(r->runs.load(), 1);
        CHECK(r->ran_at >= r->due.at_ns());
        CHECK(r->ran_at >= last);
        last = r->ran_at;
    }
}

TEST_CASE("an earlier deadline overtakes the one slept for")
{
    timer_queue timers;
    recorder late, early;
    REQUIRE(timers.arm(late, osd::deadline::after_us(10'000'000)));
    sleep_ms(5);
    REQUIRE(timers.arm(early, osd::deadline::after_us(5'000)));
    const auto before = std::chrono::steady_clock::now();
    early.await();
    CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(5));
    timers.cancel(late);
    CHECK_EQ(late.runs.load(), 0);
}

TEST_CASE("a disarmed timer does not expire, whatever its place in the queue")
{
    for (int victim = 0; victim < 3; ++victim) {
        timer_queue timers;
        recorder records[3];
        occupied busy(timers);
        for (int i = 0; i < 3; ++i)
            REQUIRE(timers.arm(records[i], osd::deadline::after_us(10'000)));
        timers.disarm(records[victim]);
        timers.disarm(records[victim]);
        busy.release();
        for (int i = 0; i < 3; ++i)
            if (i != victim)
                records[i].await();
        sleep_ms(5);
        CHECK_EQ(records[victim].runs.load(), 0);
    }
}

TEST_CASE("cancel waits for a running expiry")
{
    timer_queue timers;
    recorder r;
    lab::latch gate;
    r.gate = &gate;
    REQUIRE(timers.arm(r, osd::deadline::passed()));
    gate.await_arrival();
    std::atomic<bool> cancelled{false};
    std::thread canceller([&] {
        timers.cancel(r);
        CHECK_EQ(r.runs.load(), 1);
        cancelled = true;
    });
    sleep_ms(20);
    CHECK_FALSE(cancelled.load());
    gate.open();
    canceller.join();
}

TEST_CASE("a timer can be armed again after it expired, and stop drops what is queued")
{
    timer_queue timers;
    recorder r, never;
    for (int i = 0; i < 10; ++i) {
        r.runs = 0;
        REQUIRE(timers.arm(r, osd::deadline::after_us(100)));
        r.await();
        timers.cancel(r);
    }
    REQUIRE(timers.arm(never, osd::deadline::after_us(60'000'000)));
    timers.stop();
    CHECK_EQ(never.runs.load(), 0);
}

TEST_CASE(
    "a connect without an answer times out: DISCONNECTED, one TIMED_OUT, the port abandons it")
{
    consumer c;
    station s(c);
    must(c.connect(s.ep, 1, 5'000));
    const wait_answer got = c.wait(s.connections, 5'000'000);
    REQUIRE_EQ(got.code, DAT_SUCCESS);
    CHECK_EQ(got.event.event_number, DAT_CONNECTION_EVENT_TIMED_OUT);
    CHECK_EQ(c.state(s.ep), DAT_EP_STATE_DISCONNECTED);
    must(c.v.ep_reset_func(s.ep)); // waits for the expiry
    CHECK_EQ(lab::calls(lab::op::disconnect_clean), 1);
    CHECK_EQ(s.connect_event(), 0);
}

TEST_CASE("a timeout on a full connect EVD is an overflow, told on the async EVD")
{
    consumer c;
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_CONNECTION_FLAG | DAT_EVD_SOFTWARE_FLAG, 1);
    while (c.post_se(e) == DAT_SUCCESS) {
    }
    station s(c, c.make_evd(DAT_EVD_DTO_FLAG), e);
    must(c.connect(s.ep, 1, 2'000));
    const wait_answer got = c.wait(c.async, 500'000);
    CHECK_EQ(got.code, DAT_SUCCESS);
    CHECK_EQ(got.event.event_number, DAT_ASYNC_ERROR_EVD_OVERFLOW);
}

TEST_CASE("no timeout after established, disconnect, reset or free")
{
    consumer c;
    station s(c);
    must(c.connect(s.ep, 1, 500'000));
    REQUIRE(fire(s.port(), DAT_CONNECTION_EVENT_ESTABLISHED));
    sleep_ms(550);
    CHECK_EQ(c.drain(s.connections).size(), 1);
    REQUIRE(fire(s.port(), DAT_CONNECTION_EVENT_DISCONNECTED));
    must(c.v.ep_reset_func(s.ep));
    must(c.connect(s.ep, 1, 500'000));
    must(c.v.ep_disconnect_func(s.ep, DAT_CLOSE_ABRUPT_FLAG));
    must(c.v.ep_reset_func(s.ep));
    CHECK_EQ(c.drain(s.connections).size(), 2);
    must(c.connect(s.ep, 1, 500'000));
    must(c.v.ep_free_func(s.ep));
    sleep_ms(550);
    CHECK(c.drain(s.connections).empty());
}

TEST_CASE("expiry against established: one of the two, and the state agrees")
{
    consumer c;
    station s(c);
    int wrong = 0;
    int timeouts = 0;
    const int turns = rounds(400);
    for (int i = 0; i < turns; ++i) {
        must(c.connect(s.ep, 1, 150));
        const std::int64_t until = osd::now_ns() + 100'000 + i % 20 * 10'000;
        while (osd::now_ns() < until) {
        }
        fire(s.port(), DAT_CONNECTION_EVENT_ESTABLISHED);
        sleep_ms(i % 8 == 0 ? 1 : 0);
        const wait_answer got = c.wait(s.connections, 5'000'000);
        const bool timed_out = got.event.event_number == DAT_CONNECTION_EVENT_TIMED_OUT;
        timeouts += timed_out;
        wrong += got.code != DAT_SUCCESS;
        wrong += c.state(s.ep) != (timed_out ? DAT_EP_STATE_DISCONNECTED : DAT_EP_STATE_CONNECTED);
        fire(s.port(), DAT_CONNECTION_EVENT_DISCONNECTED);
        must(c.v.ep_reset_func(s.ep));
        wrong += c.drain(s.connections).size() != (timed_out ? 0 : 1);
    }
    MESSAGE(timeouts << " of " << turns << " timed out");
    CHECK_EQ(wrong, 0);
}

TEST_CASE("expiry against ep_free: never a timeout for an endpoint that is gone")
{
    consumer c;
    const DAT_EVD_HANDLE connections = c.make_evd(DAT_EVD_CONNECTION_FLAG, 4);
    const DAT_EVD_HANDLE dto = c.make_evd(DAT_EVD_DTO_FLAG, 4);
    const DAT_PZ_HANDLE pz = c.make_pz();
    int wrong = 0;
    for (int i = 0; i < rounds(400); ++i) {
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        must(c.v.ep_create_func(c.ia, pz, dto, dto, connections, nullptr, &ep));
        must(c.connect(ep, 1, 100));
        const std::int64_t until = osd::now_ns() + 50'000 + i % 20 * 10'000;
        while (osd::now_ns() < until) {
        }
        must(c.v.ep_free_func(ep));
        (void)c.drain(connections);
        if (i % 8 == 0)
            sleep_ms(1);
        wrong += !c.drain(connections).empty();
    }
    CHECK_EQ(wrong, 0);
}

TEST_CASE("a connect that fails after its timeout ran out reports once: by event or by its code")
{
    consumer c;
    station s(c);
    lab::latch gate;
    lab::plan_of(lab::op::connect).gate = &gate;
    lab::fail(lab::op::connect, error_code(DAT_INSUFFICIENT_RESOURCES));
    std::thread opener([&] {
        sleep_ms(40);
        gate.open();
    });
    const DAT_RETURN code = c.connect(s.ep, 1, 5'000);
    opener.join();
    const std::size_t events = c.drain(s.connections).size();
    if (code == DAT_SUCCESS) {
        CHECK_EQ(events, 1);
        CHECK_EQ(c.state(s.ep), DAT_EP_STATE_DISCONNECTED);
    } else {
        CHECK_EQ(events, 0);
        CHECK_EQ(c.state(s.ep), DAT_EP_STATE_UNCONNECTED);
    }
}

TEST_CASE("an attempt whose timeout runs out while the port begins it is abandoned there")
{
    consumer c;
    station s(c);
    lab::latch gate;
    lab::plan_of(lab::op::connect).gate = &gate;
    std::thread opener([&] {
        sleep_ms(40);
        gate.open();
    });
    must(c.connect(s.ep, 1, 5'000));
    opener.join();
    const wait_answer got = c.wait(s.connections, 5'000'000);
    REQUIRE_EQ(got.code, DAT_SUCCESS);
    CHECK_EQ(got.event.event_number, DAT_CONNECTION_EVENT_TIMED_OUT);
    CHECK(s.port().now == phase::down);
}

TEST_CASE("no request reaches the port while an attempt that timed out is abandoned there")
{
    consumer c;
    station s(c);
    lab::latch gate;
    lab::plan_of(lab::op::disconnect_clean).gate = &gate;
    must(c.connect(s.ep, 1, 1000));
    gate.await_arrival();
    CHECK_EQ(c.state(s.ep), DAT_EP_STATE_DISCONNECTED);
    CHECK_EQ(c.post_send(s.ep), error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_DISCONNECTED));
    gate.open();
    CHECK_EQ(c.wait(s.connections, 20'000'000).event.event_number, DAT_CONNECTION_EVENT_TIMED_OUT);
    must(c.post_send(s.ep, 7));
    DAT_EVENT event;
    must(c.dequeue(s.request, event));
    CHECK_EQ(cookie_of(event), 7);
    CHECK_EQ(status_of(event), DAT_DTO_ERR_FLUSHED);
}

TEST_CASE("a connect that waited behind another call leaves no timer on a freed endpoint")
{
    int late_events = 0;
    for (int turn = 0; turn < 20; ++turn) {
        consumer c(line::threadsafe);
        station s(c);
        s.connect_by_hand();
        REQUIRE(fire(s.port(), DAT_CONNECTION_EVENT_DISCONNECTED));
        lab::latch gate;
        lab::plan_of(lab::op::qp_reset).gate = &gate;
        std::thread resets([&] { (void)c.v.ep_reset_func(s.ep); });
        gate.await_arrival();
        std::thread connects([&] { (void)c.connect(s.ep, 1, 2'000); });
        sleep_ms(5);
        std::thread frees([&] { (void)c.v.ep_free_func(s.ep); });
        sleep_ms(5);
        gate.open();
        resets.join();
        connects.join();
        frees.join();
        (void)c.drain(s.connections);
        sleep_ms(5);
        late_events += static_cast<int>(c.drain(s.connections).size());
    }
    CHECK_EQ(late_events, 0);
}

TEST_CASE(
    "an EVD can be freed when its TIMED_OUT was taken, though the CNO is still being triggered")
{
    consumer c;
    lab::latch gate;
    agent a;
    a.what = [&](DAT_EVD_HANDLE) { gate.wait(); };
    auto s = std::make_unique<station>(c);
    const DAT_EVD_HANDLE e = s->connections;
    must(c.v.evd_modify_cno_func(e, c.make_cno(a.value())));
    must(c.connect(s->ep, here + 1, 1000));
    gate.await_arrival();
    CHECK_EQ(c.drain(e).size(), 1);
    must(c.v.ep_free_func(s->ep));
    std::atomic<DAT_RETURN> code{DAT_QUEUE_EMPTY};
    std::thread frees([&] { code = c.v.evd_free_func(e); });
    sleep_ms(20);
    CHECK_EQ(code.load(), DAT_QUEUE_EMPTY); // waits for the agent
    gate.open();
    frees.join();
    CHECK_EQ(code.load(), DAT_SUCCESS);
}

TEST_CASE("a failure that was not reported yet is reported by a reset of its endpoint, or a free")
{
    using namespace std::chrono_literals;
    bool frees = false;
    SUBCASE("reset") {}
    SUBCASE("free")
    {
        frees = true;
    }
    consumer c;
    station s(c);
    s.connect_by_hand();
    must(c.post_recv(s.ep));
    const sleep_of_waiter sleep(s.connections);
    auto waiter = std::async(std::launch::async, [&] { return c.wait(s.connections, 30'000'000); });
    sleep.await();
    {
        const occupied busy(from_handle<adapter>(c.ia)->timers);
        REQUIRE(complete_recv(s.port(), DAT_DTO_ERR_LOCAL_LENGTH));
        DAT_EVENT event;
        must(c.dequeue(s.recv, event)); // stores BROKEN, and leaves the rest to the timers
        must(frees ? c.v.ep_free_func(s.ep) : c.v.ep_reset_func(s.ep));
        CHECK(waiter.wait_for(10s) == std::future_status::ready);
    }
    CHECK_EQ(waiter.get().event.event_number, DAT_CONNECTION_EVENT_BROKEN);
}

TEST_CASE("a reset of an endpoint of an SRQ reports a failure, and releases the connect EVD" *
          doctest::skip(!port_features.srq))
{
    using namespace std::chrono_literals;
    consumer c;
    station s(c);
    DAT_SRQ_ATTR attr{4, 1, DAT_SRQ_LW_DEFAULT};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    must(c.v.srq_create_func(c.ia, s.pz, &attr, &srq));
    must(c.v.ep_free_func(s.ep));
    must(c.v.ep_create_with_srq_func(c.ia, s.pz, s.recv, s.request, s.connections, srq, nullptr,
                                     &s.ep));
    s.connect_by_hand();
    must(c.post_send(s.ep));
    const sleep_of_waiter sleep(s.connections);
    auto waiter = std::async(std::launch::async, [&] { return c.wait(s.connections, 30'000'000); });
    sleep.await();
    {
        const occupied busy(from_handle<adapter>(c.ia)->timers);
        REQUIRE(complete_send(s.port(), DAT_DTO_ERR_REMOTE_ACCESS));
        DAT_EVENT event;
        must(c.dequeue(s.request, event));
        must(c.v.ep_reset_func(s.ep));
        CHECK(waiter.wait_for(10s) == std::future_status::ready);
        CHECK_EQ(waiter.get().event.event_number, DAT_CONNECTION_EVENT_BROKEN);
        const auto async = c.drain(c.async);
        REQUIRE_EQ(async.size(), 1);
        CHECK_EQ(async[0].event_number, DAT_ASYNC_ERROR_EP_BROKEN);
        CHECK_EQ(async[0].event_data.asynch_error_event_data.dat_handle, s.ep);
    }
    must(c.v.ep_free_func(s.ep));
    must(c.v.evd_free_func(s.connections));
}

TEST_CASE("a connection event wakes its waiter after one that was taken before it was reported")
{
    using namespace std::chrono_literals;
    consumer c;
    station s(c);
    s.connect_by_hand();
    must(c.post_recv(s.ep));
    {
        const occupied busy(from_handle<adapter>(c.ia)->timers);
        REQUIRE(complete_recv(s.port(), DAT_DTO_ERR_LOCAL_LENGTH));
        DAT_EVENT event;
        must(c.dequeue(s.recv, event));
        CHECK_EQ(s.connect_event(), DAT_CONNECTION_EVENT_BROKEN);
        must(c.v.ep_reset_func(s.ep));
    }
    must(c.connect(s.ep, here));
    const sleep_of_waiter sleep(s.connections);
    auto waiter = std::async(std::launch::async, [&] { return c.wait(s.connections, 30'000'000); });
    sleep.await();
    REQUIRE(fire(s.port(), DAT_CONNECTION_EVENT_ESTABLISHED));
    CHECK(waiter.wait_for(10s) == std::future_status::ready);
    CHECK_EQ(waiter.get().event.event_number, DAT_CONNECTION_EVENT_ESTABLISHED);
}

TEST_SUITE_END();
