// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "packets.hpp"
#include "ranks.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <thread>
#include <vector>

using namespace ranks;

namespace {

void expect_seed(std::int32_t seed)
{
    expected_seed = seed;
    REQUIRE(barrier());
}

/// All ranks have sent `requests` to their neighbour, and got `replies`.
void settle(int requests, int replies)
{
    until([&] { return counted.requests >= requests && counted.replies >= replies; });
    CHECK(counted.requests == requests);
    CHECK(counted.replies == replies);
    CHECK(counted.errors == 0);
    counted.requests = counted.replies = 0;
    REQUIRE(barrier());
}

const std::size_t sizes[] = {0,    1,    7,    8,    9,    255,  256,  257,   4095,  4096,
                             8000, 8111, 8112, 8113, 8191, 8192, 8193, 16384, 65537, 1000003};

} // namespace

TEST_CASE("short requests carry 0 to 16 arguments, and their replies do")
{
    for (int count = 0; count <= DAPL_AM_MAX_ARGS; ++count) {
        expect_seed(count);
        std::int32_t args[DAPL_AM_MAX_ARGS];
        make_args(args, count, count);
        REQUIRE(dapl_am_request_short(next(), count_request, count, args, 0) == DAPL_AM_OK);
        REQUIRE(dapl_am_request_short(next(), echo_short_request, count, args, 0) == DAPL_AM_OK);
        settle(2, 1);
    }
}

TEST_CASE("medium messages carry every size and number of arguments unharmed")
{
    std::vector<std::byte> payload(dapl_am_max_medium());
    CHECK(dapl_am_max_medium() >= 512);
    for (const std::size_t size : sizes) {
        if (size > dapl_am_max_medium())
            continue;
        for (const int count : {0, 1, 2, 3, 15, 16}) {
            expect_seed(std::int32_t(size) + count);
            std::int32_t args[DAPL_AM_MAX_ARGS];
            make_args(args, count, expected_seed);
            fill(payload.data(), size, me(), std::uint32_t(expected_seed));
            REQUIRE(dapl_am_request_medium(next(), count_request, payload.data(), size, count, args,
                                           0) == DAPL_AM_OK);
            REQUIRE(dapl_am_request_medium(next(), echo_medium_request, payload.data(), size, count,
                                           args, 0) == DAPL_AM_OK);
            std::memset(payload.data(), 0, size); // it is ours again
            settle(2, 1);
        }
    }
}

TEST_CASE("long messages place every size before their handlers run, from any memory")
{
    std::vector<std::byte> outside(1 << 20);
    for (const std::size_t size : sizes)
        for (const bool inside : {false, true}) {
            expect_seed(std::int32_t(size) * 2 + inside);
            std::int32_t args[DAPL_AM_MAX_ARGS];
            make_args(args, 3, expected_seed);
            std::byte *to = segment_of(next()) + 3; // an address that is not aligned
            std::byte *from = inside ? mine() + (4 << 20) + 1 : outside.data();
            fill(from, size, me(), std::uint32_t(expected_seed));
            REQUIRE(dapl_am_request_long(next(), count_request, from, size, to, 3, args, 0) ==
                    DAPL_AM_OK);
            std::memset(from, 0, size);
            settle(1, 0);
            fill(from, size, me(), std::uint32_t(expected_seed));
            std::byte *back = mine() + (8 << 20);
            std::memcpy(args + 3, &back, sizeof back);
            REQUIRE(dapl_am_request_long(next(), echo_long_request, from, size, to, 5, args, 0) ==
                    DAPL_AM_OK);
            settle(1, 1);
            CHECK(wrong(back, size, me(), std::uint32_t(expected_seed)) == 0);
        }
}

TEST_CASE("a message to the own rank runs its handler before the call returns")
{
    expect_seed(5);
    std::int32_t args[2];
    make_args(args, 2, 5);
    const int before = counted.requests;
    CHECK(dapl_am_request_short(me(), count_request, 2, args, 0) == DAPL_AM_OK);
    CHECK(counted.requests == before + 1);
    CHECK(dapl_am_request_short(me(), echo_short_request, 2, args, 0) == DAPL_AM_OK);
    settle(2, 1);
}

TEST_CASE("handlers may reply once, to requests only, and may not communicate otherwise")
{
    REQUIRE(dapl_am_request_short(next(), misuse_request, 0, nullptr, 0) == DAPL_AM_OK);
    settle(1, 1);
}

TEST_CASE("wrong calls are refused")
{
    std::int32_t args[17]{};
    std::byte byte{};
    CHECK(dapl_am_request_short(size(), count_request, 0, nullptr, 0) == DAPL_AM_ERR_RANK);
    CHECK(dapl_am_request_short(-1, count_request, 0, nullptr, 0) == DAPL_AM_ERR_RANK);
    CHECK(dapl_am_request_short(next(), 256, 0, nullptr, 0) == DAPL_AM_ERR_ARGUMENT);
    CHECK(dapl_am_request_short(next(), 0, 0, nullptr, 0) == DAPL_AM_ERR_ARGUMENT);
    CHECK(dapl_am_request_short(next(), count_request, 17, args, 0) == DAPL_AM_ERR_ARGUMENT);
    CHECK(dapl_am_request_short(next(), count_request, 1, nullptr, 0) == DAPL_AM_ERR_ARGUMENT);
    CHECK(dapl_am_request_short(next(), count_request, 0, nullptr, 0x100) == DAPL_AM_ERR_ARGUMENT);
    CHECK(dapl_am_request_medium(next(), count_request, &byte, dapl_am_max_medium() + 1, 0, nullptr,
                                 0) == DAPL_AM_ERR_ARGUMENT);
    CHECK(dapl_am_request_long(next(), count_request, &byte, 1, segment_of(next()) + segment_size,
                               0, nullptr, 0) == DAPL_AM_ERR_RANGE);
    CHECK(dapl_am_request_long(next(), count_request, &byte, 1, segment_of(next()) - 1, 0, nullptr,
                               0) == DAPL_AM_ERR_RANGE);
    CHECK(dapl_am_init(nullptr) == DAPL_AM_ERR_STATE);
    CHECK(dapl_am_attach(nullptr, 0, 0) == DAPL_AM_ERR_STATE);
    REQUIRE(barrier());
}

TEST_CASE("a flood of requests loses no credit and finds a receive for every message")
{
    const std::uint64_t not_ready = receiver_not_ready();
    const char *wanted = std::getenv("AM_FLOOD");
    const int each = wanted ? std::atoi(wanted) : 2000;
    for (const int reply : {0, 1}) {
        counted.flood = counted.replies = 0;
        REQUIRE(barrier());
        for (int i = 0; i < each; ++i)
            for (int r = 0; r < size(); ++r)
                REQUIRE(dapl_am_request_short(r, flood_request, 1, &reply, 0) == DAPL_AM_OK);
        until([&] { return counted.flood >= each * size(); });
        until([&] { return counted.replies >= reply * each * size(); });
        REQUIRE(barrier());
        CHECK(counted.flood == each * size());
        CHECK(counted.replies == reply * each * size());
    }
    CHECK(receiver_not_ready() == not_ready);
    counted.replies = 0;
    REQUIRE(barrier());
}

TEST_CASE("requests that need no reply cost few credit messages: credits are banked")
{
    const char *credits = std::getenv("DAPL_AM_CREDITS");
    if (size() == 1 || (credits && std::atoi(credits) == 1)) // a single one cannot be held back
        return;
    DAPL_AM_COUNTERS before, after;
    counted.flood = 0;
    REQUIRE(barrier());
    dapl_am_get_counters(&before);
    constexpr int each = 1000;
    const std::int32_t reply = 0;
    for (int i = 0; i < each; ++i)
        REQUIRE(dapl_am_request_short(next(), flood_request, 1, &reply, 0) == DAPL_AM_OK);
    until([&] { return counted.flood >= each; });
    dapl_am_get_counters(&after);
    CHECK(after.credit_messages - before.credit_messages <= each / 2);
    REQUIRE(barrier());
}

TEST_CASE("immediate requests never wait, and those that are refused are not sent")
{
    if (size() == 1)
        return;
    counted.flood = 0;
    REQUIRE(barrier());
    const std::int32_t reply = 0;
    std::uint64_t sent = 0;
    for (int i = 0; i < 500; ++i) {
        const int status =
            dapl_am_request_short(next(), flood_request, 1, &reply, DAPL_AM_IMMEDIATE);
        REQUIRE((status == DAPL_AM_OK || status == DAPL_AM_NOT_READY));
        sent += status == DAPL_AM_OK;
    }
    // The number of those sent, where the receiver finds it
    REQUIRE(dapl_am_put_val(next(), segment_of(next()), sent, 8) == DAPL_AM_OK);
    REQUIRE(barrier());
    std::uint64_t expected = 0;
    std::memcpy(&expected, mine(), sizeof expected);
    until([&] { return counted.flood >= int(expected); });
    REQUIRE(barrier());
    CHECK(counted.flood == int(expected));
    CHECK(sent >= 1);
    counted.flood = 0;
    REQUIRE(barrier());
}
