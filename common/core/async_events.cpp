// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "async_events.hpp"

#include "dapl_debug.hpp"
#include "dat_names.hpp"
#include "evd.hpp"

#include <utility>

namespace dapl::DAPL_TRANSPORT::core {

namespace {

osd::mutex open_adapters_lock; // guards the async members of all adapters too
adapter *open_adapters OSD_GUARDED_BY(open_adapters_lock) = nullptr;

} // namespace

void attach_async_evd(adapter &ia, evd &target, bool owned)
{
    target.references.fetch_add(1, std::memory_order_relaxed);
    osd::lock_guard hold(open_adapters_lock);
    ia.async.target = &target;
    ia.async.owned = owned;
    ia.async.next_open = open_adapters;
    open_adapters = &ia;
}

void detach_async_evd(adapter &ia)
{
    osd::lock_guard hold(open_adapters_lock);
    for (adapter **link = &open_adapters; *link != nullptr; link = &(*link)->async.next_open) {
        if (*link == &ia)
            *link = ia.async.next_open;
        if (*link == nullptr)
            break;
        if (ia.async.owned && (*link)->async.target == ia.async.target) {
            (*link)->async.target = nullptr;
            ia.async.target->references.fetch_sub(1, std::memory_order_release);
        }
    }
    if (ia.async.target != nullptr)
        ia.async.target->references.fetch_sub(1, std::memory_order_release);
    ia.async.target = nullptr;
}

void visit_other_adapters(const adapter &ia, void (*visit)(adapter &other, const adapter &ia))
{
    osd::lock_guard hold(open_adapters_lock);
    for (adapter *other = open_adapters; other != nullptr; other = other->async.next_open)
        if (other != &ia && !other->is_inherited())
            visit(*other, ia);
}

evd *async_evd_of(const adapter &ia)
{
    osd::lock_guard hold(open_adapters_lock);
    return ia.async.target;
}

user_of<evd> store_async_error(adapter &ia, DAT_EVENT_NUMBER number, DAT_HANDLE affiliated,
                               DAT_COUNT reason)
{
    ia.counters.add(DCNT_IA_ASYNC_ERROR);
    if (number == DAT_ASYNC_ERROR_EP_BROKEN)
        ia.counters.add(DCNT_IA_ASYNC_QP_ERROR);
    else if (number == DAT_ASYNC_ERROR_EVD_OVERFLOW)
        ia.counters.add(DCNT_IA_ASYNC_CQ_ERROR);
    DAT_EVENT event{};
    event.event_number = number;
    event.event_data.asynch_error_event_data = {affiliated, reason};
    user_of<evd> target;
    bool lost_before = false;
    bool stored = false;
    {
        osd::lock_guard hold(open_adapters_lock);
        target = user_of<evd>(ia.async.target);
        event.evd_handle = to_handle(target.get());
        stored = target && target->store(event);
        lost_before = std::exchange(ia.async.loses, !stored);
    }
    if (stored) {
        dapl_log(DAPL_DBG_TYPE_EXCEPTION, "async event %s of %p, reason %d",
                 dat::event_name(number), affiliated, reason);
        return target;
    }
    if (!lost_before)
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "async event %s of %p is lost: the async EVD is %s; further losses are not logged "
                 "until it takes one",
                 dat::event_name(number), affiliated, target ? "full" : "gone");
    return {};
}

void async_error(adapter &ia, DAT_EVENT_NUMBER number, DAT_HANDLE affiliated, DAT_COUNT reason)
{
    if (const user_of<evd> target = store_async_error(ia, number, affiliated, reason))
        target->notify();
}

user_of<evd> store_async_overflow(adapter &ia, evd &full)
{
    return store_async_error(ia, DAT_ASYNC_ERROR_EVD_OVERFLOW, to_handle(&full),
                             DAT_EVD_OVERFLOW_ERROR);
}

void async_overflow(adapter &ia, evd &full)
{
    if (const user_of<evd> target = store_async_overflow(ia, full))
        target->notify();
}

} // namespace dapl::DAPL_TRANSPORT::core
