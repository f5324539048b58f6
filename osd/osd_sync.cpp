// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_sync.hpp"

#include "native_futex.hpp"

namespace osd {

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
        result = native::futex_wait(state_, sleeping, until);
    }
}

void wait_object::wake()
{
    if (state_.exchange(signalled, std::memory_order_release) == sleeping)
        native::futex_wake_one(state_);
}

wait_result condition::wait(mutex &held, deadline until)
{
    const std::uint32_t seen = sequence_.load(std::memory_order_relaxed);
    ++waiters_;
    held.unlock();
    const wait_result result = native::futex_wait(sequence_, seen, until);
    held.lock();
    --waiters_;
    return result;
}

void condition::signal()
{
    sequence_.fetch_add(1, std::memory_order_relaxed);
    if (waiters_ != 0)
        native::futex_wake_one(sequence_);
}

void condition::broadcast()
{
    sequence_.fetch_add(1, std::memory_order_relaxed);
    if (waiters_ != 0)
        native::futex_wake_all(sequence_);
}

} // namespace osd
