// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// CNO: many EVDs, many waiters.
//
// An EVD that triggers the CNO joins a list, once, and stays there until a wait has taken it. A
// wait takes the first. Those behind it were merged into its trigger: what they hold may be all
// that will ever come, so the CNO stays triggered as long as one of them has an event.
#pragma once

#include "dapl_spin.hpp"
#include "object.hpp"
#include "osd_descriptor.hpp"
#include "osd_sync.hpp"

namespace dapl::DAPL_TRANSPORT::core {

class evd;

class cno : public object {
public:
    static constexpr std::size_t slab_size = 16;
    static bool is_kind(mark kind) { return kind == mark::cno; }

    cno(const DAT_PROVIDER *vector, adapter &owner, const DAT_OS_WAIT_PROXY_AGENT &agent)
        : object(vector, mark::cno, owner), agent_(agent)
    {}

    /// Never called with an EVD's lock held: the agent is the consumer's code. The caller holds a
    /// pin, which keeps the CNO alive meanwhile.
    void trigger(evd &by) OSD_EXCLUDES(lock_);
    void pin() { pins_.fetch_add(1, std::memory_order_relaxed); }
    void unpin() { pins_.fetch_sub(1, std::memory_order_release); }
    /// Returns when no trigger is under way. No new one can come: no EVD refers to the CNO.
    void await_unpinned();
    /// Gives it a descriptor that is readable while a trigger is pending.
    status open_descriptor();
    int descriptor() const { return descriptor_.get(); }
    /// Takes a pending trigger; `queue_empty` when there is none.
    status take_trigger(DAT_EVD_HANDLE *triggered_by) OSD_EXCLUDES(lock_);
    status wait(DAT_TIMEOUT timeout_us, DAT_EVD_HANDLE *triggered_by) OSD_EXCLUDES(lock_);
    void modify_agent(const DAT_OS_WAIT_PROXY_AGENT &agent) OSD_EXCLUDES(lock_);
    void fill(DAT_CNO_PARAM &out) OSD_EXCLUDES(lock_);

    /// Returns when no look is under way. None that begins later goes into a CQ that an EVD says it
    /// has not.
    void await_look() OSD_EXCLUDES(lock_);
    /// An EVD has left: a pending trigger no longer names it. The last one to leave wakes the
    /// waiters.
    void forget(evd &gone) OSD_EXCLUDES(lock_);
    bool has_waiters() OSD_EXCLUDES(lock_);
    /// Ends every wait with CNO_DEAD and returns when the last waiter has left, or until then.
    departure kill(osd::deadline until) OSD_EXCLUDES(lock_);

private:
    bool triggered() const OSD_REQUIRES(lock_) { return first_ != nullptr || nameless_; }
    bool has_trigger() OSD_REQUIRES(lock_);
    void add(evd &by) OSD_REQUIRES(lock_);
    void remove(evd &gone) OSD_REQUIRES(lock_);
    evd *pop() OSD_REQUIRES(lock_);
    void drop_emptied() OSD_REQUIRES(lock_);
    evd *find_uncalled() OSD_REQUIRES(lock_);
    void take(DAT_EVD_HANDLE *triggered_by) OSD_REQUIRES(lock_);
    bool may_look() const OSD_REQUIRES(lock_);
    bool look(bool if_busy) OSD_REQUIRES(lock_);
    bool look_for_a_while(osd::deadline until) OSD_REQUIRES(lock_);
    bool arm(evd &left_unarmed) OSD_REQUIRES(lock_);
    bool arm_recent() OSD_REQUIRES(lock_);
    void note_recent(evd *taken) OSD_REQUIRES(lock_);
    void drop_recent(evd &gone) OSD_REQUIRES(lock_);
    osd::wait_result wait_for_trigger(osd::deadline until) OSD_REQUIRES(lock_);
    osd::wait_result sleep(osd::deadline until) OSD_REQUIRES(lock_);
    osd::wait_result sleep_in_port(osd::deadline until) OSD_REQUIRES(lock_);
    void leave_port() OSD_ACQUIRE(lock_);
    void leave_cancelled() OSD_RELEASE(lock_);
    void wake_one() OSD_REQUIRES(lock_);
    void wake_all() OSD_REQUIRES(lock_);

    std::atomic<std::uint32_t> pins_{0};
    osd::mutex lock_;
    osd::condition triggered_changed_;
    evd *first_ OSD_GUARDED_BY(lock_) = nullptr; ///< of those that have triggered it
    evd *last_ OSD_GUARDED_BY(lock_) = nullptr;
    bool merged_ OSD_GUARDED_BY(lock_) = false;   ///< the first was not when it joined
    bool nameless_ OSD_GUARDED_BY(lock_) = false; ///< triggered by an EVD that has left
    bool dead_ OSD_GUARDED_BY(lock_) = false;
    osd::event_descriptor descriptor_; ///< raised while triggered
    /// EVDs that were told last. A wait looks into their CQs for a moment before it sleeps, and
    /// those where that found something are not armed until one does sleep.
    evd *recent_[4] OSD_GUARDED_BY(lock_) = {};
    std::uint32_t next_recent_ OSD_GUARDED_BY(lock_) = 0;
    spinner spin_ OSD_GUARDED_BY(lock_);
    std::uint32_t waiters_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t asleep_ OSD_GUARDED_BY(lock_) = 0; ///< of them
    bool in_port_ OSD_GUARDED_BY(lock_) = false;     ///< one of them sleeps in the port
    DAT_OS_WAIT_PROXY_AGENT agent_ OSD_GUARDED_BY(lock_);
};

} // namespace dapl::DAPL_TRANSPORT::core
