// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// All ranks with all others, and many threads of each.
#include "ranks.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <thread>
#include <vector>

using namespace ranks;

namespace {

/// A slot in the segment of `owner` that only `writer` touches.
std::byte *slot(int owner, int writer, std::size_t bytes)
{
    return segment_of(owner) + std::size_t(writer) * bytes;
}

} // namespace

TEST_CASE("all to all: every kind of message and transfer between every two ranks")
{
    constexpr std::size_t bytes = 20'000;
    REQUIRE(std::size_t(size()) * bytes * 2 < segment_size);
    expected_seed = 3;
    counted.requests = counted.replies = counted.errors = 0;
    REQUIRE(barrier());
    std::vector<std::byte> payload(bytes);
    fill(payload.data(), bytes, me(), 3);
    std::int32_t args[4];
    make_args(args, 4, 3);
    for (int i = 0; i < size(); ++i) {
        const int to = (me() + i) % size();
        std::byte *there = slot(to, me(), bytes);
        REQUIRE(dapl_am_request_short(to, echo_short_request, 4, args, 0) == DAPL_AM_OK);
        REQUIRE(dapl_am_request_medium(to, echo_medium_request, payload.data(), 5000, 4, args, 0) ==
                DAPL_AM_OK);
        REQUIRE(dapl_am_request_long(to, count_request, payload.data(), 3000, there, 4, args, 0) ==
                DAPL_AM_OK);
        REQUIRE(dapl_am_request_long(to, count_request, payload.data(), bytes, there, 4, args, 0) ==
                DAPL_AM_OK);
    }
    until([&] { return counted.requests >= 4 * size() && counted.replies >= 2 * size(); });
    REQUIRE(barrier());
    CHECK(counted.requests == 4 * size());
    CHECK(counted.replies == 2 * size());
    CHECK(counted.errors == 0);
    std::size_t bad = 0;
    for (int from = 0; from < size(); ++from)
        bad += wrong(slot(me(), from, bytes), bytes, from, 3);
    CHECK(bad == 0);
    counted.requests = counted.replies = 0;
    REQUIRE(barrier());

    fill(payload.data(), bytes, me(), 4);
    std::vector<std::byte> back(bytes);
    for (int i = 0; i < size(); ++i) {
        const int to = (me() + i) % size();
        REQUIRE(dapl_am_put_nbi(to, slot(to, me(), bytes), payload.data(), bytes) == DAPL_AM_OK);
    }
    dapl_am_wait_nbi();
    for (int i = 0; i < size(); ++i) {
        const int to = (me() + i) % size();
        REQUIRE(dapl_am_get(to, back.data(), slot(to, me(), bytes), bytes) == DAPL_AM_OK);
        bad += wrong(back.data(), bytes, me(), 4);
        REQUIRE(dapl_am_memset_nbi(to, slot(to, me(), bytes), 0x5a, bytes) == DAPL_AM_OK);
    }
    dapl_am_wait_nbi();
    REQUIRE(barrier());
    for (std::size_t i = 0; i < std::size_t(size()) * bytes; ++i)
        bad += mine()[i] != std::byte{0x5a};
    CHECK(bad == 0);
    DAPL_AM_COUNTERS counters;
    dapl_am_get_counters(&counters);
    CHECK(counters.connections == std::uint64_t(size() - 1));
    REQUIRE(barrier());
}

namespace {

std::atomic<int> thread_errors{0};

/// What one thread does: all kinds, to all ranks, in its own part of their segments.
void all_kinds(int thread, int rounds)
{
    constexpr std::size_t bytes = 12'000;
    const int writer = me() * 8 + thread;
    std::vector<std::byte> local(bytes), back(bytes);
    for (int i = 0; i < rounds; ++i) {
        const int to = (me() + thread + i) % size();
        std::byte *there = slot(to, writer, bytes);
        const std::int32_t reply = i & 1;
        const auto seed = std::uint32_t(i * 8 + thread);
        fill(local.data(), bytes, writer, seed);
        dapl_am_handle handle = DAPL_AM_DONE;
        std::uint64_t value = 0;
        int bad = dapl_am_request_short(to, flood_request, 1, &reply, 0) != DAPL_AM_OK;
        bad += dapl_am_put_nb(to, there, local.data(), bytes, &handle) != DAPL_AM_OK;
        dapl_am_wait(handle);
        bad += dapl_am_get(to, back.data(), there, bytes) != DAPL_AM_OK;
        bad += wrong(back.data(), bytes, writer, seed) != 0;
        bad += dapl_am_put_nbi_val(to, there, seed, 8) != DAPL_AM_OK;
        dapl_am_wait_nbi();
        bad += dapl_am_get_val(to, there, 8, &value) != DAPL_AM_OK || value != seed;
        bad += dapl_am_request_long(to, threads_request, local.data(), bytes, there, 0, nullptr,
                                    0) != DAPL_AM_OK;
        bad += dapl_am_request_medium(to, threads_request, local.data(), 300, 0, nullptr, 0) !=
               DAPL_AM_OK;
        bad += dapl_am_memset(to, there, i, bytes) != DAPL_AM_OK;
        thread_errors += bad;
    }
}

} // namespace

TEST_CASE("eight threads of each rank send all kinds at once")
{
    const char *wanted = std::getenv("AM_THREAD_ROUNDS");
    const int rounds = wanted ? std::atoi(wanted) : 60;
    REQUIRE(std::size_t(size()) * 8 * 12'000 < segment_size);
    counted.flood = counted.replies = counted.requests = 0;
    REQUIRE(barrier());
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back(all_kinds, t, rounds);
    for (std::thread &t : threads)
        t.join();
    // Each thread sends to all ranks in turn, beginning with another one: only the sum over the
    // threads is equal for each rank.
    REQUIRE(barrier());
    until([&] { return counted.replies >= 8 * (rounds / 2); });
    CHECK(thread_errors == 0);
    CHECK(counted.errors == 0);
    CHECK(counted.replies == 8 * (rounds / 2));
    REQUIRE(barrier());
    counted.flood = counted.replies = counted.requests = 0;
    REQUIRE(barrier());
}
