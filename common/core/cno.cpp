// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cno.hpp"

#include "adapter.hpp"
#include "osd_cancellation.hpp"
#include "osd_thread.hpp"
#include "timer.hpp"

#include <iterator>
#include <utility>

namespace dapl::DAPL_TRANSPORT::core {

// ---------------------------------------------------------------------------- pending triggers

void cno::add(cq_notifier &by)
{
    if (by.link.pending)
        return;
    if (!triggered())
        descriptor_.raise();
    by.link = {nullptr, true, false};
    (first_ == nullptr ? first_ : last_->link.next) = &by;
    last_ = &by;
}

cq_notifier *cno::pop()
{
    cq_notifier *const first = first_;
    if (first != nullptr) {
        first_ = first->link.next;
        first->link.pending = false;
    }
    return first;
}

void cno::remove(cq_notifier &gone)
{
    if (!gone.link.pending)
        return;
    cq_notifier *rest = std::exchange(first_, nullptr);
    for (last_ = nullptr; rest != nullptr;) {
        cq_notifier *const each = std::exchange(rest, rest->link.next);
        each->link.next = nullptr;
        if (each == &gone)
            continue;
        (first_ == nullptr ? first_ : last_->link.next) = each;
        last_ = each;
    }
    gone.link.pending = false;
}

/// The first trigger stays until it is taken. Those merged into it stay only while their EVD has an
/// event: the consumer may have dequeued from all EVDs because of the event that it got.
void cno::drop_emptied()
{
    while (first_ != nullptr && !first_->has_events())
        if (cq_notifier &emptied = *pop(); emptied.trigger_taken())
            add(emptied);
    merged_ = first_ != nullptr;
    if (!triggered())
        descriptor_.lower();
}

bool cno::has_trigger()
{
    if (merged_)
        drop_emptied();
    return triggered();
}

/// Takes an EVD that has triggered the CNO. The port wakes only one waiter: if another EVD has
/// triggered, this waiter wakes the next.
void cno::take(DAT_EVD_HANDLE *triggered_by)
{
    cq_notifier *const by = pop();
    nameless_ = false;
    *triggered_by = by == nullptr ? DAT_HANDLE_NULL : by->handle();
    if (by != nullptr)
        if (cq_notifier *displaced = recent_.add(*by); displaced != nullptr)
            (void)arm(*displaced);
    if (by != nullptr && by->trigger_taken())
        add(*by);
    drop_emptied();
    if (triggered() && asleep_ != 0)
        wake_one();
}

/// Finds an EVD that has an event for which no agent was called. All EVDs in the list count as
/// taken: the agent takes the place of a wait, and their CQs are armed.
cq_notifier *cno::find_uncalled()
{
    cq_notifier *found = nullptr;
    for (cq_notifier *each = first_; each != nullptr; each = each->link.next) {
        if (each->trigger_taken())
            each->link.agent_called = false;
        if (found == nullptr && !each->link.agent_called && each->has_events())
            found = each;
    }
    return found;
}

void cno::trigger(cq_notifier &by)
{
    DAT_OS_WAIT_PROXY_AGENT agent{};
    {
        osd::lock_guard hold(lock_);
        if (by.target() != this)
            return; // it has left the CNO, and may be freed before the trigger is taken
        add(by);
        std::swap(agent,
                  agent_); // called once until it is set again, with or without waiters
        by.link.agent_called = agent.proxy_agent_func != nullptr;
        wake_one();
    }
    if (agent.proxy_agent_func != nullptr)
        agent.proxy_agent_func(agent.instance_data, by.handle());
}

status cno::open_descriptor()
{
    if (!osd::event_descriptor::exists)
        return not_supported;
    return descriptor_.open() ? success
                              : status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
}

// ------------------------------------------------------------------------------------- polling

/// Whether a waiter may poll before it sleeps: no agent and no descriptor is attached, which have
/// to be signalled while no thread waits.
bool cno::may_poll() const
{
    return ia->attr.spin_us != 0 && agent_.proxy_agent_func == nullptr && !descriptor_.is_open();
}

/// Polls the CQs of recent EVDs. True when one triggers the CNO: its CQ need not be armed until a
/// waiter sleeps.
bool cno::poll_recent()
{
    cq_notifier *const found = recent_.find(*this, false, asleep_ == 0);
    if (found != nullptr)
        add(*found);
    return found != nullptr;
}

/// Returns true when a wait need not sleep. The lock is given up between the polls.
bool cno::poll_for_a_while(osd::deadline until)
{
    if (!may_poll())
        return false;
    return spin_.find(ia->attr.spin_us, until, [this]() OSD_REQUIRES(lock_) {
        lock_.unlock();
        lock_.lock();
        return triggered() || dead_ || poll_recent();
    });
}

/// Arms a CQ that the CNO polled. True when completions that came before it was armed trigger the
/// CNO.
bool cno::arm(cq_notifier &left_unarmed)
{
    if (!left_unarmed.arm_if_left_unarmed(*this))
        return false;
    add(left_unarmed);
    return true;
}

bool cno::arm_recent()
{
    bool found = false;
    for (cq_notifier *each : recent_)
        found = (each != nullptr && arm(*each)) || found;
    return found;
}

void cno::await_poll()
{
    osd::lock_guard hold(lock_);
}

status cno::take_trigger(DAT_EVD_HANDLE *triggered_by)
{
    osd::lock_guard hold(lock_);
    if (!has_trigger() && !(may_poll() && poll_recent()))
        return queue_empty;
    take(triggered_by);
    return success;
}

/// One waiter per adapter sleeps in the port, which saves a context switch: its event wakes it
/// directly. The others sleep on the condition.
osd::wait_result cno::sleep(osd::deadline until)
{
    osd::wait_result result{};
    ++asleep_;
    osd::undo_if_cancelled(
        [&]() OSD_REQUIRES(lock_) {
            if (claims.cno_wait && !ia->cno_sleeper.exchange(true))
                result = sleep_in_port(until);
            else
                result = triggered_changed_.wait(lock_, until);
        },
        [this]() OSD_RELEASE(lock_) { leave_cancelled(); });
    --asleep_;
    return result;
}

osd::wait_result cno::sleep_in_port(osd::deadline until)
{
    osd::wait_result result{};
    in_port_ = true;
    lock_.unlock();
    osd::undo_if_cancelled([&] { result = transport::dapls_ib_cno_wait(ia->hca, until); },
                           [this]() OSD_ACQUIRE(lock_) { leave_port(); });
    leave_port();
    return result;
}

void cno::leave_port()
{
    lock_.lock();
    in_port_ = false;
    ia->cno_sleeper.store(false);
}

/// A wake-up that the cancelled waiter consumed is passed on.
void cno::leave_cancelled()
{
    --asleep_;
    --waiters_;
    if (dead_)
        triggered_changed_.broadcast();
    else if (triggered() && waiters_ != 0)
        wake_one();
    lock_.unlock();
}

void cno::wake_one()
{
    if (in_port_)
        transport::dapls_ib_cno_wakeup(ia->hca);
    else
        triggered_changed_.signal();
}

void cno::wake_all()
{
    if (in_port_)
        transport::dapls_ib_cno_wakeup(ia->hca);
    triggered_changed_.broadcast();
}

osd::wait_result cno::wait_for_trigger(osd::deadline until)
{
    osd::wait_result result = osd::wait_result::woken;
    ++waiters_;
    while (!triggered() && !dead_ && result == osd::wait_result::woken)
        if (!poll_for_a_while(until) && !arm_recent()) {
            result = sleep(until);
            // A port may return early each time, also when the deadline has passed.
            if (result == osd::wait_result::woken && !triggered() && until.has_passed())
                result = osd::wait_result::timed_out;
        }
    --waiters_;
    return result;
}

/// A pending trigger is taken without reading the clock.
status cno::wait(DAT_TIMEOUT timeout_us, DAT_EVD_HANDLE *triggered_by)
{
    osd::wait_result result = osd::wait_result::woken;
    status answer = success;

    const osd::cancellable_wait cancellable;
    osd::lock_guard hold(lock_);
    if (!has_trigger() && !dead_ && !(may_poll() && poll_recent()))
        result = wait_for_trigger(deadline_of(timeout_us));

    if (dead_) {
        triggered_changed_.broadcast(); // kill() waits for the last waiter
        answer = status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_DEAD);
    } else if (triggered()) {
        take(triggered_by);
    } else {
        *triggered_by = DAT_HANDLE_NULL;
        answer = result == osd::wait_result::timed_out ? queue_empty : interrupted_call;
    }
    return answer;
}

void cno::await_unreferenced()
{
    osd::wait_while([this] { return passing_references_.load(std::memory_order_acquire) != 0; });
}

void cno::modify_agent(const DAT_OS_WAIT_PROXY_AGENT &agent)
{
    DAT_OS_WAIT_PROXY_AGENT called{};
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    {
        osd::lock_guard hold(lock_);
        agent_ = agent;
        (void)arm_recent();
        cq_notifier *const first = agent.proxy_agent_func == nullptr ? nullptr : find_uncalled();
        if (first != nullptr) {
            first->link.agent_called = true;
            std::swap(called, agent_);
            by = first->handle();
        }
    }
    if (called.proxy_agent_func != nullptr)
        called.proxy_agent_func(called.instance_data, by);
}

void cno::fill(DAT_CNO_PARAM &out)
{
    osd::lock_guard hold(lock_);
    out.ia_handle = ia->consumer_handle();
    if (descriptor_.is_open()) {
        out.proxy_type = DAT_PROXY_TYPE_FD;
        out.proxy.fd = descriptor_.get();
    } else {
        out.proxy_type = DAT_PROXY_TYPE_AGENT;
        out.proxy.agent = agent_;
    }
}

void cno::forget(cq_notifier &gone)
{
    osd::lock_guard hold(lock_);
    recent_.remove(gone);
    const bool wakes_waiters = !in_use(*this) && waiters_ != 0;
    nameless_ = nameless_ || wakes_waiters || (first_ == &gone && !merged_);
    remove(gone);
    if (triggered())
        descriptor_.raise();
    else
        descriptor_.lower();
    if (wakes_waiters)
        wake_all();
}

bool cno::has_waiters()
{
    osd::lock_guard hold(lock_);
    return waiters_ != 0;
}

departure cno::kill(osd::deadline until)
{
    osd::lock_guard hold(lock_);
    dead_ = true;
    if (waiters_ == 0)
        return departure::none;
    wake_all();
    while (waiters_ != 0 && !until.has_passed())
        (void)triggered_changed_.wait(lock_, until);
    return waiters_ == 0 ? departure::left : departure::overdue;
}

} // namespace dapl::DAPL_TRANSPORT::core
