// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cno.hpp"

#include "dapl_api.hpp"
#include "osd_cancellation.hpp"
#include "osd_thread.hpp"

#include <iterator>
#include <utility>

namespace dapl::DAPL_TRANSPORT::core {

// ---------------------------------------------------------------------------- pending triggers

void cno::add(evd &by)
{
    if (by.link.pending)
        return;
    if (!triggered())
        descriptor_.raise();
    by.link = {nullptr, true, false};
    (first_ == nullptr ? first_ : last_->link.next) = &by;
    last_ = &by;
}

evd *cno::pop()
{
    evd *const first = first_;
    if (first != nullptr) {
        first_ = first->link.next;
        first->link.pending = false;
    }
    return first;
}

void cno::remove(evd &gone)
{
    if (!gone.link.pending)
        return;
    evd *rest = std::exchange(first_, nullptr);
    for (last_ = nullptr; rest != nullptr;) {
        evd *const each = std::exchange(rest, rest->link.next);
        each->link.next = nullptr;
        if (each == &gone)
            continue;
        (first_ == nullptr ? first_ : last_->link.next) = each;
        last_ = each;
    }
    gone.link.pending = false;
}

/// A trigger stays until it is taken. Those that were merged into it when they came do so only
/// while there is an event: the consumer may have looked into all EVDs because of the one it was
/// told.
void cno::drop_emptied()
{
    while (first_ != nullptr && !first_->has_events())
        if (evd &emptied = *pop(); emptied.has_more_news())
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

/// A waiter for each trigger: one that came while the port woke only one waiter is passed on.
void cno::take(DAT_EVD_HANDLE *triggered_by)
{
    evd *const by = pop();
    nameless_ = false;
    *triggered_by = by == nullptr ? DAT_HANDLE_NULL : to_handle(by);
    note_recent(by);
    if (by != nullptr && by->has_more_news())
        add(*by);
    drop_emptied();
    if (triggered() && asleep_ != 0)
        wake_one();
}

/// One that has an event for which no agent was called. All that were told of are armed: the agent
/// takes the place of a wait.
evd *cno::find_uncalled()
{
    evd *found = nullptr;
    for (evd *each = first_; each != nullptr; each = each->link.next) {
        if (each->has_more_news())
            each->link.agent_called = false;
        if (found == nullptr && !each->link.agent_called && each->has_events())
            found = each;
    }
    return found;
}

void cno::trigger(evd &by)
{
    DAT_OS_WAIT_PROXY_AGENT agent{};
    {
        osd::lock_guard hold(lock_);
        if (by.notified_cno() != this)
            return; // it left meanwhile, and may be gone when the trigger is looked at
        add(by);
        std::swap(agent, agent_); // called once until it is set again, whether or not anybody waits
        by.link.agent_called = agent.proxy_agent_func != nullptr;
        wake_one();
    }
    if (agent.proxy_agent_func != nullptr)
        agent.proxy_agent_func(agent.instance_data, to_handle(&by));
}

status cno::open_descriptor()
{
    if (!osd::event_descriptor::exists)
        return not_supported;
    return descriptor_.open() ? success
                              : status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
}

// ------------------------------------------------------------------------------------- looking

/// An agent and a descriptor tell of events to who is not here.
bool cno::may_look() const
{
    return ia->attr.spin_us != 0 && agent_.proxy_agent_func == nullptr && !descriptor_.is_open();
}

/// Triggers the CNO if a recent EVD has news; `if_busy` is the answer for one from which
/// somebody takes events just now.
bool cno::look(bool if_busy)
{
    for (evd *each : recent_)
        if (each != nullptr && each->has_news_for(*this, if_busy)) {
            if (asleep_ == 0)
                each->leave_unarmed();
            add(*each);
            return true;
        }
    return false;
}

/// True when there is something to return for. The lock is given up between the looks.
bool cno::look_for_a_while(osd::deadline until)
{
    if (!may_look())
        return false;
    return spin_.find(ia->attr.spin_us, until, [this]() OSD_UNCHECKED {
        lock_.unlock();
        lock_.lock();
        return triggered() || dead_ || look(false);
    });
}

/// Has its CQ armed if that was left out. What came before does not call back: it triggers the CNO
/// now, and then the answer is true.
bool cno::arm(evd &left_unarmed)
{
    if (!left_unarmed.arm_if_left_unarmed() || !left_unarmed.has_news_for(*this, true))
        return false;
    add(left_unarmed);
    return true;
}

bool cno::arm_recent()
{
    bool found = false;
    for (evd *each : recent_)
        found = (each != nullptr && arm(*each)) || found;
    return found;
}

void cno::note_recent(evd *taken)
{
    if (taken == nullptr)
        return;
    for (const evd *each : recent_)
        if (each == taken)
            return;
    evd *&place = recent_[next_recent_++ % std::size(recent_)];
    if (evd *evicted = std::exchange(place, taken); evicted != nullptr)
        (void)arm(*evicted);
}

void cno::drop_recent(evd &gone)
{
    for (evd *&each : recent_)
        if (each == &gone)
            each = nullptr;
    gone.leave_armed();
}

void cno::await_look()
{
    osd::lock_guard hold(lock_);
}

status cno::take_trigger(DAT_EVD_HANDLE *triggered_by)
{
    osd::lock_guard hold(lock_);
    if (!has_trigger() && !(may_look() && look(false)))
        return queue_empty;
    take(triggered_by);
    return success;
}

/// One waiter of an adapter's CNOs sleeps in the port: what it waits for wakes it at once, and no
/// other thread first.
osd::wait_result cno::sleep(osd::deadline until)
{
    osd::wait_result result{};
    ++asleep_;
    osd::undo_if_cancelled(
        [&]() OSD_UNCHECKED {
            if (claims.cno_wait && !ia->cno_sleeper.exchange(true))
                result = sleep_in_port(until);
            else
                result = triggered_changed_.wait(lock_, until);
        },
        [this]() OSD_UNCHECKED { leave_cancelled(); });
    --asleep_;
    return result;
}

osd::wait_result cno::sleep_in_port(osd::deadline until) OSD_UNCHECKED
{
    osd::wait_result result{};
    in_port_ = true;
    lock_.unlock();
    osd::undo_if_cancelled([&] { result = transport::dapls_ib_cno_wait(ia->hca, until); },
                           [this]() OSD_UNCHECKED { leave_port(); });
    leave_port();
    return result;
}

void cno::leave_port() OSD_UNCHECKED
{
    lock_.lock();
    in_port_ = false;
    ia->cno_sleeper.store(false);
}

/// A wake-up that was meant for the cancelled waiter goes to another.
void cno::leave_cancelled() OSD_UNCHECKED
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
        if (!look_for_a_while(until) && !arm_recent())
            result = sleep(until);
    --waiters_;
    return result;
}

/// What is there is found without a look at the clock.
status cno::wait(DAT_TIMEOUT timeout_us, DAT_EVD_HANDLE *triggered_by)
{
    osd::wait_result result = osd::wait_result::woken;
    status answer = success;

    const osd::cancellable_wait held;
    osd::lock_guard hold(lock_);
    if (!has_trigger() && !dead_ && !(may_look() && look(false)))
        result = wait_for_trigger(deadline_of(timeout_us));

    if (dead_) {
        triggered_changed_.broadcast(); // kill() waits for the last one
        answer = status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_DEAD);
    } else if (triggered()) {
        take(triggered_by);
    } else {
        *triggered_by = DAT_HANDLE_NULL;
        answer = result == osd::wait_result::timed_out ? queue_empty : interrupted_call;
    }
    return answer;
}

void cno::await_unpinned()
{
    while (pins_.load(std::memory_order_acquire) != 0)
        osd::yield();
}

void cno::modify_agent(const DAT_OS_WAIT_PROXY_AGENT &agent)
{
    DAT_OS_WAIT_PROXY_AGENT called{};
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    {
        osd::lock_guard hold(lock_);
        agent_ = agent;
        (void)arm_recent();
        evd *const first = agent.proxy_agent_func == nullptr ? nullptr : find_uncalled();
        if (first != nullptr) {
            first->link.agent_called = true;
            std::swap(called, agent_);
            by = to_handle(first);
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

void cno::forget(evd &gone)
{
    osd::lock_guard hold(lock_);
    drop_recent(gone);
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

namespace {

status make_cno(DAT_IA_HANDLE ia_handle, const DAT_OS_WAIT_PROXY_AGENT &agent, DAT_CNO_HANDLE *out)
{
    adapter *ia = from_handle<adapter>(ia_handle);
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (out == nullptr)
        return invalid_parameter(3);
    cno *made = ia->make(ia->cnos, agent);
    if (made == nullptr)
        return out_of_memory;
    *out = to_handle(made);
    return success;
}

status make_polled_cno(DAT_IA_HANDLE ia_handle, DAT_FD *fd, DAT_CNO_HANDLE *out)
{
    adapter *ia = from_handle<adapter>(ia_handle);
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (fd == nullptr)
        return invalid_parameter(2);
    if (out == nullptr)
        return invalid_parameter(3);
    cno *made = ia->make(ia->cnos, DAT_OS_WAIT_PROXY_AGENT{});
    if (made == nullptr)
        return out_of_memory;
    const status opened = made->open_descriptor();
    if (!opened.ok()) {
        ia->destroy(ia->cnos, *made);
        return opened;
    }
    *fd = made->descriptor();
    *out = to_handle(made);
    return success;
}

} // namespace

DAT_RETURN dapl_cno_fd_create(DAT_IA_HANDLE ia, DAT_FD *fd, DAT_CNO_HANDLE *out)
{
    return make_polled_cno(ia, fd, out).code();
}

DAT_RETURN dapl_cno_trigger(DAT_CNO_HANDLE handle, DAT_EVD_HANDLE *triggered_by)
{
    cno *c = from_handle<cno>(handle);
    if (c == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_CNO).code();
    if (triggered_by == nullptr)
        return invalid_parameter(2).code();
    return c->take_trigger(triggered_by).code();
}

DAT_RETURN dapl_cno_create(DAT_IA_HANDLE ia, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE *out)
{
    return make_cno(ia, agent, out).code();
}

DAT_RETURN dapl_cno_modify_agent(DAT_CNO_HANDLE handle, DAT_OS_WAIT_PROXY_AGENT agent)
{
    cno *c = from_handle<cno>(handle);
    if (c == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_CNO).code();
    c->modify_agent(agent);
    return DAT_SUCCESS;
}

DAT_RETURN dapl_cno_query(DAT_CNO_HANDLE handle, DAT_CNO_PARAM_MASK mask, DAT_CNO_PARAM *param)
{
    cno *c = from_handle<cno>(handle);
    if (c == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_CNO).code();
    if (has_unknown_bits(mask, 0x7))
        return invalid_parameter(2).code();
    if (param == nullptr)
        return invalid_parameter(3).code();
    c->fill(*param);
    return DAT_SUCCESS;
}

DAT_RETURN dapl_cno_free(DAT_CNO_HANDLE handle)
{
    cno *c = from_handle<cno>(handle);
    if (c == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_CNO).code();
    if (in_use(*c) || c->has_waiters())
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_IN_USE).code();
    if (!c->condemn())
        return invalid_handle(DAT_INVALID_HANDLE_CNO).code();
    c->await_unpinned();
    c->ia->destroy(c->ia->cnos, *c);
    return DAT_SUCCESS;
}

DAT_RETURN dapl_cno_wait(DAT_CNO_HANDLE handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *triggered_by)
{
    cno *c = from_handle<cno>(handle);
    if (c == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_CNO).code();
    if (triggered_by == nullptr)
        return invalid_parameter(3).code();
    return c->wait(timeout, triggered_by).code();
}

} // namespace dapl::DAPL_TRANSPORT::core
