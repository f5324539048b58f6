// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Deadlines, also at the ends of the range.
#include "osd_time.hpp"

#include <doctest/doctest.h>

#include <initializer_list>
#include <limits>

using osd::deadline;

namespace {

constexpr std::uint64_t longest = std::numeric_limits<std::uint64_t>::max();

} // namespace

TEST_SUITE_BEGIN("time");

TEST_CASE("never is later than everything and does not pass; passed has")
{
    CHECK(deadline::never().is_never());
    CHECK_FALSE(deadline::never().has_passed());
    CHECK_EQ(deadline::never().remaining_ms(), -1);
    CHECK(deadline::passed().has_passed());
    CHECK_FALSE(deadline::passed().is_never());
    CHECK_EQ(deadline::passed().remaining_ms(), 0);
    CHECK_EQ(deadline::passed().as_timespec().tv_sec, 0);
    CHECK_EQ(deadline::passed().as_timespec().tv_nsec, 0);
    CHECK(deadline::passed() < deadline::never());
    CHECK(deadline::after_us(1) < deadline::never());
    CHECK_FALSE(deadline::never() < deadline::never());
}

TEST_CASE("after nothing has passed at once, after something has not")
{
    CHECK(deadline::after_us(0).has_passed());
    CHECK_EQ(deadline::after_us(0).remaining_ms(), 0);
    CHECK_FALSE(deadline::after_us(10'000'000).has_passed());
}

TEST_CASE("remaining milliseconds are rounded up, and cut to what an int holds")
{
    const int ms = deadline::after_us(1'500).remaining_ms();
    CHECK((ms == 1 || ms == 2));
    CHECK_EQ(deadline::after_ns(1).remaining_ms() <= 1, true);
    CHECK_EQ(deadline::after_us(std::uint64_t{1} << 50).remaining_ms(), INT32_MAX);
}

TEST_CASE("the longest timeouts of DAT lie in the future, in order")
{
    const deadline shorter = deadline::after_us(0xfffffffd);
    const deadline longer = deadline::after_us(0xfffffffe);
    CHECK_FALSE(longer.has_passed());
    CHECK_FALSE(longer < shorter);
    const timespec at = longer.as_timespec();
    CHECK(at.tv_nsec >= 0);
    CHECK(at.tv_nsec < 1'000'000'000);
}

TEST_CASE("a time too long for the clock does not pass: it never comes")
{
    for (const std::uint64_t us : {longest, longest / 1000, longest / 1000 + 1, longest / 2000,
                                   std::uint64_t{1} << 62, std::uint64_t{1} << 55}) {
        CAPTURE(us);
        CHECK_FALSE(deadline::after_us(us).has_passed());
        CHECK_FALSE(deadline::after_us(us) < deadline::after_us(1));
    }
    for (const std::uint64_t ns : {longest, longest / 2, longest / 2 + 1, longest / 2 - 1}) {
        CAPTURE(ns);
        CHECK_FALSE(deadline::after_ns(ns).has_passed());
        CHECK_FALSE(deadline::after_ns(ns) < deadline::after_ns(1));
    }
}

TEST_CASE("the clock goes forward")
{
    std::int64_t last = osd::now_ns();
    for (int i = 0; i < 1000; ++i) {
        const std::int64_t now = osd::now_ns();
        CHECK(now >= last);
        last = now;
    }
}

TEST_SUITE_END();
