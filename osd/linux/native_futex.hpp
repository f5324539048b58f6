// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What osd_sync.cpp sleeps on; for that file alone.
#pragma once

#include "osd_signals.hpp"
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

/// futex_waitv(2), which older headers do not have.
struct waitv_entry {
    std::uint64_t value;
    std::uint64_t address;
    std::uint32_t flags;
    std::uint32_t reserved;
};
inline constexpr long waitv_call = 449;
inline constexpr std::uint32_t waitv_private_word = 2 | FUTEX_PRIVATE_FLAG;

/// Linux restarts a futex wait without a limit where the handler of a signal asks for it, and since
/// 5.16 futex_waitv with one. False where that is not there.
inline bool wait_restarted(std::atomic<std::uint32_t> &word, std::uint32_t expected, timespec at,
                           long &rc)
{
    static std::atomic<bool> missing{false};
    if (missing.load(std::memory_order_relaxed))
        return false;
    const waitv_entry entry{expected, reinterpret_cast<std::uintptr_t>(address_of(word)),
                            waitv_private_word, 0};
    rc = syscall(waitv_call, &entry, 1, 0, &at, CLOCK_MONOTONIC);
    if (rc >= 0 || (errno != ENOSYS && errno != EPERM))
        return true;
    missing.store(true, std::memory_order_relaxed);
    return false;
}

inline long wait_unrestarted(std::atomic<std::uint32_t> &word, std::uint32_t expected,
                             const timespec *at)
{
    return syscall(SYS_futex, address_of(word), FUTEX_WAIT_BITSET_PRIVATE, expected, at, nullptr,
                   FUTEX_BITSET_MATCH_ANY);
}

/// Sleeps while `word` holds `expected`. The deadline is absolute on CLOCK_MONOTONIC.
inline wait_result futex_wait(std::atomic<std::uint32_t> &word, std::uint32_t expected,
                              deadline until)
{
    const timespec at = until.as_timespec();
    long rc = 0;
    if (until.is_never()) {
        rc = wait_unrestarted(word, expected, nullptr);
    } else if (!wait_restarted(word, expected, at, rc)) {
        do {
            rc = wait_unrestarted(word, expected, &at);
        } while (rc < 0 && errno == EINTR && !handler_ends_wait(0));
    }
    if (rc >= 0 || errno == EAGAIN)
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
