// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Consumers that only dequeue pass the processor on to each other, and to nobody else.
#include "fixture.hpp"
#include "osd_poll_pause.hpp"
#include "wraps.hpp"

#include <ctime>
#include <random>
#include <sched.h>
#include <thread>

using namespace test;
using osd::poll_pause;

namespace {

constexpr std::int64_t at_once = poll_pause::alone_ns - 1;
constexpr std::int64_t shared = poll_pause::alone_ns;
constexpr std::int64_t slice = poll_pause::slice_ns;

/// A consumer that polls in vain, beside others that let a yield take as long as the test says.
struct poller {
    /// Polls until a pause is due; returns how often that was.
    std::uint32_t polls()
    {
        std::uint32_t n = 1;
        while (n <= poll_pause::most_polls && !pause.is_due())
            ++n;
        return n;
    }
    /// Whether it yields in the pause that is due.
    bool yields(std::int64_t took)
    {
        if (!pause.begin(now))
            return false;
        pause.learn(now, now + took);
        now += took;
        return true;
    }
    /// One pause after the other; how often it polls before the next.
    std::uint32_t polls_after(std::int64_t took)
    {
        (void)polls();
        CHECK(yields(took));
        const std::uint32_t count = polls();
        (void)pause.begin(now);
        return count;
    }

    poll_pause pause;
    std::int64_t now = 5 * poll_pause::tick_ns + 1;
};

/// What the calling thread has used of a processor, in seconds.
double processor_time()
{
    timespec used{};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

/// The processor that the calling thread is on, and its child.
void stay_on_this_processor()
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
    REQUIRE_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

void take(consumer &c, DAT_EVD_HANDLE from)
{
    DAT_EVENT event;
    while (c.v.evd_dequeue_func(from, &event) != DAT_SUCCESS) {
    }
}

/// Two threads of one processor pass an event to and fro; what that takes the first of its time.
double exchange(consumer &c, DAT_EVD_HANDLE here, DAT_EVD_HANDLE there, int round_trips)
{
    std::thread other([&] {
        for (int i = 0; i < round_trips; ++i) {
            take(c, there);
            must(c.post_se(here));
        }
    });
    const double before = processor_time();
    for (int i = 0; i < round_trips; ++i) {
        must(c.post_se(there));
        take(c, here);
    }
    const double used = processor_time() - before;
    other.join();
    return used;
}

} // namespace

TEST_SUITE_BEGIN("poll_pause");

TEST_CASE("a consumer that is alone yields rarely")
{
    poller p;
    CHECK_EQ(p.polls(), poll_pause::most_polls);
    for (int i = 0; i < 100; ++i) {
        CHECK(p.yields(at_once));
        CHECK_EQ(p.polls(), poll_pause::most_polls);
    }
}

TEST_CASE("a consumer beside others that poll yields often, until they are gone")
{
    poller p;
    CHECK_EQ(p.polls_after(shared), poll_pause::fewest_polls);
    CHECK_EQ(p.polls_after(poll_pause::passed_on_ns - 1), poll_pause::fewest_polls);
    CHECK_EQ(p.polls_after(at_once), poll_pause::fewest_polls);
    std::uint32_t expected = poll_pause::fewest_polls;
    while (expected != poll_pause::most_polls)
        CHECK_EQ(p.polls_after(at_once), expected *= 2);
    CHECK_EQ(p.polls_after(at_once), poll_pause::most_polls);
}

TEST_CASE("a yield that took some time once costs one more yield")
{
    poller p;
    for (int i = 0; i < 10; ++i) {
        CHECK_EQ(p.polls_after(shared), poll_pause::fewest_polls);
        CHECK_EQ(p.polls_after(at_once), poll_pause::most_polls);
    }
}

TEST_CASE("a consumer beside threads that compute gives few time slices away until the next tick")
{
    poller p;
    for (std::int64_t i = 0; i < poll_pause::most_slices; ++i) {
        (void)p.polls();
        CHECK(p.yields(slice));
    }
    for (int i = 0; i < 10; ++i) {
        CHECK_EQ(p.polls(), poll_pause::most_polls);
        CHECK_FALSE(p.yields(slice));
    }
    (void)p.polls();
    p.now = 6 * poll_pause::tick_ns - 1;
    CHECK_FALSE(p.yields(at_once));
    (void)p.polls();
    p.now = 6 * poll_pause::tick_ns;
    CHECK(p.yields(shared));
    CHECK_EQ(p.polls(), poll_pause::fewest_polls);
}

TEST_CASE("parts of time slices, which end at a tick of the system, are lost like whole ones")
{
    std::mt19937 random(1);
    constexpr std::int64_t tick_of_system = 4'000'000;
    poller p;
    const std::int64_t begin = p.now;
    std::int64_t lost = 0;
    for (int i = 0; i < 20'000; ++i) {
        p.now += 100'000; // polls in vain
        (void)p.polls();
        const std::int64_t before = p.now;
        (void)p.yields(1 + static_cast<std::int64_t>(random() % tick_of_system));
        lost += p.now - before;
    }
    CHECK_LT(lost, (p.now - begin) / 10);
}

TEST_CASE("the longer the time slices, the longer a consumer keeps its processor")
{
    poller p;
    (void)p.polls();
    CHECK(p.yields(4 * poll_pause::most_slices * slice));
    (void)p.polls();
    p.now = 8 * poll_pause::tick_ns - 1; // a multiple of four ticks
    CHECK_FALSE(p.yields(at_once));
    (void)p.polls();
    p.now = 8 * poll_pause::tick_ns;
    CHECK(p.yields(at_once));
}

TEST_CASE("a time slice now and then does not keep pollers from yielding to each other")
{
    poller p;
    for (int i = 0; i < 100; ++i) {
        (void)p.polls();
        p.now += poll_pause::part_lost * slice / 4;
        CHECK(p.yields(i % 4 == 0 ? slice : shared));
    }
}

TEST_CASE("short yields between time slices do not let threads that compute have more of these")
{
    poller p;
    const std::int64_t begin = p.now;
    std::int64_t lost = 0;
    for (int i = 0; i < 100'000; ++i) {
        (void)p.polls();
        p.now += 2'000; // polls in vain
        const std::int64_t took = i % 30 == 0 ? 2 * slice : i % 3 == 0 ? shared : at_once;
        lost += p.yields(took) && took > slice ? took : 0;
    }
    CHECK_LT(lost, (p.now - begin) / 10);
    CHECK_GT(lost, 0);
}

TEST_CASE("a dequeue yields now and then, whatever its EVD is for")
{
    constexpr unsigned both = DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG;
    consumer c;
    for (const unsigned streams : {unsigned{DAT_EVD_DTO_FLAG}, unsigned{DAT_EVD_CONNECTION_FLAG},
                                   unsigned{DAT_EVD_SOFTWARE_FLAG}, both}) {
        CAPTURE(streams);
        const DAT_EVD_HANDLE e = c.make_evd(streams);
        const auto yields_of = [&](std::uint32_t polls) {
            const unsigned long before = wraps::of_this_thread().yields;
            DAT_EVENT event;
            for (std::uint32_t i = 0; i < polls; ++i)
                CHECK_EQ(DAT_GET_TYPE(c.v.evd_dequeue_func(e, &event)),
                         static_cast<DAT_UINT32>(DAT_QUEUE_EMPTY));
            return wraps::of_this_thread().yields - before;
        };
        CHECK_EQ(yields_of(poll_pause::most_polls - 1), 0);
        CHECK_EQ(yields_of(1), 1);
        CHECK_LE(yields_of(poll_pause::most_polls),
                 poll_pause::most_polls / poll_pause::fewest_polls);
    }
}

TEST_CASE("two threads of one processor that only dequeue need no time slices for an event")
{
    constexpr int round_trips = 5;
    constexpr double enough = round_trips * 0.0003; // a time slice is ten times as long
    std::thread on_one([=] {
        consumer c(line::threadsafe);
        const DAT_EVD_HANDLE here = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 4),
                             there = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 4);
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(40);
        stay_on_this_processor();
        double best = 1;
        while (best > enough && std::chrono::steady_clock::now() < end)
            best = std::min(best, exchange(c, here, there, round_trips));
        CHECK_LE(best, enough);
    });
    on_one.join();
}

TEST_SUITE_END();
