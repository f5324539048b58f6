// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_sync.hpp"

#include <cerrno>
#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace osd {
namespace {

std::uint32_t *address_of(std::atomic<std::uint32_t> &word)
{
    static_assert(sizeof(word) == sizeof(std::uint32_t));
    return reinterpret_cast<std::uint32_t *>(&word);
}

/// Sleeps while `word` holds `expected`. The deadline is absolute on CLOCK_MONOTONIC.
wait_result futex_wait(std::atomic<std::uint32_t> &word, std::uint32_t expected, deadline until)
{
    const timespec at = until.as_timespec();
    const long rc = syscall(SYS_futex, address_of(word), FUTEX_WAIT_BITSET_PRIVATE, expected,
                            until.is_never() ? nullptr : &at, nullptr, FUTEX_BITSET_MATCH_ANY);
    if (rc == 0 || errno == EAGAIN)
        return wait_result::woken;
    return errno == ETIMEDOUT ? wait_result::timed_out : wait_result::interrupted;
}

void futex_wake(std::atomic<std::uint32_t> &word, int count)
{
    syscall(SYS_futex, address_of(word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

} // namespace

wait_result wait_object::wait(deadline until)
{
    for (wait_result result = wait_result::woken;;) {
        std::uint32_t seen = idle;
        if (!state_.compare_exchange_strong(seen, sleeping, std::memory_order_acquire) &&
            seen == signalled) {
            state_.exchange(idle, std::memory_order_acquire); // of every wake up to now
            return wait_result::woken;
        }
        if (result != wait_result::woken) {
            // Leave as nobody; a wake that slips in meanwhile is delivered, not lost.
            if (state_.exchange(idle, std::memory_order_acquire) == signalled)
                return wait_result::woken;
            return result;
        }
        result = futex_wait(state_, sleeping, until);
    }
}

void wait_object::wake()
{
    if (state_.exchange(signalled, std::memory_order_release) == sleeping)
        futex_wake(state_, 1);
}

wait_result condition::wait(mutex &held, deadline until)
{
    const std::uint32_t seen = sequence_.load(std::memory_order_relaxed);
    ++waiters_;
    held.unlock();
    const wait_result result = futex_wait(sequence_, seen, until);
    held.lock();
    --waiters_;
    return result;
}

void condition::signal()
{
    sequence_.fetch_add(1, std::memory_order_relaxed);
    if (waiters_ != 0)
        futex_wake(sequence_, 1);
}

void condition::broadcast()
{
    sequence_.fetch_add(1, std::memory_order_relaxed);
    if (waiters_ != 0)
        futex_wake(sequence_, INT_MAX);
}

} // namespace osd
