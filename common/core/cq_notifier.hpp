// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The arming protocol: how completions in the CQ of an EVD come to trigger a CNO.
//
// completion_notify arms a CQ for one callback. The EVD is then triggered at its CNO, and the
// consumer who takes the trigger dequeues until the EVD is empty. A completion that comes between
// the callback and the next arming makes no callback, so every arming is followed by a look into
// the CQ. Who arms, and when:
//
//   what happens                          the CQ is then     who arms it next
//   ------------------------------------  -----------------  --------------------------------------
//   EVD joins a CNO, or is enabled        armed: arm()       -
//   callback; the EVD is triggered        not armed, rearm   the consumer who takes the trigger:
//                                                            trigger_taken()
//   callback; completions were reported   armed: arm()       -
//     already, by a look of the CNO
//   look of the CNO finds completions,    as it was,         trigger_taken() if rearm is set
//     a waiter of the CNO sleeps            look_again
//   look of the CNO finds completions,    unarmed            arm_if_left_unarmed(): the CNO, before
//     no waiter of the CNO sleeps                              a waiter sleeps, when an agent is
//     set,
//                                                              or when it looks no longer
//   a waiter in dat_evd_wait sleeps       armed by itself    -
//   a waiter of dat_evd_wait returns      armed: arm()       -
//
// Flags of an EVD: `rearm` (the callback came and the CQ is not armed) and `look_again` (there may
// be completions that were not reported) are dealt with when the trigger is taken. `unarmed` (the
// CNO polls the CQ for the moment) makes arm() and trigger_taken() do nothing.
//
// A completion is reported when the CNO was triggered for it. Staging counts:
// event_queue::reported_ is the position in staged_ up to which all were. Completions in the CQ
// were not reported.
//
// Locks: the trigger link belongs to the lock of the CNO, which calls everything here that has
// `target` or `taken` in its name or arguments. CNO lock, then claim, never the other way round.
#pragma once

#include "event_queue.hpp"

namespace dapl::DAPL_TRANSPORT::core {

class cno;

/// The part of an EVD that a CNO knows.
class cq_notifier {
public:
    explicit cq_notifier(event_queue &of) : queue_(of) {}

    DAT_EVD_HANDLE handle() const { return queue_.handle(); }
    cno *target() const { return target_.load(std::memory_order_acquire); }
    void set_target(cno *to) { target_.store(to); }
    bool enabled() const { return enabled_.load(std::memory_order_acquire); }
    void set_enabled(bool enabled) { enabled_.store(enabled); }

    // --- for the EVD ---

    /// The port's callback. True when the CNO has to be triggered.
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
    /// The CNO polls it no longer, and somebody else will arm it.
    void forget_unarmed() { unarmed_.store(false); }
    /// The CNO polls it no longer: the CQ is armed. True when completions came before that, which
    /// make no callback, so that the EVD has to be triggered.
    bool arm_if_left_unarmed(const cno &who);

    /// The place in the CNO's list of triggers.
    struct trigger_link {
        cq_notifier *next = nullptr;
        bool pending = false;      ///< in the list
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
    /// One that has unreported completions, or null. With `leave_unarmed` its CQ is not armed until
    /// the CNO has it armed.
    cq_notifier *find(const cno &who, bool if_busy, bool leave_unarmed);
    /// Returns one that it displaces, or null.
    cq_notifier *add(cq_notifier &taken);
    void remove(cq_notifier &gone);

    auto begin() const { return std::begin(recent_); }
    auto end() const { return std::end(recent_); }

private:
    cq_notifier *recent_[4] = {}; ///< null where there is none
    std::uint32_t next_ = 0;
};

} // namespace dapl::DAPL_TRANSPORT::core
