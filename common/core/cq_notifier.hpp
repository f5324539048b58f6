// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The arming protocol: how completions in the CQ of an EVD come to trigger a CNO.
//
// dapls_ib_completion_notify arms a CQ for one callback. The callback triggers the CNO, and the
// consumer that takes the trigger dequeues until the EVD is empty. A completion that is added
// before the CQ is armed makes no callback, so every arming is followed by a poll.
//
//   what happens                           the CQ then         is armed next by
//   -------------------------------------  ------------------  ---------------------------------
//   EVD joins a CNO, or is enabled         armed: arm()        -
//   callback, triggers the CNO             not armed; rearm    trigger_taken()
//   callback, but a poll of the CNO has    armed: arm()        -
//     reported the completions already
//   callback, a thread is in evd_wait      not armed           the waiter, before it sleeps again
//   a thread leaves evd_wait               armed: arm()        -
//   poll of the CNO finds completions,     as it was           trigger_taken(), if rearm is set
//     another thread sleeps in the CNO
//   poll of the CNO finds completions,     unarmed             arm_if_left_unarmed()
//     no thread sleeps in the CNO
//
// rearm       The callback came and the CQ is not armed: trigger_taken() arms it.
// look_again  There may be completions that were not reported: trigger_taken() polls.
// unarmed     The CNO polls this CQ, so that arm() and trigger_taken() leave it alone. The CNO
//             calls arm_if_left_unarmed() before one of its threads sleeps, when an agent is set,
//             and when it displaces the EVD from those that it polls.
//
// A completion is reported when the CNO was triggered for it; a waiter of evd_wait reports by
// returning. event_queue::reported_ is the position in staged_ up to which all completions were
// reported. Completions still in the CQ were not.
//
// The functions for a CNO are called with its lock held. They take the claim without waiting for
// it, or wait for the end of a dequeue, where some completions do not notify. A thread that holds
// the claim never takes the lock of a CNO.
#pragma once

#include "event_queue.hpp"

namespace dapl::DAPL_TRANSPORT::core {

class cno;

/// The part of an EVD that a CNO knows.
class cq_notifier {
public:
    explicit cq_notifier(event_queue &queue) : queue_(queue) {}

    DAT_EVD_HANDLE handle() const { return queue_.handle(); }
    cno *target() const { return target_.load(std::memory_order_acquire); }
    void set_target(cno *to) { target_.store(to); }
    bool enabled() const { return enabled_.load(std::memory_order_acquire); }
    void set_enabled(bool enabled) { enabled_.store(enabled); }

    // --- for the EVD ---

    /// The port's callback, no thread waiting. True when the CNO has to be triggered.
    bool completion_arrived();
    /// Arms the CQ, unless the CNO polls it.
    void arm();

    // --- for a CNO, with its lock held ---

    /// Whether the consumer has something to take; true also while a thread consumes.
    bool has_events();
    /// Whether completions came that were not reported, no trigger of this EVD being pending;
    /// `if_busy` is the answer while a thread consumes. They count as reported now.
    bool has_unreported_for(const cno &who, bool if_busy);
    /// The consumer takes the trigger. True when the EVD has to be triggered once more.
    bool trigger_taken();
    /// The CNO polls the CQ from now on.
    void leave_unarmed() { unarmed_.store(true); }
    /// The EVD leaves the CNO: arm() arms it again.
    void forget_unarmed() { unarmed_.store(false); }
    /// The CNO polls it no longer: the CQ is armed. True when completions came before that, which
    /// make no callback, so that the EVD has to be triggered.
    bool arm_if_left_unarmed(const cno &who);

    /// The place in the CNO's list of triggers.
    struct trigger_link {
        cq_notifier *next = nullptr;
        bool pending = false;      ///< the EVD is in the list
        bool agent_called = false; ///< for it, since it is in the list
    };
    trigger_link link; ///< guarded by the lock of target()

private:
    bool has_unreported(bool if_busy);
    void arm_cq();

    enum : unsigned { look_again = 1, rearm = 2 };

    event_queue &queue_;
    std::atomic<cno *> target_{nullptr};
    std::atomic<unsigned> when_taken_{0}; ///< rearm, look_again
    std::atomic<bool> unarmed_{false};
    std::atomic<bool> enabled_{true};
};

/// The EVDs whose triggers were taken last. Their CQs are polled for a moment before a waiter of
/// the CNO sleeps. Guarded by the lock of the CNO.
class recent_notifiers {
public:
    /// Finds an EVD that has unreported completions; null if there is none. With `leave_unarmed`
    /// its CQ stays unarmed until the CNO arms it.
    cq_notifier *find(const cno &who, bool if_busy, bool leave_unarmed);
    /// Adds an EVD. Returns the EVD that it displaces, or null.
    cq_notifier *add(cq_notifier &taken);
    void remove(cq_notifier &gone);

    auto begin() const { return std::begin(recent_); }
    auto end() const { return std::end(recent_); }

private:
    cq_notifier *recent_[4] = {}; ///< null where there is none
    std::uint32_t next_ = 0;
};

} // namespace dapl::DAPL_TRANSPORT::core
