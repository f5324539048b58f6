// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "internal.hpp"

#include "dapl_debug.hpp"
#include "descriptor_wait.hpp"
#include "osd_cancellation.hpp"
#include "osd_system.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sched.h>

namespace dapl::verbs {

using namespace vrb;

namespace {

/// [nth_signal] Room for suppressed successes that are signalled all the same. A queue pair that
/// signals every half of its depth has three at most.
constexpr std::uint32_t most_signallers = port_features.nth_signal ? 64 : 0;
constexpr DAT_COUNT signalled_room = 3 * most_signallers;

/// Room for the operations of the port's own, one for each queue pair that is being disconnected.
constexpr DAT_COUNT spare_room = 16 + signalled_room;

void defer(cq &c, const ibv_wc &entry) OSD_REQUIRES(c.lock)
{
    wr &w = request_of(entry);
    if (came_again(entry, w))
        return;
    if (is_suppressed_success(entry, w))
        return note_success(w);
    read_completion(*c.device, nullptr, entry, w, w.done);
    if (w.queue != nullptr)
        c.defer(w);
}

/// A queue pair has gone to the error state without the port. Newer versions of rxe report no cause
/// for that, if a request is refused before it has left: neither by a completion nor by an event.
/// So the service thread looks for the queue pair. With iWARP this is how a peer's disconnect
/// begins, which has an event of its own.
void note_flush(cq &c)
{
    if (c.device->iwarp)
        return;
    c.flushed.store(true);
    c.device->flushed.store(true);
    c.device->events.kick();
}

bool holds_any(cq &c)
{
    c.consumer.enter();
    const bool fast = !c.is_slow();
    if (fast)
        keep(c, look_into(c));
    const bool any = fast && c.left != 0;
    c.consumer.leave();
    if (fast)
        return any;
    osd::lock_guard hold(c.lock);
    if (!c.has_deferred())
        keep(c, look_into(c));
    return c.has_deferred() || c.left != 0;
}

/// The entries to ask the device for; spare_room entries are not promised to the consumer.
DAT_COUNT with_spare(const hca &device, DAT_COUNT depth)
{
    return std::min(device.limits.max_cqe - spare_room, depth) + spare_room;
}

/// A CQ that the device will not resize has room for its EVD to grow from the start.
DAT_COUNT entries_of_new(const hca &device, DAT_COUNT depth)
{
    const DAT_COUNT wanted = with_spare(device, depth);
    if (!port_features.cq_resize || !device.fixed_cqs)
        return wanted;
    const auto most = static_cast<std::uint32_t>(device.limits.max_cqe);
    return std::max(wanted, static_cast<DAT_COUNT>(std::min(device.params.cq_room, most)));
}

int resize(cq &c, DAT_COUNT entries)
{
    return std::abs(ibv_resize_cq(c.handle, entries)); // some drivers have the sign of the kernel
}

status resize_refused(const cq &c, DAT_COUNT depth, int error)
{
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: resizing a CQ from %d to %d entries failed: %s%s",
             c.device->name, c.handle->cqe, with_spare(*c.device, depth), std::strerror(error),
             osd::limit_text::of_locking(error).text);
    return error == EINVAL ? status::error(DAT_INVALID_STATE) : status_of_errno(error);
}

DAT_COUNT without_spare(const cq &c, DAT_COUNT wanted)
{
    return std::max(wanted, c.handle->cqe - spare_room);
}

status make_channel(hca &device, cq &c)
{
    if (port_features.cq_wait && !c.wake.open())
        return call_failed(device.name, "eventfd for a CQ", errno);
    c.channel = ibv_create_comp_channel(device.verbs);
    if (c.channel == nullptr)
        return call_failed(device.name, "ibv_create_comp_channel", errno);
    return unblock(c.channel->fd) ? success
                                  : call_failed(device.name, "fcntl of a CQ's channel", errno);
}

/// The spare CQ, which has no owner, interrupts nobody.
void give_vector_back(cq &c)
{
    if (c.owner != nullptr)
        c.device->vectors.give_back(c.vector);
}

status create_cq(hca &device, cq &c, DAT_COUNT entries)
{
    if (c.owner != nullptr)
        c.vector = device.vectors.take(static_cast<unsigned>(std::max(sched_getcpu(), 0)));
    c.handle = ibv_create_cq(device.verbs, entries, &c, c.channel, static_cast<int>(c.vector));
    if (c.handle != nullptr)
        return success;
    const int error = errno;
    give_vector_back(c);
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: ibv_create_cq of %d entries failed: %s%s", device.name,
             entries, std::strerror(error), osd::limit_text::of_locking(error).text);
    return status_of_errno(error);
}

} // namespace

namespace vrb {

DAT_DTO_COMPLETION_STATUS failure_of(cq *polled, const wr &w, ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_WR_FLUSH_ERR:
        if (polled != nullptr)
            note_flush(*polled);
        return DAT_DTO_ERR_FLUSHED;
    case IBV_WC_LOC_LEN_ERR:
        return DAT_DTO_ERR_LOCAL_LENGTH;
    case IBV_WC_LOC_QP_OP_ERR: // rxe: a message longer than the receive
        return w.operation == opcode::receive ? DAT_DTO_ERR_LOCAL_LENGTH : DAT_DTO_ERR_LOCAL_EP;
    case IBV_WC_LOC_EEC_OP_ERR:
        return DAT_DTO_ERR_LOCAL_EP;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
        return DAT_DTO_ERR_LOCAL_PROTECTION;
    case IBV_WC_BAD_RESP_ERR:
        return DAT_DTO_ERR_BAD_RESPONSE;
    case IBV_WC_REM_ACCESS_ERR:
        return DAT_DTO_ERR_REMOTE_ACCESS;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
        return DAT_DTO_ERR_REMOTE_RESPONDER;
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return DAT_DTO_ERR_RECEIVER_NOT_READY;
    case IBV_WC_MW_BIND_ERR:
        return DAT_RMR_OPERATION_FAILED;
    default:
        return DAT_DTO_ERR_TRANSPORT;
    }
}

bool poll_slow(cq &c, completion &done)
{
    osd::lock_guard hold(c.lock);
    for (;;) {
        wr *w = nullptr;
        if (c.left != 0) {
            const ibv_wc &entry = *take_entry(c);
            w = &request_of(entry);
            if (came_again(entry, *w))
                continue;
            if (is_suppressed_success(entry, *w)) {
                note_success(*w);
                continue;
            }
            read_completion(*c.device, &c, entry, *w, w->done);
        } else if (c.has_deferred()) {
            w = c.pop_deferred();
        } else {
            c.readmit_consumer();
            keep(c, look_into(c));
            if (c.left == 0)
                return false;
            continue;
        }
        if (w->queue == nullptr)
            continue;
        done = w->done;
        return true;
    }
}

bool begin_signalling(cq &c)
{
    if (c.signallers.fetch_add(1) < most_signallers)
        return true;
    end_signalling(c);
    return false;
}

void end_signalling(cq &c)
{
    c.signallers.fetch_sub(1);
}

bool drain(cq &c, std::uint32_t qp_num)
{
    bool failed = false;
    bool any = false;
    {
        osd::lock_guard hold(c.lock);
        c.exclude_consumer();
        while (const ibv_wc *entry = take_entry(c)) {
            failed |= entry->qp_num == qp_num && entry->status != IBV_WC_SUCCESS &&
                      entry->status != IBV_WC_WR_FLUSH_ERR;
            if (entry->status == IBV_WC_WR_FLUSH_ERR && entry->qp_num != qp_num)
                note_flush(c);
            defer(c, *entry);
        }
        any = c.has_deferred();
        c.readmit_consumer();
    }
    if (any)
        c.wake_sleepers();
    return failed;
}

void cq::wake_sleepers()
{
    if (waiting.load())
        wake_cq(*this);
    if (notify.load()) {
        callback_domain &mine = domain_of(*this);
        announced.store(true);
        mine.announcing.store(true);
        mine.thread->kick();
    }
}

bool take_cq_event(cq &c)
{
    ibv_cq *source = nullptr;
    void *context = nullptr;
    if (ibv_get_cq_event(c.channel, &source, &context) != 0)
        return false;
    c.unacked.fetch_add(1, std::memory_order_relaxed);
    return true;
}

namespace {

/// How long a waiter sleeps until it looks into a CQ that cannot be armed again.
constexpr std::uint64_t mute_look_us = 5000;

/// A failure is logged once for a CQ, as whoever waits tries again and again.
bool arm(cq &c, notify_on interest)
{
    const int error = std::abs(ibv_req_notify_cq(c.handle, interest == notify_on::solicited));
    if (error != 0 && !c.mute.exchange(true))
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: ibv_req_notify_cq failed: %s", c.device->name,
                 std::strerror(error));
    return error == 0;
}

/// How long a completion waits for others at most, if the device moderates. Waiters need no such
/// bound: it is for devices that count otherwise than this port does.
constexpr std::uint16_t longest_moderation_us = 10'000;

/// A failure is logged once for a CQ, and it is not moderated any longer.
void set_moderation(cq &c, std::uint32_t completions) OSD_REQUIRES(c.moderation)
{
    const bool on = completions > 1;
    ibv_modify_cq_attr attr{};
    attr.attr_mask = IBV_CQ_ATTR_MODERATE;
    attr.moderate.cq_count = static_cast<std::uint16_t>(on ? completions : 0);
    attr.moderate.cq_period =
        on ? std::min(c.device->moderation.max_cq_period, longest_moderation_us) : std::uint16_t{0};
    const int error = std::abs(ibv_modify_cq(c.handle, &attr));
    if (error == 0)
        return;
    c.moderates = false;
    c.per_event.store(1);
    dapl_log(DAPL_DBG_TYPE_ERR,
             "%s: ibv_modify_cq failed: %s; each completion wakes who waits for several",
             c.device->name, std::strerror(error));
}

/// From now on the CQ makes an event of as many completions as a waiter waits for. A callback is
/// wanted for the first: whoever asks for it comes after the look at `notify`, and then sees
/// `per_event`, or is seen.
void moderate(cq &c, DAT_COUNT threshold)
{
    const std::uint32_t most = std::max<std::uint32_t>(c.device->moderation.max_cq_count, 1);
    std::uint32_t wanted = std::min(static_cast<std::uint32_t>(threshold), most);
    if (wanted == 1 && c.per_event.load() == 1)
        return;
    osd::lock_guard hold(c.moderation);
    if (!c.moderates)
        return;
    const std::uint32_t before = c.per_event.exchange(wanted);
    if (c.notify.load()) {
        wanted = 1;
        c.per_event.store(1);
    }
    if (wanted != before)
        set_moderation(c, wanted);
}

void end_wait(cq &c)
{
    c.waiting.store(false);
    c.woken.store(false); // keeps events from piling up, one for each wait that did not sleep
}

} // namespace

void notify_cq(cq &c, notify_on interest)
{
    c.notify.store(true);
    moderate(c, 1);
    arm_service(c);
    (void)arm(c, interest);
}

/// A CQE does not tell whether it is solicited, so any CQE that is found after the CQ was armed
/// ends the wait. Spinning for solicited CQEs would find the others.
osd::wait_result wait_for_cq(cq &c, notify_on interest, DAT_COUNT threshold, osd::deadline until)
{
    const auto found = [&c] { return c.woken.load(std::memory_order_relaxed) || holds_any(c); };
    if (interest != notify_on::solicited && c.spin.find(c.device->params.spin_us, until, found)) {
        if (c.woken.load()) {
            c.wake.lower();
            c.woken.store(false);
        }
        return osd::wait_result::woken;
    }
    if (c.event_left) // keeps events from piling up, one for each wait that did not sleep
        while (take_cq_event(c)) {
        }
    c.event_left = true;
    c.waiting.store(true); // ordered before the look for deferred completions
    osd::wait_result result = osd::wait_result::woken;
    moderate(c, interest == notify_on::any ? threshold : 1);
    const bool armed = arm(c, interest);
    if (!holds_any(c)) {
        const osd::deadline end =
            armed ? until : std::min(until, osd::deadline::after_us(mute_look_us));
        bool readable = false;
        osd::undo_if_cancelled(
            [&] {
                result = port_support::wait_readable(c.channel->fd, c.wake.get(), end, readable);
            },
            [&c] { end_wait(c); });
        if (readable && take_cq_event(c))
            c.event_left = false;
        if (end < until && result == osd::wait_result::timed_out)
            result = osd::wait_result::woken;
    }
    end_wait(c);
    return result;
}

void wake_cq(cq &c)
{
    if (!c.woken.exchange(true))
        c.wake.raise();
}

bool resizes_cqs(cq &any)
{
    const int error = resize(any, any.handle->cqe);
    return error != EOPNOTSUPP && error != ENOSYS;
}

status open_cq(hca &device, cq &c, evd *owner, DAT_COUNT &depth)
{
    c.device = &device;
    c.owner = owner;
    status made = make_channel(device, c);
    if (made.ok())
        made = create_cq(device, c, entries_of_new(device, depth));
    if (!made.ok()) {
        close_cq(c);
        return made;
    }
    c.poll = device.siw ? poll_in_order : c.handle->context->ops.poll_cq;
    watch(c);
    depth = without_spare(c, depth);
    return success;
}

void close_cq(cq &c)
{
    if (c.handle != nullptr) {
        ibv_ack_cq_events(c.handle, c.unacked.exchange(0)); // destroying it waits for them
        osd::lock_guard hold(c.device->lock);
        destroy_cq(*c.device, c.handle); // destroys the channel too
        give_vector_back(c);
    } else if (c.channel != nullptr) {
        (void)ibv_destroy_comp_channel(c.channel);
    }
    c.wake.close();
    c.handle = nullptr;
    c.channel = nullptr;
}

} // namespace vrb

status transport::dapls_ib_cq_alloc(hca &device, cq &c, evd &owner, DAT_COUNT &depth)
{
    return open_cq(device, c, &owner, depth);
}

status transport::dapls_ib_cq_resize(cq &c, DAT_COUNT &depth)
{
    const DAT_COUNT wanted = with_spare(*c.device, depth);
    int error = 0;
    if (!c.device->fixed_cqs)
        error = resize(c, wanted);
    else if (wanted > c.handle->cqe)
        error = ENOSPC;
    if (error != 0)
        return resize_refused(c, depth, error);
    depth = without_spare(c, depth);
    return success;
}

void transport::dapls_ib_cq_free(cq &c)
{
    if (c.device->foreign())
        return;
    unwatch(c);
    close_cq(c);
}

} // namespace dapl::verbs
