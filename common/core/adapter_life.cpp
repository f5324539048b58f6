// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "adapter_life.hpp"

#include "async_events.hpp"
#include "cno.hpp"
#include "cr.hpp"
#include "dapl_debug.hpp"
#include "endpoint.hpp"
#include "evd.hpp"
#include "lmr.hpp"
#include "osd_signals.hpp"
#include "osd_thread.hpp"
#include "pz.hpp"
#include "queue_owner.hpp"
#include "rmr.hpp"
#include "service_point.hpp"
#include "shared_recv_queue.hpp"

#include <algorithm>
#include <cstring>

namespace dapl::DAPL_TRANSPORT::core {

// ------------------------------------------------------------------------------------- opening

namespace {

/// One provider may serve several HCAs.
bool is_of_same_hca(const evd &events, const adapter &ia)
{
    return std::strcmp(events.ia->attr.hca_name, ia.attr.hca_name) == 0;
}

status attach_or_make_async_evd(adapter &ia, DAT_COUNT qlen, DAT_EVD_HANDLE *handle)
{
    evd *events = from_handle<evd>(*handle);
    const bool owned = *handle == DAT_HANDLE_NULL;
    if (!owned && !is_of_same_hca(*events, ia))
        return invalid_handle(DAT_INVALID_HANDLE_EVD_ASYNC);
    if (owned) {
        if (const status made = make_evd(ia, qlen, DAT_EVD_ASYNC_FLAG, events); !made.ok())
            return made;
        *handle = to_handle(events);
    }
    attach_async_evd(ia, *events, owned);
    return success;
}

status open(adapter &ia, DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd)
{
    osd::look_at_signal_handlers();
    if (const status opened = ia.open_hca(); !opened.ok())
        return opened;
    if (adapter::offers_counters.load(std::memory_order_relaxed))
        ia.offer_counters();
    const status attached = attach_or_make_async_evd(ia, async_qlen, async_evd);
    if (!attached.ok())
        ia.close_hca();
    return attached;
}

} // namespace

status open_adapter(const provider_line &line, DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd,
                    DAT_IA_HANDLE *out)
{
    if (async_evd == nullptr)
        return invalid_parameter(3);
    if (out == nullptr)
        return invalid_parameter(4);
    if (*async_evd == DAT_HANDLE_NULL) {
        if (async_qlen <= 0)
            return invalid_parameter(2);
    } else if (evd *shared = from_handle<evd>(*async_evd);
               shared == nullptr || !shared->takes(DAT_EVD_ASYNC_FLAG)) {
        return invalid_handle(DAT_INVALID_HANDLE_EVD_ASYNC);
    }

    auto *ia = new (std::nothrow) adapter(line);
    if (ia == nullptr)
        return out_of_memory;
    const status opened = open(*ia, async_qlen, async_evd);
    if (!opened.ok())
        delete ia;
    else
        *out = to_handle(ia);
    return opened;
}

// ------------------------------------------------------------------------------------- closing

namespace {

/// Waiters that can run return within microseconds. A waiter that has not returned by then is
/// stopped, or its signal handler goes on or has left by longjmp.
constexpr std::uint64_t waiters_leave_within_us = 2'000'000;

/// Ends all waits.
departure dismiss_waiters(adapter &ia, osd::deadline until)
{
    departure worst = departure::none;
    const auto count = [&worst](departure each) { worst = std::max(worst, each); };
    ia.for_each<evd>([&](evd &e) { count(e.abort_waiter(until)); });
    ia.for_each<cno>([&](cno &c) { count(c.kill(until)); });
    return worst;
}

/// Ends each object of a type by `end`, and destroys it.
template <class T>
void end_each(adapter &ia, void (T::*end)())
{
    ia.for_each<T>([&](T &each) {
        (each.*end)();
        ia.destroy(each);
    });
}

/// Everything but EVDs and CNOs, in the order of its uses.
void release_objects(adapter &ia)
{
    end_each(ia, &rmr::release);
    end_each(ia, &service_point::stop_listening);
    end_each(ia, &cr::refuse);
    end_each(ia, &endpoint::shut_down);
    ia.timers.stop();
    end_each(ia, &shared_recv_queue::release);
    ia.for_each<lmr>([&](lmr &region) {
        ia.regions.remove(region);
        transport::dapls_ib_mr_deregister(region.mr);
        ia.destroy(region);
    });
    ia.for_each<pz>([&](pz &zone) {
        transport::dapls_ib_pd_free(zone.pd);
        ia.destroy(zone);
    });
}

/// Stops other adapters of this library from posting connection events to EVDs of the closing
/// adapter.
void recall_evds(adapter &other, const adapter &closing)
{
    other.visit<endpoint>([&](endpoint &ep) { ep.forget_connect_evd_of(closing); });
}

/// Returns false when one is still in use at the deadline: an async event is being posted, or its
/// waiter does not return.
bool release_evds(adapter &ia, osd::deadline until)
{
    bool complete = true;
    ia.for_each<evd>([&](evd &e) {
        osd::wait_while([&] { return in_use(e) && !until.has_passed(); });
        if (in_use(e)) {
            complete = false;
            return;
        }
        e.release();
        ia.destroy(e);
    });
    return complete;
}

bool release_cnos(adapter &ia)
{
    bool complete = true;
    ia.for_each<cno>([&](cno &c) {
        if (in_use(c) || c.has_waiters()) {
            complete = false;
            return;
        }
        c.await_unreferenced();
        ia.destroy(c);
    });
    return complete;
}

void abandon(const adapter &ia)
{
    stay_loaded();
    dapl_log(DAPL_DBG_TYPE_ERR,
             "%s: closed while a thread that waits in an EVD or CNO does not return; the device "
             "stays open and its memory allocated until the process ends",
             ia.line.info.ia_name);
}

/// Top down: waits end, listeners stop, then everything in the order of its uses. A waiter that
/// does not return may still use its EVD or CNO and the device, so these are kept. False then, and
/// the adapter stays in memory.
bool tear_down(adapter &ia)
{
    osd::deadline until = osd::deadline::after_us(waiters_leave_within_us);
    const departure waiters = dismiss_waiters(ia, until);
    if (waiters != departure::none)
        outlive_leaving_threads();
    release_objects(ia);
    detach_async_evd(ia);
    visit_other_adapters(ia, recall_evds);
    if (waiters != departure::overdue)
        until = osd::deadline::after_us(waiters_leave_within_us);
    const bool evds_gone = release_evds(ia, until);
    const bool complete = release_cnos(ia) && evds_gone;
    if (complete)
        ia.close_hca();
    else
        abandon(ia);
    return complete;
}

} // namespace

status close_adapter(adapter &ia, DAT_CLOSE_FLAGS flags)
{
    if (flags != DAT_CLOSE_ABRUPT_FLAG && flags != DAT_CLOSE_GRACEFUL_FLAG)
        return invalid_parameter(2);
    const std::size_t own_evds = ia.async.owned ? 1 : 0;
    if (flags == DAT_CLOSE_GRACEFUL_FLAG && ia.live_objects() > own_evds)
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE);
    const bool complete = tear_down(ia);
    ia.tag.store(mark::dead);
    if (complete)
        delete &ia;
    return success;
}

void trace_outstanding(adapter &ia, const evd &there)
{
    ia.visit<endpoint>([&](endpoint &each) { trace_outstanding(each, there); });
}

} // namespace dapl::DAPL_TRANSPORT::core
