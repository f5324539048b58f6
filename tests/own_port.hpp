// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Ports that a test may close and open again.
#pragma once

#include <atomic>
#include <cstdint>
#include <random>

namespace test_run {

/// Names another port each time, from those that no system gives to a socket that asks for any. A
/// port of any number may be another test's as soon as it is closed.
inline std::uint16_t another_port()
{
    static std::atomic<unsigned> next{std::random_device{}()};
    return static_cast<std::uint16_t>(10'000 + next++ % 20'000);
}

} // namespace test_run
