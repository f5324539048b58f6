// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What osd_sync.cpp sleeps on; for that file alone.
#pragma once

#include "osd_sync.hpp"

#include <windows.h>

namespace osd::native {

/// Sleeps while `word` holds `expected`. Nothing interrupts it: there are no signals.
inline wait_result futex_wait(std::atomic<std::uint32_t> &word, std::uint32_t expected,
                              deadline until)
{
    static_assert(sizeof(word) == sizeof expected);
    const int left_ms = until.remaining_ms();
    const DWORD limit = left_ms < 0 ? INFINITE : static_cast<DWORD>(left_ms);
    const bool woken = WaitOnAddress(&word, &expected, sizeof expected, limit) != 0;
    // The limit is cut to what an int holds, and counts in ticks: callers go round again.
    return woken || !until.has_passed() ? wait_result::woken : wait_result::timed_out;
}

inline void futex_wake_one(std::atomic<std::uint32_t> &word)
{
    WakeByAddressSingle(&word);
}

inline void futex_wake_all(std::atomic<std::uint32_t> &word)
{
    WakeByAddressAll(&word);
}

} // namespace osd::native
