// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What osd_sync.cpp sleeps on; for that file alone.
#pragma once

#include "osd_sync.hpp"

#include <cerrno>
#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace osd::native {

inline std::uint32_t *address_of(std::atomic<std::uint32_t> &word)
{
    static_assert(sizeof(word) == sizeof(std::uint32_t));
    return reinterpret_cast<std::uint32_t *>(&word);
}

/// Sleeps while `word` holds `expected`. The deadline is absolute on CLOCK_MONOTONIC.
inline wait_result futex_wait(std::atomic<std::uint32_t> &word, std::uint32_t expected,
                              deadline until)
{
    const timespec at = until.as_timespec();
    const long rc = syscall(SYS_futex, address_of(word), FUTEX_WAIT_BITSET_PRIVATE, expected,
                            until.is_never() ? nullptr : &at, nullptr, FUTEX_BITSET_MATCH_ANY);
    if (rc == 0 || errno == EAGAIN)
        return wait_result::woken;
    return errno == ETIMEDOUT ? wait_result::timed_out : wait_result::interrupted;
}

inline void futex_wake_one(std::atomic<std::uint32_t> &word)
{
    syscall(SYS_futex, address_of(word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t> &word)
{
    syscall(SYS_futex, address_of(word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

} // namespace osd::native
