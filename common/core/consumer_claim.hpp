// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The claim of an EVD: one thread at a time takes its events, in a dequeue or in a wait.
//
// A thread that has consumed alone for a while keeps the claim between its calls. It is the keeper
// then: its calls enter and leave a door by plain stores, and take no claim. Whoever else wants the
// claim revokes it: it withdraws the right, lets all threads execute a fence, and waits until the
// keeper is out of the door.
//
//   word_               state         the claim is
//   0                   keepable      free
//   taking              keepable      held by one call
//   taking, between     keepable      kept: held by the calls of the keeper
//                         and kept
//   taking              keepable      being revoked, while the keeper is in the door; then held
//   taking, waiting                   held by a wait
//
// The bits of the state are in the word of the EVD that a dequeue looks at anyway: keepable is set
// as long as the claim may be kept, kept while it is.
//
// A thread that was the keeper looks whether it still is before it uses the door, so that the door
// must not become another's between the look and its store. Therefore a keeper stays the keeper,
// without the right to enter, until a call of its own finds that out, and resigns. Before that no
// other thread keeps the claim.
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
//   word   store of keep() (release)  -  operation that revokes (acquire): the keeper, and what its
//          call did before it kept the claim.
//   door   store of leave() (release)  -  load of revoke() (acquire): all that the calls of the
//          keeper did to the EVD.
//   door and state   enter() stores to the door and loads the state, revoke() stores to the state
//          and loads the door: the fence of all threads is between the latter two, and only the
//          compiler has to keep the order of the former two. One of both sees what the other
//          stored.
//   keeper  store of resign() (release)  -  load of keep() (acquire): the last store of the former
//          keeper to the door precedes that of the next.
#pragma once

#include "osd_annotations.hpp"
#include "osd_fence.hpp"
#include "osd_thread.hpp"
#include "posted_ring.hpp"

#include <cstdint>

namespace dapl::DAPL_TRANSPORT::core {

template <class Threads>
class claim_word {
    using state_word = event_word<Threads>;

public:
    /// Bits of the state: the claim may be kept; it is.
    static constexpr std::uint32_t keepable = 0x08000000;
    static constexpr std::uint32_t kept = 0x80000000;
    static constexpr std::uint32_t first_row = 64;   ///< calls in a row after which it is kept
    static constexpr std::uint32_t last_row = 8192;  ///< it doubles with each revocation up to this
    static constexpr std::uint32_t most_turns = 256; ///< of threads, until none of them keeps it

    /// The calls that were made in a row; the holder's of the claim.
    struct row {
        std::uintptr_t of = 0; ///< the thread that called last
        std::uint32_t made = 0;
        std::uint32_t length = first_row; ///< after so many the claim is kept
        std::uint32_t turns = 0;          ///< threads that took turns, since a row was complete
    };

    /// A thread consumes; that thread is in a wait; that wait is to end without an event; the
    /// thread that consumes is the keeper, in its calls and between them.
    enum : std::uint32_t { taking = 1, waiting = 2, dismissed = 4, between = 8 };

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
    OSD_COLD bool contend(std::uint32_t wanted, state_word &state, row &calls)
    {
        for (;;) {
            std::uint32_t seen = 0;
            bool taken = false;
            Threads::yield_while([&] {
                seen = 0;
                taken = word_.compare_exchange_strong(seen, wanted);
                return !taken && (seen & (waiting | between)) == 0;
            });
            if (taken || (seen & waiting) != 0)
                return taken;
            if (word_.compare_exchange_strong(seen, taking)) {
                revoke(state, calls);
                word_.store(wanted);
                return true;
            }
        }
    }
    bool take(state_word &state, row &calls) { return try_take() || contend(taking, state, calls); }
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

    // --- the keeper

    enum use : std::uint32_t { outside, in_dequeue, in_wait };

    OSD_ALWAYS_INLINE bool is_keeper() const
    {
        return keeper_.load(std::memory_order_relaxed) == Threads::self();
    }
    /// The keeper's call begins. Returns the state: where it is not kept, the claim has been
    /// revoked, and the call leaves and resigns.
    OSD_ALWAYS_INLINE std::uint32_t enter(use call, const state_word &state)
    {
        door_.store(call, std::memory_order_relaxed);
        Threads::compiler_fence();
        return state.load();
    }
    OSD_ALWAYS_INLINE void leave() { door_.store(outside, std::memory_order_release); }
    void resign() { keeper_.store(0, std::memory_order_release); }
    /// Turns the kept claim into that of a wait, and leaves. False when it is being revoked.
    bool leave_for_wait(state_word &state)
    {
        std::uint32_t seen = taking | between;
        const bool turned = word_.compare_exchange_strong(seen, taking | waiting);
        if (turned)
            state.fetch_and(~kept);
        leave();
        return turned;
    }

    // --- a thread that holds the claim, where it is keepable

    /// Counts a call. Whether its thread has made all of a row, so that it may keep the claim.
    bool ends_row(state_word &state, row &calls)
    {
        const std::uintptr_t self = Threads::self();
        if (calls.of != self) {
            calls.of = self;
            calls.made = 0;
            if (++calls.turns == most_turns)
                state.fetch_and(~keepable);
            return false;
        }
        if (++calls.made < calls.length)
            return false;
        calls.made = calls.turns = 0;
        return true;
    }
    /// Keeps the claim, and is in the door for a call. False, and it holds the claim as before,
    /// where it may not be kept.
    bool keep(use call, state_word &state, row &calls)
    {
        const std::uintptr_t now = keeper_.load(std::memory_order_acquire);
        if (now != 0 && now != Threads::self()) {
            if (calls.length == last_row)
                state.fetch_and(~keepable);
            lengthen(calls);
            return false;
        }
        keeper_.store(Threads::self(), std::memory_order_relaxed);
        door_.store(call, std::memory_order_relaxed);
        if ((state.fetch_or(kept) & keepable) == 0) {
            state.fetch_and(~kept);
            leave();
            return false;
        }
        word_.store(taking | between, std::memory_order_release);
        return true;
    }

    // --- any thread

    /// On return the claim is not kept, and no thread keeps it until it is keepable again.
    void forbid_keeping(state_word &state, row &calls)
    {
        state.fetch_and(~keepable);
        if ((state.load() & kept) != 0 && take(state, calls))
            give_up();
    }
    /// The keeper enters no more. It may still be in the door.
    void shut_out_keeper(state_word &state)
    {
        if (keeper_.load() == 0)
            return;
        state.fetch_and(~kept);
        Threads::fence_all_threads();
    }
    bool is_keeper_in_wait() const { return door_.load(std::memory_order_acquire) == in_wait; }

private:
    void revoke(state_word &state, row &calls)
    {
        state.fetch_and(~kept);
        if (!is_keeper()) {
            Threads::fence_all_threads();
            Threads::yield_while(
                [this] { return door_.load(std::memory_order_acquire) != outside; });
        }
        lengthen(calls);
    }
    static void lengthen(row &calls)
    {
        calls.length = calls.length < last_row ? 2 * calls.length : last_row;
    }

    typename Threads::template atomic<std::uint32_t> word_{0};
    typename Threads::template atomic<std::uint32_t> door_{outside};
    typename Threads::template atomic<std::uintptr_t> keeper_{0};
};

using consumer_claim = claim_word<osd::real_threads>;

} // namespace dapl::DAPL_TRANSPORT::core
