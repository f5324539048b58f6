// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Waits of the suite, on a provider whose waits signals interrupt.
#include "harness/events.hpp"

#include <algorithm>
#include <chrono>
#include <doctest/doctest.h>
#include <thread>

namespace {

int interruptions = 0;

} // namespace

/// A signal comes each millisecond, ten thousand times.
DAT_RETURN DAT_API dat_evd_wait(DAT_EVD_HANDLE, DAT_TIMEOUT time, DAT_COUNT, DAT_EVENT *,
                                DAT_COUNT *)
{
    constexpr DAT_TIMEOUT period = 1000;
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(time, period)));
    if (time <= period)
        return DAT_TIMEOUT_EXPIRED;
    return ++interruptions < 10'000 ? DAT_INTERRUPTED_CALL : DAT_ABORT;
}

TEST_CASE("a wait that signals interrupt ends at its time")
{
    DAT_EVENT event{};
    CHECK(conformance::wait_event(DAT_HANDLE_NULL, event, std::chrono::milliseconds(20)) ==
          DAT_TIMEOUT_EXPIRED);
    CHECK(interruptions > 0);
}
