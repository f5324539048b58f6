// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a shard's thread decides by, without threads and clocks.
#include "thread/thread_policy.hpp"

#include <doctest/doctest.h>

namespace policy_suite {

using namespace soft_hca;

namespace {

constexpr std::int64_t patience_ns = 20;

/// A packet comes, and then none as long as it looks on. True when it looked on.
bool looks_after_one(spin_policy &spin, std::int64_t &now)
{
    if (!spin.looks_on(true, ++now))
        return false;
    now += patience_ns;
    CHECK(!spin.looks_on(false, now));
    return true;
}

bool attends_after(attendance &consumers, int times, std::uint32_t polls, bool found,
                   std::int64_t now)
{
    bool attended = false;
    for (int i = 0; i < times; ++i)
        attended = consumers.note(polls, false, found, now);
    return attended;
}

} // namespace

TEST_SUITE_BEGIN("policy");

TEST_CASE("a thread looks on for as long as it was told to, and longer when packets come")
{
    spin_policy spin(patience_ns);
    CHECK(!spin.looks_on(false, 100));
    CHECK(spin.looks_on(true, 100));
    CHECK(spin.looks_on(false, 119));
    CHECK(spin.looks_on(true, 119));
    CHECK(spin.looks_on(false, 138));
    CHECK(!spin.looks_on(false, 139));
    CHECK(!spin.looks_on(false, 140));
}

TEST_CASE("a thread with a spin time of 0 never spins")
{
    spin_policy spin(0);
    CHECK(!spin.looks_on(true, 100));
    CHECK(!spin.looks_on(true, 100));
}

TEST_CASE("spins that find nothing are skipped ever more often")
{
    spin_policy spin(patience_ns);
    std::int64_t now = 0;
    for (int left_out : {1, 3, 7, 15, 31, 63, 127, 255, 255}) {
        CHECK(looks_after_one(spin, now));
        for (int i = 0; i < left_out; ++i)
            CHECK(!looks_after_one(spin, now));
    }
    CHECK(looks_after_one(spin, now));
}

TEST_CASE("looking that finds a few packets only was in vain, too")
{
    spin_policy spin(patience_ns);
    CHECK(spin.looks_on(true, 100));
    CHECK(spin.looks_on(true, 101));
    CHECK(!spin.looks_on(false, 200));
    CHECK(!spin.looks_on(true, 201));
}

TEST_CASE("looking that finds many pays")
{
    spin_policy spin(patience_ns);
    std::int64_t now = 0;
    for (int round = 0; round < 10; ++round) {
        for (int i = 0; i < 20; ++i)
            CHECK(spin.looks_on(true, ++now));
        now += patience_ns;
        CHECK(!spin.looks_on(false, now));
    }
}

TEST_CASE("who polls all the time is believed after a while")
{
    attendance consumers;
    CHECK(!attends_after(consumers, 3, 10, true, 0));
    CHECK(attends_after(consumers, 1, 10, true, 0));
    SUBCASE("and until no poll comes for long")
    {
        CHECK(consumers.note(0, false, false, attendance::longest_pause_ns - 1));
        CHECK(!consumers.note(0, false, false, attendance::longest_pause_ns));
    }
    SUBCASE("and until the thread finds packets and no poll")
    {
        CHECK(!consumers.note(0, false, true, 1));
    }
}

TEST_CASE("who polls and leaves nothing to the thread is believed, too")
{
    attendance consumers;
    CHECK(attends_after(consumers, 4, 1, false, 0));
}

TEST_CASE("who sleeps on the socket is believed at once")
{
    attendance consumers;
    CHECK(consumers.note(0, true, false, 0));
}

TEST_CASE("who polls at the very moment is believed soon, also after it left packets waiting")
{
    attendance consumers;
    CHECK(consumers.note(0, true, true, 0));
    consumers.neglected();
    CHECK(!consumers.note(0, true, true, 0));
    CHECK(consumers.note(0, true, true, 0));
}

TEST_CASE("who polls once for each packet that the thread finds is not believed")
{
    attendance consumers;
    CHECK(!attends_after(consumers, 1000, 1, true, 0));
}

TEST_CASE("a burst of polls now and then is not believed")
{
    attendance consumers;
    for (int i = 0; i < 100; ++i) {
        CHECK(!consumers.note(30, false, true, i));
        CHECK(!consumers.note(0, false, true, i));
    }
}

TEST_CASE("who polls all the time is believed also when others have its processor meanwhile")
{
    attendance consumers;
    constexpr int turns = 100; // within the longest pause: one with the processor, three without
    bool attended = false;
    for (int i = 0; i < 3 * turns; ++i)
        attended = consumers.note(i % 4 == 0 ? 10 : 0, false, true,
                                  i * (attendance::longest_pause_ns / turns));
    CHECK(attended);
    SUBCASE("until it does not")
    {
        CHECK(!attends_after(consumers, 4, 0, true, 5 * attendance::longest_pause_ns));
    }
}

TEST_CASE("who left packets waiting has to show more the next time, until it does not")
{
    attendance consumers;
    CHECK(attends_after(consumers, 4, 10, false, 0));
    consumers.neglected();
    CHECK(!attends_after(consumers, 7, 10, false, 0));
    CHECK(attends_after(consumers, 1, 10, false, 0));
    consumers.neglected();
    CHECK(!attends_after(consumers, 15, 10, false, 0));
    CHECK(attends_after(consumers, 3, 10, false, 0)); // two good rounds
    CHECK(!consumers.note(0, false, true, 0));
    CHECK(attends_after(consumers, 4, 10, false, 0));
}

TEST_CASE("a long run of polls in vain shows that a consumer polls all the time")
{
    poll_run run;
    std::int64_t now = 0;
    for (int runs = 0; runs < 3; ++runs) {
        for (std::uint32_t i = 1; i < poll_run::long_run; ++i)
            CHECK(!run.ends(false, now += 100));
        CHECK(run.ends(false, now += 100));
    }
    // Polls until nothing is there, again and again.
    for (std::uint32_t i = 0; i < 3 * poll_run::long_run; ++i)
        CHECK(!run.ends(true, now += 100));
    // Polls with pauses in between.
    for (std::uint32_t i = 0; i < 3 * poll_run::long_run; ++i)
        CHECK(!run.ends(false, now += 2 * poll_run::longest_ns / poll_run::long_run));
}

TEST_CASE("the socket is read at every poll, unless rings deliver")
{
    socket_pause pause;
    std::int64_t now = 1'000'000;
    pause.begin(now, false);
    CHECK(!pause.lasts(now));
    pause.ring_delivered(now);
    CHECK(pause.lasts(now + 1));
    CHECK(!pause.lasts(now + socket_pause::rings_deliver_ns));
}

TEST_CASE("while rings deliver the socket is read ever more rarely, until something was there")
{
    socket_pause pause;
    std::int64_t now = 1'000'000;
    std::int64_t before = 0;
    for (int i = 0; i < 10; ++i) {
        pause.ring_delivered(now);
        pause.begin(now, false);
        std::int64_t waited = 0;
        while (pause.lasts(now + waited))
            waited += 500;
        CHECK(waited >= before);
        CHECK(waited <= socket_pause::longest_ns);
        before = waited;
        now += waited;
    }
    CHECK(before == socket_pause::longest_ns);
    pause.ring_delivered(now);
    pause.begin(now, true);
    CHECK(pause.lasts(now + socket_pause::shortest_ns - 1));
    CHECK(!pause.lasts(now + socket_pause::shortest_ns));
}

TEST_SUITE_END();

} // namespace policy_suite
