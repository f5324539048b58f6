// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The service thread of an open adapter: it reads the connection manager's and the device's events,
// keeps timers, and makes all upcalls.
#include "internal.hpp"

#include "dapl_debug.hpp"
#include "descriptor_wait.hpp"
#include "osd_cancellation.hpp"

#include <cerrno>
#include <cstring>
#include <sys/epoll.h>
#include <unistd.h>
#include <utility>

namespace dapl::verbs::vrb {

namespace {

constexpr int epoll_batch = 16;

bool in_epoll(int epoll, int operation, int fd, std::uint32_t events, void *tag)
{
    epoll_event event{};
    event.events = events;
    event.data.ptr = tag;
    return epoll_ctl(epoll, operation, fd, &event) == 0;
}

// ------------------------------------------------------------------------------- completions

bool listed(hca &device, const void *maybe) OSD_REQUIRES(device.lock)
{
    for (cq *c = device.cqs.front(); c != nullptr; c = device.cqs.after(*c))
        if (c == maybe)
            return true;
    return false;
}

void call_owner(hca &device, cq &c) OSD_REQUIRES(device.lock)
{
    if (!c.notify.exchange(false) || c.owner == nullptr)
        return;
    device.run_upcall(&c, [&] { dapl_evd_dto_callback(*c.owner); });
}

void channel_readable(hca &device, cq &c) OSD_REQUIRES(device.lock)
{
    (void)take_cq_event(c);
    if (c.waiting.load()) // the event may have been meant for the waiter
        wake_cq(c);
    call_owner(device, c); // c may be gone
}

void serve_channels(hca &device) OSD_REQUIRES(device.lock)
{
    epoll_event events[epoll_batch];
    const int count = epoll_wait(device.notifying, events, epoll_batch, 0);
    for (int i = 0; i < count; ++i)
        if (listed(device, events[i].data.ptr))
            channel_readable(device, *static_cast<cq *>(events[i].data.ptr));
}

/// Whether the service thread serves the channels.
void leave_channels_to_service(hca &device, bool leave)
{
    (void)device.events.modify(device.notifying, leave ? std::uint32_t{EPOLLIN} : 0,
                               &device.notifying);
}

/// Completions were deferred, for which the device makes no event.
void call_owners_of_deferred(hca &device) OSD_REQUIRES(device.lock)
{
    while (device.announcing.exchange(false)) {
        for (cq *c = device.cqs.front(); c != nullptr; c = device.cqs.after(*c)) {
            if (!c->announced.exchange(false))
                continue;
            device.announcing.store(true); // the list may have changed: from the start
            call_owner(device, *c);
            break;
        }
    }
}

// ------------------------------------------------------------------------------- the device

/// A CQ overrun cannot be recovered: breaks every connection that uses the CQ. Some devices raise
/// the event once per lost completion, so only the first is handled.
void cq_overrun(hca &device, cq &c) OSD_REQUIRES(device.lock)
{
    if (std::exchange(c.failed, true))
        return;
    for (qp *q = device.qps.front(); q != nullptr; q = device.qps.after(*q))
        if (q->send_cq == &c || q->recv_cq == &c)
            break_connection(device, *q);
    if (c.owner == nullptr)
        return;
    device.run_upcall(&c, [&] { dapl_evd_cq_async_error_callback(*c.owner); });
}

/// A queue pair that fails while it disconnects has met the peer's disconnect: siw reports a last
/// message that it could not send. The consumer has ended that connection itself.
void qp_failed(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    if (!q.is_established())
        return;
    const bool disconnects = q.phase() == phase::closing;
    break_connection(device, q);
    if (disconnects)
        return;
    device.run_upcall(&q, [&] { dapl_evd_qp_async_error_callback(*q.owner); });
}

void srq_limit_reached(hca &device, srq &shared) OSD_REQUIRES(device.lock)
{
    device.run_upcall(&shared, [&] { dapl_srq_limit_callback(*shared.owner); });
}

/// A message came before the ready-to-use message: the connection manager takes it for that.
void communication_established(hca &, qp &q)
{
    if (q.link_up != nullptr)
        (void)rdma_notify(q.link_up->id, IBV_EVENT_COMM_EST);
}

/// Calls `handle` with the port's object behind one of the device's, unless that has let go of it.
template <class Object>
void with_owner(hca &device, void *context, void (*handle)(hca &, Object &))
    OSD_REQUIRES(device.lock)
{
    if (context != nullptr)
        handle(device, *static_cast<Object *>(context));
}

void handle_async_event(hca &device, const ibv_async_event &event) OSD_REQUIRES(device.lock)
{
    switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        with_owner(device, event.element.qp->qp_context, qp_failed);
        break;
    case IBV_EVENT_COMM_EST:
        with_owner(device, event.element.qp->qp_context, communication_established);
        break;
    case IBV_EVENT_CQ_ERR:
        with_owner(device, event.element.cq->cq_context, cq_overrun);
        break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        with_owner(device, event.element.srq->srq_context, srq_limit_reached);
        break;
    case IBV_EVENT_DEVICE_FATAL:
        device_failed(device);
        break;
    default:
        break;
    }
}

bool take_async_event(hca &device) OSD_REQUIRES(device.lock)
{
    ibv_async_event event{};
    if (ibv_get_async_event(device.verbs, &event) != 0)
        return false;
    // Acknowledged at once, because destroying its object waits for that. Objects are destroyed
    // with the lock held only, so this one exists.
    ibv_ack_async_event(&event);
    dapl_log(DAPL_DBG_TYPE_CALLBACK, "%s: asynchronous event: %s", device.name,
             ibv_event_type_str(event.event_type));
    handle_async_event(device, event);
    return true;
}

// ------------------------------------------------------------------------------- the thread

void attend_due(hca &device) OSD_REQUIRES(device.lock)
{
    const std::int64_t now = osd::now_ns(); // what becomes due meanwhile waits for the next round
    while (connection_state *due = device.timers.pop_due(now))
        attend(device, static_cast<qp &>(*due));
}

void serve_event(hca &device, const void *tag) OSD_REQUIRES(device.lock)
{
    if (tag == &device.channel)
        while (take_cm_event(device)) {
        }
    else if (tag == &device.verbs)
        while (take_async_event(device)) {
        }
    else if (tag == &device.notifying)
        serve_channels(device);
}

void serve_hca(void *argument)
{
    hca &device = *static_cast<hca *>(argument);
    osd::lock_guard hold(device.lock);
    while (!device.events.is_stopping(device.lock)) {
        for (void *tag : device.events.wait(device.lock, device.timers.next_due()))
            serve_event(device, tag);
        call_owners_of_deferred(device);
        attend_due(device);
    }
}

} // namespace

void device_failed(hca &device)
{
    if (std::exchange(device.failed, true))
        return;
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: the device failed or was removed", device.name);
    device.run_upcall(&device, [&] { dapl_evd_un_async_error_callback(*device.owner); });
}

bool start_service(hca &device)
{
    device.notifying = epoll_create1(EPOLL_CLOEXEC);
    const bool ready = device.events.open() && device.notifying >= 0 && device.wake.open() &&
                       device.events.add(device.channel->fd, EPOLLIN, &device.channel) &&
                       device.events.add(device.verbs->async_fd, EPOLLIN, &device.verbs) &&
                       device.events.add(device.notifying, EPOLLIN, &device.notifying) &&
                       device.events.start("dapl-verbs", serve_hca, &device);
    if (!ready)
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: starting the service thread failed: %s", device.name,
                 std::strerror(errno));
    return ready;
}

void stop_service(hca &device)
{
    device.events.stop(device.lock);
    if (const int open = std::exchange(device.notifying, -1); open >= 0)
        close(open);
    device.wake.close();
}

osd::wait_result wait_for_any_cq(hca &device, osd::deadline until)
{
    leave_channels_to_service(device, false);
    bool readable = false;
    osd::wait_result result{};
    osd::undo_if_cancelled(
        [&] {
            result =
                port_support::wait_readable(device.notifying, device.wake.get(), until, readable);
        },
        [&device] { leave_channels_to_service(device, true); });
    if (readable) {
        device.awake.store(true);
        osd::lock_guard hold(device.lock);
        serve_channels(device);
        device.awake.store(false);
    }
    leave_channels_to_service(device, true);
    return result;
}

void wake_waiter(hca &device)
{
    if (!device.awake.load())
        device.wake.raise();
}

/// Added to epoll at the first call: a disarmed EPOLLONESHOT entry still reports EPOLLERR, and one
/// that was never armed would wake this thread for every event that is meant for cq_wait.
void arm_service(cq &c)
{
    constexpr std::uint32_t once = EPOLLIN | EPOLLONESHOT;
    const int watched = c.device->notifying;
    if (in_epoll(watched, EPOLL_CTL_MOD, c.channel->fd, once, &c) ||
        in_epoll(watched, EPOLL_CTL_ADD, c.channel->fd, once, &c) || errno == EEXIST)
        return;
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: epoll_ctl for a CQ failed: %s", c.device->name,
             std::strerror(errno));
}

void watch(cq &c)
{
    osd::lock_guard hold(c.device->lock);
    c.device->cqs.push(c);
}

void unwatch(cq &c)
{
    hca &device = *c.device;
    (void)epoll_ctl(device.notifying, EPOLL_CTL_DEL, c.channel->fd, nullptr);
    osd::lock_guard hold(device.lock);
    static_cast<all_link &>(c).unlink();
    device.wait_quiet(&c);
}

} // namespace dapl::verbs::vrb
