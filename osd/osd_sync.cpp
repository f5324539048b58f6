// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_sync.hpp"

#include "native_futex.hpp"
#include "osd_cancellation.hpp"

namespace osd {

namespace {

wait_result sleep_on(std::atomic<std::uint32_t> &word, std::uint32_t expected, deadline until)
{
    wait_result result{};
    raw_cancellation_point([&] { result = native::futex_wait(word, expected, until); });
    return result;
}

} // namespace

wait_result wait_object::wait(deadline until)
{
    for (wait_result result = wait_result::woken;;) {
        std::uint32_t seen = idle;
        if (!state_.compare_exchange_strong(seen, sleeping, std::memory_order_acquire) &&
            seen == signalled) {
            state_.exchange(idle, std::memory_order_acquire); // consumes every wake up to now
            return wait_result::woken;
        }
        if (result != wait_result::woken) {
            // Unregister as the sleeper; a concurrent wake is reported, not lost.
            if (state_.exchange(idle, std::memory_order_acquire) == signalled)
                return wait_result::woken;
            return result;
        }
        undo_if_cancelled([&] { result = sleep_on(state_, sleeping, until); },
                          [this] { state_.store(idle); });
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
    wait_result result{};
    const auto leave = [this, &held]() OSD_ACQUIRE(held) {
        held.lock();
        --waiters_;
    };
    ++waiters_;
    held.unlock();
    undo_if_cancelled([&] { result = sleep_on(sequence_, seen, until); }, leave);
    leave();
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
