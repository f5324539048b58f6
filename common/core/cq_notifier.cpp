// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cq_notifier.hpp"

#include "dapl_debug.hpp"

#include <iterator>

namespace dapl::DAPL_TRANSPORT::core {

/// The CQ is armed again when the consumer takes the trigger: until then a callback would only
/// repeat what the CNO knows.
bool cq_notifier::completion_arrived()
{
    if (target() == nullptr)
        return false;
    when_taken_.fetch_or(rearm);
    if (has_unreported(true))
        return true;
    arm(); // the CNO has polled the CQ meanwhile and reports its completions
    return has_unreported(true);
}

void cq_notifier::arm()
{
    when_taken_.fetch_and(~rearm);
    if (!unarmed_.load())
        arm_cq();
}

void cq_notifier::arm_cq()
{
    if (queue_.has_cq() && target() != nullptr && enabled()) {
        dapl_log(DAPL_DBG_TYPE_EVD, "EVD %p: its CQ is armed for CNO %p", to_handle(&queue_),
                 to_handle(target()));
        transport::dapls_ib_completion_notify(queue_.cq_, queue_.overrides.arming());
    }
}

bool cq_notifier::has_events()
{
    if (queue_.counted() != 0 || !queue_.claim_.try_take())
        return true;
    const bool any = queue_.count_up_to(1) != 0;
    queue_.claim_.give_up();
    return any;
}

/// A thread that consumes may have found the CQ empty before the completions came: `if_busy` is the
/// answer then. Where completions do not all notify, true would be wrong for most: the end of a
/// dequeue is waited for.
bool cq_notifier::has_unreported(bool if_busy)
{
    if (!queue_.has_cq())
        return false;
    const bool waits = if_busy && queue_.overrides.any();
    if (!(waits ? queue_.claim_.take(queue_.state_, queue_.row_) : queue_.claim_.try_take()))
        return if_busy;
    const event_ring<completion> &staged = queue_.staged_;
    bool unreported = false;
    if (queue_.overrides.any()) {
        unreported = queue_.notifies_since(queue_.reported_);
    } else {
        if (staged.empty() || staged.tail() == queue_.reported_)
            queue_.stage_one();
        unreported = !staged.empty() && staged.tail() != queue_.reported_;
    }
    queue_.reported_ = staged.tail();
    if (unreported)
        when_taken_.fetch_or(look_again); // there may be more in the CQ
    queue_.claim_.give_up();
    return unreported;
}

/// Whether the CQ has completions to report to the CNO. False if the CQ is armed for solicited
/// completions and the port cannot tell them from others.
bool cq_notifier::has_unreported_for(const cno &who, bool if_busy)
{
    if (!transport::tells_solicited && queue_.overrides.arming() == notify_on::solicited)
        return false;
    return !link.pending && target() == &who && enabled() && !queue_.has_waiter() &&
           has_unreported(if_busy);
}

bool cq_notifier::trigger_taken()
{
    const unsigned to_do = when_taken_.exchange(0);
    if (to_do == 0 || unarmed_.load() || !enabled()) // dat_evd_enable arms and triggers
        return false;
    if ((to_do & rearm) != 0)
        arm_cq();
    return has_unreported(true);
}

bool cq_notifier::arm_if_left_unarmed(const cno &who)
{
    if (!unarmed_.exchange(false))
        return false;
    arm_cq();
    return has_unreported_for(who, true);
}

cq_notifier *recent_notifiers::find(const cno &who, bool if_busy, bool leave_unarmed)
{
    for (cq_notifier *each : recent_)
        if (each != nullptr && each->has_unreported_for(who, if_busy)) {
            if (leave_unarmed)
                each->leave_unarmed();
            return each;
        }
    return nullptr;
}

cq_notifier *recent_notifiers::add(cq_notifier &taken)
{
    for (const cq_notifier *each : recent_)
        if (each == &taken)
            return nullptr;
    return std::exchange(recent_[next_++ % std::size(recent_)], &taken);
}

void recent_notifiers::remove(cq_notifier &gone)
{
    for (cq_notifier *&each : recent_)
        if (each == &gone)
            each = nullptr;
    gone.forget_unarmed();
}

} // namespace dapl::DAPL_TRANSPORT::core
