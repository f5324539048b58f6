// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A descriptor that the library makes readable, and how a thread sleeps on some, on every system.
#include "osd_descriptor.hpp"

#include <doctest/doctest.h>
#include <thread>

TEST_SUITE_BEGIN("readable");

namespace {

struct two_descriptors {
    two_descriptors()
    {
        REQUIRE(one.open());
        REQUIRE(other.open());
        REQUIRE(one.get() >= 0);
    }
    osd::wait_result wait(osd::deadline until)
    {
        const int all[] = {one.get(), -1, other.get()};
        return osd::wait_readable(all, until, ready);
    }
    static osd::deadline late() { return osd::deadline::after_ns(20'000'000'000); }
    osd::event_descriptor one, other;
    std::uint64_t ready = 0;
};

} // namespace

TEST_CASE_FIXTURE(two_descriptors, "a descriptor is readable from raise() to lower()")
{
    for (int round = 0; round < 3; ++round) {
        CHECK(wait(osd::deadline::passed()) == osd::wait_result::timed_out);
        other.raise();
        other.raise();
        REQUIRE(wait(late()) == osd::wait_result::woken);
        CHECK(ready == 0b100);
        one.raise();
        REQUIRE(wait(late()) == osd::wait_result::woken);
        CHECK(ready == 0b101);
        other.lower();
        REQUIRE(wait(late()) == osd::wait_result::woken);
        CHECK(ready == 0b001);
        one.lower();
        one.lower();
    }
}

TEST_CASE_FIXTURE(two_descriptors, "raise() ends a sleep that has begun")
{
    for (int round = 0; round < 20; ++round) {
        std::thread raiser([&] { one.raise(); });
        CHECK(wait(late()) == osd::wait_result::woken);
        CHECK(ready == 0b001);
        raiser.join();
        one.lower();
    }
    const osd::deadline soon = osd::deadline::after_ns(5'000'000);
    CHECK(wait(soon) == osd::wait_result::timed_out);
    CHECK(soon.has_passed());
}

TEST_CASE_FIXTURE(two_descriptors, "what was closed is not raised, and opens again")
{
    one.raise();
    one.close();
    CHECK(!one.is_open());
    one.raise();
    one.lower();
    REQUIRE(one.open());
    CHECK(wait(osd::deadline::passed()) == osd::wait_result::timed_out);
}

TEST_SUITE_END();
