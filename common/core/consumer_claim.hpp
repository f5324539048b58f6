// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The claim of an EVD: one thread at a time takes its events, in a dequeue or in a wait.
//
// The orders of memory, in pairs:
//
//   word   store that gives it up (release)  -  operation that takes it (acquire): all that the
//          former holder did to the EVD.
//   word   operation that takes it for a wait  -  load of has_waiter(): both are sequentially
//          consistent, and so are the words of posted events. A thread that posts and then looks
//          for a waiter finds the waiter, or is found by it.
//   word   exchange of dismiss()  -  load of is_dismissed(): the word alone, which the holder
//          sees in its next look.
#pragma once

#include "osd_annotations.hpp"
#include "osd_thread.hpp"

#include <cstdint>

namespace dapl::DAPL_TRANSPORT::core {

template <class Threads>
class claim_word {
public:
    /// A thread consumes; that thread is in a wait; that wait is to end without an event.
    enum : std::uint32_t { taking = 1, waiting = 2, dismissed = 4 };

    /// Whether a thread is in a wait. The load is ordered behind the caller's stores for a waiter.
    bool has_waiter() const { return (word_.load() & waiting) != 0; }
    OSD_ALWAYS_INLINE bool try_take()
    {
        return (word_.fetch_or(taking) & taking) == 0; // fetch_or of one bit takes two instructions
    }
    OSD_ALWAYS_INLINE bool try_take_for_wait()
    {
        std::uint32_t seen = 0;
        return word_.compare_exchange_strong(seen, taking | waiting);
    }
    /// Takes the claim, as soon as a dequeue that has it ends. Returns false if a waiter has it.
    /// `wanted` is the claim's new state.
    OSD_COLD bool contend(std::uint32_t wanted)
    {
        bool taken = false;
        Threads::yield_while([&] {
            std::uint32_t seen = 0;
            taken = word_.compare_exchange_strong(seen, wanted);
            return !taken && (seen & waiting) == 0;
        });
        return taken;
    }
    bool take() { return try_take() || contend(taking); }
    /// Tells a wait that has begun, and no later one, to end. False when there is none.
    bool dismiss()
    {
        std::uint32_t seen = word_.load();
        while ((seen & waiting) != 0)
            if (word_.compare_exchange_weak(seen, seen | dismissed))
                return true;
        return false;
    }
    /// Whether the wait is to end without an event; the waiting thread asks.
    bool is_dismissed() const { return (word_.load() & dismissed) != 0; }
    /// The wait is over; its thread still takes.
    void end_wait() { word_.store(taking); }
    void give_up() { word_.store(0, std::memory_order_release); }

private:
    typename Threads::template atomic<std::uint32_t> word_{0};
};

using consumer_claim = claim_word<osd::real_threads>;

} // namespace dapl::DAPL_TRANSPORT::core
