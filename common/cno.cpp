// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cno.hpp"

#include "dapl_api.hpp"
#include "osd_thread.hpp"

#include <iterator>
#include <utility>

namespace dapl::DAPL_TRANSPORT {

void cno::trigger(evd &by)
{
    DAT_OS_WAIT_PROXY_AGENT agent{};
    {
        osd::lock_guard hold(lock_);
        if (by.notified_cno() != this)
            return; // it left meanwhile, and may be gone when the trigger is looked at
        if (!triggered_) {
            triggered_ = true;
            by_ = &by;
            descriptor_.raise();
        }
        std::swap(agent, agent_); // called once until it is set again, whether or not anybody waits
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

void cno::take(DAT_EVD_HANDLE *triggered_by)
{
    triggered_ = false;
    descriptor_.lower();
    *triggered_by = by_ == nullptr ? DAT_HANDLE_NULL : to_handle(by_);
    note_recent();
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
            triggered_ = true;
            by_ = each;
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
        return triggered_ || dead_ || look(false);
    });
}

/// Has the CQs armed that were left out; true when that triggers the CNO, for one of them has an
/// event already.
bool cno::arm()
{
    bool armed = false;
    for (evd *each : recent_)
        armed = (each != nullptr && each->arm_again()) || armed;
    return armed && !triggered_ && look(true);
}

void cno::note_recent()
{
    if (by_ == nullptr)
        return;
    for (const evd *each : recent_)
        if (each == by_)
            return;
    evd *&place = recent_[next_recent_++ % std::size(recent_)];
    if (evd *evicted = std::exchange(place, by_);
        evicted != nullptr && evicted->arm_again() && evicted->has_news_for(*this, true)) {
        triggered_ = true;
        by_ = evicted;
    }
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
    if (!triggered_ && !(may_look() && look(false)))
        return queue_empty;
    take(triggered_by);
    return success;
}

/// One waiter of an adapter's CNOs sleeps in the port: what it waits for wakes it at once, and no
/// other thread first.
osd::wait_result cno::sleep(osd::deadline until)
{
    ++asleep_;
    osd::wait_result result{};
    if (claims.cno_wait && !ia->cno_sleeper.exchange(true))
        result = sleep_in_port(until);
    else
        result = triggered_changed_.wait(lock_, until);
    --asleep_;
    return result;
}

osd::wait_result cno::sleep_in_port(osd::deadline until)
{
    in_port_ = true;
    lock_.unlock();
    const osd::wait_result result = transport::dapls_ib_cno_wait(ia->hca, until);
    lock_.lock();
    in_port_ = false;
    ia->cno_sleeper.store(false);
    return result;
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
    while (!triggered_ && !dead_ && result == osd::wait_result::woken)
        if (!look_for_a_while(until) && !arm())
            result = sleep(until);
    --waiters_;
    return result;
}

/// What is there is found without a look at the clock.
status cno::wait(DAT_TIMEOUT timeout_us, DAT_EVD_HANDLE *triggered_by)
{
    osd::wait_result result = osd::wait_result::woken;
    status answer = success;

    osd::lock_guard hold(lock_);
    if (!triggered_ && !dead_ && !(may_look() && look(false)))
        result = wait_for_trigger(deadline_of(timeout_us));

    if (dead_) {
        triggered_changed_.broadcast(); // kill() waits for the last one
        answer = status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_DEAD);
    } else if (triggered_) {
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
        if (arm()) {
            std::swap(called, agent_);
            by = to_handle(by_);
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
    if (by_ == &gone)
        by_ = nullptr;
    if (!in_use(*this) && waiters_ != 0) {
        triggered_ = true;
        descriptor_.raise();
        wake_all();
    }
}

bool cno::has_waiters()
{
    osd::lock_guard hold(lock_);
    return waiters_ != 0;
}

bool cno::kill()
{
    osd::lock_guard hold(lock_);
    const bool had_waiters = waiters_ != 0;
    dead_ = true;
    wake_all();
    while (waiters_ != 0)
        (void)triggered_changed_.wait(lock_, osd::deadline::never());
    return had_waiters;
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

} // namespace dapl::DAPL_TRANSPORT
