// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Locks, wait objects, conditions.
#include "osd_sync.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace {

using osd::deadline;
using osd::wait_result;

void sleep_ms(int ms)
{
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

std::int64_t ms_since(std::int64_t start)
{
    return (osd::now_ns() - start) / 1'000'000;
}

/// What the annotations are for; compiled with -Wthread-safety where there is one.
class guarded {
public:
    void set(int value) OSD_EXCLUDES(lock_)
    {
        osd::lock_guard hold(lock_);
        value_ = value;
    }
    int get() OSD_EXCLUDES(lock_)
    {
        lock_.lock();
        const int now = get_locked();
        lock_.unlock();
        return now;
    }
    int peek() OSD_UNCHECKED { return value_; }
    bool try_set(int value) OSD_EXCLUDES(lock_)
    {
        if (!lock_.try_lock())
            return false;
        value_ = value;
        lock_.unlock();
        return true;
    }

private:
    int get_locked() OSD_REQUIRES(lock_) { return value_; }

    osd::mutex lock_;
    int value_ OSD_GUARDED_BY(lock_) = 0;
};

} // namespace

TEST_SUITE_BEGIN("sync");

TEST_CASE("annotated locks compile and exclude")
{
    guarded g;
    g.set(5);
    CHECK_EQ(g.get(), 5);
    CHECK(g.try_set(6));
    CHECK_EQ(g.peek(), 6);

    osd::mutex m;
    long sum = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 20'000; ++i) {
                osd::lock_guard hold(m);
                ++sum;
            }
        });
    for (std::thread &t : threads)
        t.join();
    CHECK_EQ(sum, 80'000);
}

TEST_CASE("try_lock fails while another thread holds the lock")
{
    osd::mutex m;
    m.lock();
    bool taken = true;
    std::thread([&] {
        if (m.try_lock())
            m.unlock();
        else
            taken = false;
    }).join();
    m.unlock();
    CHECK_FALSE(taken);
}

TEST_CASE("a wake before the wait is kept; several count as one")
{
    osd::wait_object w;
    w.wake();
    w.wake();
    w.wake();
    CHECK_EQ(w.wait(deadline::never()), wait_result::woken);
    CHECK_EQ(w.wait(deadline::passed()), wait_result::timed_out);
}

TEST_CASE("a wait object times out at its deadline, and not before")
{
    osd::wait_object w;
    const std::int64_t start = osd::now_ns();
    CHECK_EQ(w.wait(deadline::after_us(30'000)), wait_result::timed_out);
    CHECK(osd::now_ns() - start >= 30'000'000);
    CHECK(ms_since(start) < 20'000); // busy machines wake late
    CHECK_EQ(w.wait(deadline::passed()), wait_result::timed_out);
    w.wake();
    CHECK_EQ(w.wait(deadline::passed()), wait_result::woken);
}

TEST_CASE("a wait object wakes a sleeper, who sleeps without a deadline")
{
    osd::wait_object w;
    std::atomic<bool> woken{false};
    std::thread sleeper([&] {
        CHECK_EQ(w.wait(deadline::never()), wait_result::woken);
        woken = true;
    });
    sleep_ms(20);
    CHECK_FALSE(woken.load());
    w.wake();
    sleeper.join();
}

TEST_CASE("no wake of a wait object is lost")
{
    // What a producer stored before its wake is seen by a waiter that was woken. A waiter that
    // goes back to sleep although there is something, and is not woken again, has lost a wake.
    osd::wait_object w;
    std::atomic<int> stored{0};
    constexpr int total = 3'000'000;
    std::thread producer([&] {
        for (int i = 0; i < total; ++i) {
            stored.fetch_add(1);
            w.wake();
        }
    });
    int lost = 0;
    for (int seen = 0; seen < total;) {
        const wait_result result = w.wait(deadline::after_us(500'000));
        const int now = stored.load();
        lost += result == wait_result::timed_out && now != seen;
        seen = now;
    }
    producer.join();
    CHECK_EQ(lost, 0);
}

TEST_CASE("no wake of a wait object is lost: two producers, a waiter with short timeouts")
{
    osd::wait_object w;
    std::atomic<int> stored{0};
    constexpr int each = 300'000;
    const auto produce = [&] {
        for (int i = 0; i < each; ++i) {
            stored.fetch_add(1);
            w.wake();
            if (i % 64 == 0)
                std::this_thread::yield();
        }
    };
    std::thread first(produce), second(produce);
    int lost = 0;
    int turn = 0;
    for (int seen = 0; seen < 2 * each; ++turn) {
        const bool patient = turn % 4 != 0;
        const wait_result result =
            w.wait(patient ? deadline::after_us(500'000) : deadline::after_us(turn % 50));
        const int now = stored.load();
        lost += patient && result == wait_result::timed_out && now != seen;
        seen = now;
    }
    first.join();
    second.join();
    CHECK_EQ(lost, 0);
}

TEST_CASE("each wake that finds the waiter asleep returns one wait: ping-pong")
{
    osd::wait_object ping, pong;
    constexpr int total = 50'000;
    int lost = 0;
    std::thread echo([&] {
        for (int i = 0; i < total; ++i) {
            lost += ping.wait(deadline::after_us(2'000'000)) != wait_result::woken;
            pong.wake();
        }
    });
    int mine = 0;
    for (int i = 0; i < total; ++i) {
        ping.wake();
        mine += pong.wait(deadline::after_us(2'000'000)) != wait_result::woken;
    }
    echo.join();
    CHECK_EQ(lost + mine, 0);
}

TEST_CASE("a condition times out, with its mutex held again")
{
    osd::mutex m;
    osd::condition changed;
    m.lock();
    const std::int64_t start = osd::now_ns();
    wait_result result{};
    do
        result = changed.wait(m, deadline::after_us(20'000));
    while (result == wait_result::woken && ms_since(start) < 20);
    CHECK_EQ(result, wait_result::timed_out);
    CHECK(ms_since(start) >= 20);
    std::thread([&] { CHECK_FALSE(m.try_lock()); }).join();
    m.unlock();
}

TEST_CASE("a broadcast wakes every waiter of a condition, a signal at least one")
{
    osd::mutex m;
    osd::condition changed;
    int tickets = 0;
    int taken = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; ++i)
        threads.emplace_back([&] {
            osd::lock_guard hold(m);
            while (tickets == 0)
                (void)changed.wait(m, deadline::never());
            --tickets;
            ++taken;
        });
    for (int i = 0; i < 3; ++i) {
        sleep_ms(5);
        osd::lock_guard hold(m);
        ++tickets;
        changed.signal();
    }
    for (int taken_now = 0; taken_now < 3;) {
        sleep_ms(1);
        osd::lock_guard hold(m);
        taken_now = taken;
    }
    {
        osd::lock_guard hold(m);
        tickets += 3;
        changed.broadcast();
    }
    for (std::thread &t : threads)
        t.join();
    CHECK_EQ(taken, 6);
}

TEST_CASE("no signal of a condition is lost")
{
    osd::mutex m;
    osd::condition changed;
    int available = 0;
    int taken = 0;
    constexpr int each = 30'000;
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&] {
            for (int n = 0; n < each; ++n) {
                osd::lock_guard hold(m);
                while (available == 0)
                    (void)changed.wait(m, deadline::never());
                --available;
                ++taken;
            }
        });
        threads.emplace_back([&] {
            for (int n = 0; n < each; ++n) {
                osd::lock_guard hold(m);
                ++available;
                changed.signal();
            }
        });
    }
    for (std::thread &t : threads)
        t.join();
    CHECK_EQ(taken, 2 * each);
}

TEST_SUITE_END();
