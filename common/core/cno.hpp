// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// CNO: many EVDs, many waiters.
//
// An EVD that triggers the CNO joins a list, once, and stays there until a wait takes it. A wait
// takes the first. The others were merged into its trigger: their events may be all that will ever
// come, so the CNO stays triggered as long as a merged EVD has an event.
//
// How completions come to trigger it is described in cq_notifier.hpp.
#pragma once

#include "cq_notifier.hpp"
#include "dapl_spin.hpp"
#include "object.hpp"
#include "osd_descriptor.hpp"
#include "osd_sync.hpp"

namespace dapl::DAPL_TRANSPORT::core {

class cno : public object {
public:
    static constexpr std::size_t slab_size = 16;
    static constexpr object_type pool = object_type::cno;
    static bool is_kind(mark kind) { return kind == mark::cno; }

    cno(const DAT_PROVIDER *vector, adapter &owner, const DAT_OS_WAIT_PROXY_AGENT &agent)
        : object(vector, mark::cno, owner), agent_(agent)
    {}

    /// Triggers the CNO. Never called with an EVD's lock held: the agent is the consumer's code.
    /// The caller holds a reference, which keeps the CNO.
    void trigger(cq_notifier &by) OSD_EXCLUDES(lock_);
    void begin_reference() { passing_references_.fetch_add(1, std::memory_order_relaxed); }
    void end_reference() { passing_references_.fetch_sub(1, std::memory_order_release); }
    /// Returns when no trigger() is running. No new one can begin: no EVD refers to the CNO.
    void await_unreferenced();
    /// Gives it a descriptor that is readable while a trigger is pending.
    status open_descriptor();
    int descriptor() const { return descriptor_.get(); }
    /// Takes a pending trigger; `queue_empty` when there is none.
    status take_trigger(DAT_EVD_HANDLE *triggered_by) OSD_EXCLUDES(lock_);
    status wait(DAT_TIMEOUT timeout_us, DAT_EVD_HANDLE *triggered_by) OSD_EXCLUDES(lock_);
    void modify_agent(const DAT_OS_WAIT_PROXY_AGENT &agent) OSD_EXCLUDES(lock_);
    void fill(DAT_CNO_PARAM &out) OSD_EXCLUDES(lock_);

    /// Returns when no poll of CQs is running. A later one skips EVDs whose CQ is closed.
    void await_poll() OSD_EXCLUDES(lock_);
    /// An EVD has left: a pending trigger no longer names it. The last one to leave wakes the
    /// waiters.
    void forget(cq_notifier &gone) OSD_EXCLUDES(lock_);
    bool has_waiters() OSD_EXCLUDES(lock_);
    /// Ends every wait with CNO_DEAD; returns when the last waiter has left, or at the deadline.
    departure kill(osd::deadline until) OSD_EXCLUDES(lock_);

private:
    bool triggered() const OSD_REQUIRES(lock_) { return first_ != nullptr || nameless_; }
    bool has_trigger() OSD_REQUIRES(lock_);
    void add(cq_notifier &by) OSD_REQUIRES(lock_);
    void remove(cq_notifier &gone) OSD_REQUIRES(lock_);
    cq_notifier *pop() OSD_REQUIRES(lock_);
    void drop_emptied() OSD_REQUIRES(lock_);
    cq_notifier *find_uncalled() OSD_REQUIRES(lock_);
    void take(DAT_EVD_HANDLE *triggered_by) OSD_REQUIRES(lock_);
    bool may_poll() const OSD_REQUIRES(lock_);
    bool poll_recent() OSD_REQUIRES(lock_);
    bool poll_for_a_while(osd::deadline until) OSD_REQUIRES(lock_);
    bool arm(cq_notifier &left_unarmed) OSD_REQUIRES(lock_);
    bool arm_recent() OSD_REQUIRES(lock_);
    osd::wait_result wait_for_trigger(osd::deadline until) OSD_REQUIRES(lock_);
    osd::wait_result sleep(osd::deadline until) OSD_REQUIRES(lock_);
    osd::wait_result sleep_in_port(osd::deadline until) OSD_REQUIRES(lock_);
    void leave_port() OSD_ACQUIRE(lock_);
    void leave_cancelled() OSD_RELEASE(lock_);
    void wake_one() OSD_REQUIRES(lock_);
    void wake_all() OSD_REQUIRES(lock_);

    std::atomic<std::uint32_t> passing_references_{0};
    osd::mutex lock_;
    osd::condition triggered_changed_;
    cq_notifier *first_ OSD_GUARDED_BY(lock_) = nullptr; ///< head of the list of EVDs that have
                                                         ///< triggered the CNO
    cq_notifier *last_ OSD_GUARDED_BY(lock_) = nullptr;
    bool merged_ OSD_GUARDED_BY(lock_) = false;   ///< the first joined behind others
    bool nameless_ OSD_GUARDED_BY(lock_) = false; ///< triggered by an EVD that has left
    bool dead_ OSD_GUARDED_BY(lock_) = false;
    osd::event_descriptor descriptor_; ///< raised while triggered
    recent_notifiers recent_ OSD_GUARDED_BY(lock_);
    spinner spin_ OSD_GUARDED_BY(lock_);
    std::uint32_t waiters_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t asleep_ OSD_GUARDED_BY(lock_) = 0; ///< waiters that sleep
    bool in_port_ OSD_GUARDED_BY(lock_) = false;     ///< a waiter sleeps in the port
    DAT_OS_WAIT_PROXY_AGENT agent_ OSD_GUARDED_BY(lock_);
};

} // namespace dapl::DAPL_TRANSPORT::core
