// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <ctime>
#include <windows.h>

namespace osd::native {

inline std::int64_t now_ns()
{
    LARGE_INTEGER ticks, per_second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&per_second);
    // Seconds by themselves: in one product they would overflow after some minutes.
    const std::int64_t seconds = ticks.QuadPart / per_second.QuadPart;
    const std::int64_t rest = ticks.QuadPart % per_second.QuadPart;
    return seconds * 1'000'000'000 + rest * 1'000'000'000 / per_second.QuadPart;
}

} // namespace osd::native
