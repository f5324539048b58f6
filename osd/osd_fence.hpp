// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A door that hot paths pass with two plain stores, and that a slow path can shut.
//
// Mutual exclusion of a frequent and a rare party needs a full memory barrier on both sides; here
// the rare one pays for both, by making every running thread of the process execute one.
#pragma once

#include "osd_thread.hpp"

#include <atomic>
#include <cstdint>

namespace osd {

/// Every other thread of the process has executed a full memory barrier when this returns.
void fence_all_threads();

class door {
public:
    /// Passed by one thread at a time. After enter(), look whether the other side told to turn
    /// back.
    void enter()
    {
        state_.store(inside, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    void leave() { state_.store(used, std::memory_order_release); }

    /// The rare side, after it stored its message and called fence_all_threads(): whoever was
    /// inside has left, and whoever enters sees the message.
    void wait_until_empty() const
    {
        while (state_.load(std::memory_order_acquire) == inside)
            yield();
    }

    /// True when the door was passed since the last call. For one thread at a time.
    bool take_use()
    {
        std::uint32_t seen = used;
        return state_.compare_exchange_strong(seen, unused, std::memory_order_acq_rel) ||
               seen == inside;
    }

private:
    enum : std::uint32_t { unused, inside, used };
    std::atomic<std::uint32_t> state_{unused};
};

} // namespace osd
