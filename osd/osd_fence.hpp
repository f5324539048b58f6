// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// An asymmetric gate: the hot path enters and leaves with plain stores, a slow path can close it.
//
// Mutual exclusion normally needs a full memory barrier on both sides (Dekker). Here the slow side
// issues the barrier for both, by making every running thread of the process execute one
// (membarrier).
#pragma once

#include "osd_thread.hpp"

#include <cstdint>

namespace osd {

/// Returns when every other thread of the process has executed a full memory barrier.
void fence_all_threads();
/// Whether the system has a call for that. Elsewhere it is done by means that take some ten times
/// as long, or that some processors do not follow.
bool can_fence_all_threads();

inline void real_threads::fence_all_threads()
{
    osd::fence_all_threads();
}

template <class Threads>
class plain_door {
public:
    /// One thread at a time. After enter(), check whether the slow side has closed the gate, and
    /// leave() if so.
    void enter()
    {
        state_.store(inside, std::memory_order_relaxed);
        Threads::compiler_fence();
    }
    void leave() { state_.store(used, std::memory_order_release); }

    /// Waits until no thread is inside; the slow side calls this after it stored its flag and
    /// called fence_all_threads(). On return, threads that were inside have left, and threads that
    /// enter see the flag.
    void wait_until_empty() const
    {
        Threads::yield_while([this] { return state_.load(std::memory_order_acquire) == inside; });
    }

    /// Whether the gate was entered since the last call. One thread at a time.
    bool take_use()
    {
        std::uint32_t seen = used;
        return state_.compare_exchange_strong(seen, unused, std::memory_order_acq_rel) ||
               seen == inside;
    }

private:
    enum : std::uint32_t { unused, inside, used };
    typename Threads::template atomic<std::uint32_t> state_{unused};
};

using door = plain_door<real_threads>;

} // namespace osd
