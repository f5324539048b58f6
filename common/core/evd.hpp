// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// EVD: an event queue that a consumer dequeues from, waits on, and lets trigger a CNO.
#pragma once

#include "cno.hpp"
#include "counters.hpp"
#include "event_order.hpp"
#include "event_queue.hpp"
#include "osd_cancellation.hpp"

#include <climits>
#include <memory>

namespace dapl::DAPL_TRANSPORT::core {

class evd : public event_queue {
public:
    static constexpr std::size_t slab_size = 32;
    static constexpr object_type pool = object_type::evd;
    static bool is_kind(mark kind) { return kind == mark::evd; }

    evd(const DAT_PROVIDER *vector, adapter &owner, DAT_EVD_FLAGS streams)
        : event_queue(vector, owner, streams), notifier(*this)
    {}

    status allocate(DAT_COUNT qlen);
    /// Keeps the events and their order; producers may add more during the call.
    status resize(DAT_COUNT qlen);
    /// Frees the CQ: a fence for its callbacks. No producer is left.
    void release();

    // --- consumer ---

    /// Takes the oldest event. The claim lines up threads that dequeue, on thread-safe lines of
    /// dat.conf and on others.
    DAT_RETURN dequeue(DAT_EVENT &event);
    status wait(DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event, DAT_COUNT &nmore);
    void set_waitable(bool waitable);
    void set_enabled(bool enabled);
    void set_cno(cno *target);
    /// Ends the wait with DAT_ABORT; returns when the waiter has left, or at the deadline.
    departure abort_waiter(osd::deadline until);
    DAT_EVD_STATE state() const;

    // --- producers ---

    /// Stores an event and notifies. False when the ring is full.
    bool post(const DAT_EVENT &event)
    {
        if (!store(event))
            return false;
        notify();
        return true;
    }
    /// The two halves of post, for callers that hold a lock while they store.
    bool store(const DAT_EVENT &event);
    /// Wakes the waiter, or triggers the CNO; neither if a waiter that has left counted the event.
    /// No lock held: the CNO's agent is consumer code.
    void notify();
    /// Holds up release() before it frees anything: for a notify() whose event can be taken
    /// already, and a callback that polls the CQ.
    void begin_reference() { passing_references_.fetch_add(1); }
    void end_reference() { passing_references_.fetch_sub(1, std::memory_order_release); }
    /// The port's callback: a completion came after the CQ was armed.
    void completion_arrived();
    /// The CQ lost completions: a wait fails from now on.
    void overflowed();
    /// An endpoint's queue with these completion flags begins to complete here, or no longer does.
    void add_notify_override(DAT_COMPLETION_FLAGS flags, int change);

private:
    struct by_claim;
    struct as_keeper;
    template <class Hold>
    struct dequeuing;
    struct waiting_once;
    template <class Hold>
    struct dequeuing_merged;
    struct waiting_once_merged;

    status resize_all(DAT_COUNT qlen);
    void return_shared_receives() OSD_COLD;
    template <class Caller>
    typename Caller::answer take_plain(DAT_EVENT &event);
    /// Takes the oldest event, staged or not. A look of a CNO stages the completion that it tells
    /// of: the consumer feels each function in another page there, so this one is inlined.
    OSD_ALWAYS_INLINE bool take(DAT_EVENT &event);

    bool take_at_once(DAT_EVENT &event);
    DAT_COUNT count_rest(std::uint32_t plain);
    status check_threshold(DAT_COUNT threshold) const;
    status wait_contended(DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event,
                          DAT_COUNT &nmore) OSD_COLD;
    status wait_slowly(DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event,
                       DAT_COUNT &nmore) OSD_NOINLINE;
    status wait_claimed(DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event,
                        DAT_COUNT &nmore);
    status leave_wait(status answer, DAT_COUNT counted);
    void leave_wait_notifying(DAT_COUNT counted) OSD_COLD;
    bool may_return(DAT_COUNT threshold, bool first_look, std::uint32_t &seen);
    bool has_unknown(DAT_COUNT counted);
    osd::wait_result sleep(DAT_COUNT threshold, osd::deadline until);
    osd::wait_result sleep_interruptibly(DAT_COUNT threshold, osd::deadline until);
    void wake();
    void wake_or_trigger();

    void leave_cno() OSD_REQUIRES(config_);
    void trigger_if_pending();

    std::atomic<bool> waitable_{true};
    std::atomic<bool> aborted_{false};
    std::atomic<bool> overflowed_{false};
    std::atomic<std::uint32_t> passing_references_{0};
    std::unique_ptr<event_order> order_; ///< set if streams are merged
    osd::mutex config_;                  ///< guards the association with a CNO
    user_of<cno> cno_ OSD_GUARDED_BY(config_);
    osd::wait_object sleeper_; ///< where the waiter sleeps, unless it sleeps in the port

public:
    cq_notifier notifier;
    evd_counters counters; // last member: far from the hot members
};

status make_evd(adapter &ia, DAT_COUNT qlen, DAT_EVD_FLAGS streams, evd *&out);

// ------------------------------------------------------------------------------------ hot path
//
// Rare cases are tail calls: the functions finish the dequeue or wait and return the bare code, so
// that the fast path saves no registers for them. Locals whose address they need are copied first,
// so that the originals stay in registers.

/// The straight line of dequeue and wait: takes a completion from the CQ if it is a plain success.
/// The Caller says how to go on:
///   taken       the event is made
///   empty       the CQ is empty
///   other       completion_poll has to be asked
///   idle        completion_progress has to be asked
///   unusual     a completion that is not plain was taken from the CQ, or one while the Caller is
///               `disturbed`
template <class Caller>
OSD_ALWAYS_INLINE typename Caller::answer evd::take_plain(DAT_EVENT &event)
{
    if constexpr (claims.direct_event) {
        work_request *done = nullptr;
        DAT_UINT32 length = 0;
        const take_result found = transport::dapls_ib_completion_take(cq_, done, length);
        if constexpr (claims.split_poll)
            if (found == take_result::idle)
                return Caller::idle(*this, event);
        if (found != take_result::taken)
            return found == take_result::empty ? Caller::empty(*this) : Caller::other(*this, event);
        if (Caller::disturbed(*this) || !convert_plain(*done, length, event)) [[unlikely]]
            return Caller::unusual(*this, done, length, event);
    } else {
        completion done;
        if (!transport::dapls_ib_completion_poll(cq_, done))
            return Caller::empty(*this);
        if (Caller::disturbed(*this) || !convert_plain(done, event)) [[unlikely]] {
            const completion unusual = done;
            return Caller::unusual(*this, unusual, event);
        }
    }
    return Caller::taken(*this);
}

/// How a call has the claim: it took it, and gives it up.
struct evd::by_claim {
    static constexpr bool keeps = false;
    static constexpr std::uint32_t plain = 0; ///< the state where the CQ holds all
    static OSD_ALWAYS_INLINE void leave(evd &e) { e.claim_.give_up(); }
    static OSD_ALWAYS_INLINE bool take_again(evd &e) { return e.claim_.try_take(); }
    static void leave_keepable_wait(evd &e) OSD_NOINLINE;
};

/// Its thread keeps it, and the call passes the door.
struct evd::as_keeper {
    static constexpr bool keeps = true;
    static constexpr std::uint32_t plain = of_claim;
    static OSD_ALWAYS_INLINE void leave(evd &e) { e.claim_.leave(); }
    static bool take_again(evd &e)
    {
        if ((e.claim_.enter(consumer_claim::in_dequeue, e.state_) & consumer_claim::kept) != 0)
            return true;
        e.claim_.leave();
        return false;
    }
    static status wait(evd &e, DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event,
                       DAT_COUNT &nmore) OSD_NOINLINE;
    static status wait_slowly(evd &e, DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event,
                              DAT_COUNT &nmore) OSD_NOINLINE;
};

/// The ways of a dequeue:
///
///   evd::dequeue ── the claim is taken ──→ contended ─── by a waiter: INVALID_STATE
///      │     ↓                               │ free again
///      │  claimed ←──────────────────────────┘
///      └─ claimed, as the keeper of the claim
///      │    └─── state_ is not 0 ───────→ marked ──── merged: the CQ has all. As below, but
///      │                                  │           dequeuing_merged
///      │                                  └─ pending ── take
///   take_plain
///      ├── taken: SUCCESS
///      ├── empty: QUEUE_EMPTY, now and then after a pause
///      ├── idle ─── completion_progress → empty: QUEUE_EMPTY
///      │               ↓
///      ├── other ── completion_poll ────→ empty: QUEUE_EMPTY
///      │                                     ↓
///      └── unusual ─────────────────────→ unusual: converts it or drops it
///
/// Each gives up the claim, or leaves the door.
template <class Hold>
struct evd::dequeuing {
    using answer = DAT_RETURN;
    static OSD_ALWAYS_INLINE answer claimed(evd &e, DAT_EVENT &event, std::uint32_t state)
    {
        if (state != Hold::plain) [[unlikely]]
            return marked(e, event);
        return e.take_plain<dequeuing>(event);
    }
    static constexpr bool disturbed(const evd &) { return false; }
    static OSD_ALWAYS_INLINE answer taken(evd &e)
    {
        Hold::leave(e);
        return fresh_success();
    }
    static OSD_ALWAYS_INLINE answer empty(evd &e)
    {
        if (e.pause_.is_due()) [[unlikely]]
            return crowded(e);
        Hold::leave(e);
        return DAT_QUEUE_EMPTY;
    }
    static answer crowded(evd &e) OSD_COLD;
    static answer contended(evd &e, DAT_EVENT &event) OSD_COLD;
    static answer marked(evd &e, DAT_EVENT &event) OSD_NOINLINE;
    static answer merged(evd &e, DAT_EVENT &event) OSD_NOINLINE;
    static answer keepable(evd &e, DAT_EVENT &event) OSD_COLD;
    static answer revoked(evd &e, DAT_EVENT &event) OSD_COLD;
    static answer pending(evd &e, DAT_EVENT &event) OSD_NOINLINE;
    static answer idle(evd &e, DAT_EVENT &event) OSD_NOINLINE;
    static answer other(evd &e, DAT_EVENT &event) OSD_NOINLINE;
    static answer unusual(evd &e, const completion &done, DAT_EVENT &event) OSD_NOINLINE;
    static answer unusual(evd &e, work_request *done, DAT_UINT32 length, DAT_EVENT &event) OSD_COLD;
};

OSD_ALWAYS_INLINE DAT_RETURN evd::dequeue(DAT_EVENT &event)
{
    if constexpr (claims.lockless_dequeue)
        if (claim_.is_keeper())
            return dequeuing<as_keeper>::claimed(*this, event,
                                                 claim_.enter(consumer_claim::in_dequeue, state_));
    if (!claim_.try_take()) [[unlikely]]
        return dequeuing<by_claim>::contended(*this, event);
    return dequeuing<by_claim>::claimed(*this, event, state_.load());
}

/// The first attempt of a wait, at the CQ alone. It stages completions that it cannot take.
struct evd::waiting_once {
    using answer = bool;
    static constexpr bool disturbed(const evd &) { return false; }
    static answer marked(evd &e, DAT_EVENT &event) OSD_NOINLINE;
    /// The CQ holds all that there is.
    template <class Way = waiting_once>
    static OSD_ALWAYS_INLINE answer if_waitable(evd &e, DAT_EVENT &event)
    {
        if (!e.waitable_.load(std::memory_order_acquire) ||
            e.overflowed_.load(std::memory_order_acquire)) [[unlikely]]
            return false;
        return e.take_plain<Way>(event);
    }
    static OSD_ALWAYS_INLINE answer taken(evd &) { return true; }
    static OSD_ALWAYS_INLINE answer empty(evd &) { return false; }
    static OSD_ALWAYS_INLINE answer idle(evd &, DAT_EVENT &) { return false; }
    static OSD_ALWAYS_INLINE answer other(evd &, DAT_EVENT &) { return false; }
    static OSD_ALWAYS_INLINE answer unusual(evd &e, work_request *done, DAT_UINT32 length,
                                            DAT_EVENT &)
    {
        e.stage_success(done, length);
        return false;
    }
    static OSD_ALWAYS_INLINE answer unusual(evd &e, const completion &done, DAT_EVENT &)
    {
        e.stage(done);
        return false;
    }
};

OSD_ALWAYS_INLINE bool evd::take_at_once(DAT_EVENT &event)
{
    if (state_.load() != 0) [[unlikely]]
        return waiting_once::marked(*this, event);
    return waiting_once::if_waitable(*this, event);
}

/// Counts the remaining events, which mostly are none. `plain` is the state where the CQ holds all.
OSD_ALWAYS_INLINE DAT_COUNT evd::count_rest(std::uint32_t plain)
{
    if (state_.load() != plain) [[unlikely]]
        return available(INT_MAX);
    if constexpr (claims.cq_count) {
        return transport::dapls_ib_cq_count(cq_, INT_MAX);
    } else {
        completion done;
        if (!transport::dapls_ib_completion_poll(cq_, done)) [[likely]]
            return 0;
        const completion found = done;
        return count_staging(found);
    }
}

/// The consumer knows of `counted` events that are left.
OSD_ALWAYS_INLINE status evd::leave_wait(status answer, DAT_COUNT counted)
{
    if (notifier.target() != nullptr) [[unlikely]]
        leave_wait_notifying(counted);
    else if (claims.lockless_dequeue && (state_.load() & consumer_claim::keepable) != 0)
        by_claim::leave_keepable_wait(*this);
    else
        claim_.give_up();
    references.fetch_sub(1, std::memory_order_release);
    return answer;
}

/// Defers cancellation during the whole of a wait where the port has cancellation points in hot
/// operations; elsewhere from when the wait may sleep.
struct no_hold {};
using hold_from_first_look =
    std::conditional_t<transport::has_cancellation_points, osd::cancellable_wait, no_hold>;

/// An adapter that closes waits until waiters have left: `users` counts them.
OSD_ALWAYS_INLINE status evd::wait(DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event,
                                   DAT_COUNT &nmore)
{
    [[maybe_unused]] const hold_from_first_look reference;
    if constexpr (claims.lockless_dequeue)
        if (claim_.is_keeper()) {
            if (claim_.enter(consumer_claim::in_wait, state_) != of_claim || threshold != 1 ||
                !waiting_once::if_waitable(*this, event)) [[unlikely]]
                return as_keeper::wait(*this, timeout_us, threshold, event, nmore);
            nmore = count_rest(as_keeper::plain);
            claim_.leave();
            return success;
        }
    references.fetch_add(1, std::memory_order_relaxed);
    if (!claim_.try_take_for_wait()) [[unlikely]]
        return wait_contended(timeout_us, threshold, event, nmore);
    if (threshold != 1 || !take_at_once(event))
        return wait_slowly(timeout_us, threshold, event, nmore);
    nmore = count_rest(by_claim::plain);
    return leave_wait(success, nmore);
}

} // namespace dapl::DAPL_TRANSPORT::core
