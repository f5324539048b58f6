// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Many queue pairs in one process, and their cost while they are idle.
#include "rig.hpp"

#include <doctest/doctest.h>

namespace scale_suite {

using namespace rig;

TEST_SUITE_BEGIN("scale");

TEST_CASE("many connections work, and idle they use next to no processor time")
{
    settings how = on_loopback();
    how.keepalive_ms = 1000;
    host here(how);
    host there(how);
    std::deque<end> ends;
    const unsigned pairs = rounds(100);
    for (unsigned i = 0; i < 2 * pairs; ++i)
        ends.emplace_back(i % 2 == 0 ? here : there,
                          end_options{.depth = 8, .queue_depth = 16, .bytes = 4096});
    for (std::size_t i = 0; i < ends.size(); i += 2)
        REQUIRE(establish(ends[i], ends[i + 1]));
    for (int round = 0; round < 3; ++round)
        for (std::size_t i = 0; i < ends.size(); i += 2) {
            REQUIRE(ends[i + 1].receive(0, 64));
            REQUIRE(ends[i].send(0, 64));
            REQUIRE(ends[i + 1].received()->status == work_status::success);
            REQUIRE(ends[i].sent()->status == work_status::success);
        }
    const double used = idle_share(std::chrono::seconds(2));
    MESSAGE("with ", pairs, " idle connections: ", used * 100, " % of a processor");
    CHECK(used < 0.1);
    for (end &each : ends)
        CHECK(!each.next(std::chrono::milliseconds(0)).has_value());
}

TEST_CASE("of many idle connections between two devices, few ask whether the peer is alive")
{
    settings how = on_loopback();
    how.keepalive_ms = 300;
    host here(how);
    host there(how);
    std::deque<end> ends;
    constexpr unsigned pairs = 400;
    for (unsigned i = 0; i < 2 * pairs; ++i)
        ends.emplace_back(i % 2 == 0 ? here : there,
                          end_options{.depth = 4, .queue_depth = 8, .bytes = 4096});
    for (std::size_t i = 0; i < ends.size(); i += 2)
        REQUIRE(establish(ends[i], ends[i + 1]));
    const auto packets = [&] {
        return here.hca.counts().pairs.packets_out + there.hca.counts().pairs.packets_out;
    };
    CHECK(becomes_true([&] { // on a busy machine an answer may come late, and all ask then
        const std::uint64_t before = packets();
        std::this_thread::sleep_for(std::chrono::seconds(3));
        const std::uint64_t sent = packets() - before;
        MESSAGE(sent, " packets");
        return sent != 0 && sent < 3 * pairs;
    }));
    for (end &each : ends)
        CHECK(!each.next(std::chrono::milliseconds(0)).has_value());
}

namespace {

/// Whether the thread sleeps at most so often in each second of a while.
bool sleeps_long(const shard &its, std::uint64_t each_second)
{
    const std::uint64_t sleeps = its.sleeps();
    const std::int64_t begun = osd::now_ns();
    std::this_thread::sleep_for(std::chrono::seconds(2));
    const auto seconds = static_cast<std::uint64_t>(osd::now_ns() - begun) / 1'000'000'000;
    return its.sleeps() - sleeps <= each_second * seconds;
}

} // namespace

/// Ones that wake up every few milliseconds use a hundredth of a processor, by Wine more.
TEST_CASE("a thread sleeps from one timer to the next, whatever woke it before")
{
    host here(on_loopback());
    shard &its = here.hca.shard_at(0);
    REQUIRE(becomes_true([&] {
        its.kick();
        return its.sleeps() != 0;
    }));
    CHECK(becomes_true([&] { return sleeps_long(its, 1); }));
    end a(here);
    end b(here);
    REQUIRE(establish(a, b));
    REQUIRE(b.receive(0, 64));
    REQUIRE(a.send(0, 64));
    expect(b.received(), work_status::success);
    expect(a.sent(), work_status::success);
    // four slow timers, and a probe of each side with its answer
    CHECK(becomes_true([&] { return sleeps_long(its, 40); }));
}

TEST_SUITE_END();

} // namespace scale_suite
