// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The service thread of an open adapter: it reads the connection manager's and the device's events,
// keeps timers, and makes all upcalls.
#include "internal.hpp"

#include "dapl_debug.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace dapl::verbs::vrb {

namespace {

constexpr int epoll_batch = 16;

bool add_to_epoll(hca &device, int fd, std::uint32_t events, void *tag)
{
    epoll_event event{};
    event.events = events;
    event.data.ptr = tag;
    return epoll_ctl(device.epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

// ------------------------------------------------------------------------------- completions

bool listed(hca &device, const void *maybe) OSD_REQUIRES(device.lock)
{
    for (cq *c = device.cqs.front(); c != nullptr; c = device.cqs.after(*c))
        if (c == maybe)
            return true;
    return false;
}

void tell_owner(hca &device, cq &c) OSD_REQUIRES(device.lock)
{
    if (!c.notify.exchange(false) || c.owner == nullptr)
        return;
    begin_upcall(device, &c);
    dapl_evd_dto_callback(*c.owner);
    end_upcall(device);
}

void channel_readable(hca &device, cq &c) OSD_REQUIRES(device.lock)
{
    (void)take_cq_event(c);
    if (c.waiting.load()) // the event may have been meant for the waiter
        wake_cq(c);
    tell_owner(device, c); // c may be gone
}

/// Completions were set aside, about which the device makes no event.
void tell_announced(hca &device) OSD_REQUIRES(device.lock)
{
    while (device.announcing.exchange(false)) {
        for (cq *c = device.cqs.front(); c != nullptr; c = device.cqs.after(*c)) {
            if (!c->announced.exchange(false))
                continue;
            device.announcing.store(true); // the list may have changed: from the start
            tell_owner(device, *c);
            break;
        }
    }
}

// ------------------------------------------------------------------------------- the device

/// What the CQ lost does not come back, but with the connections. Some devices say so for each
/// loss.
void tell_cq_failed(hca &device, cq &c) OSD_REQUIRES(device.lock)
{
    if (std::exchange(c.failed, true))
        return;
    for (qp *q = device.qps.front(); q != nullptr; q = device.qps.after(*q))
        if (q->send_cq == &c || q->recv_cq == &c)
            break_connection(device, *q);
    if (c.owner == nullptr)
        return;
    begin_upcall(device, &c);
    dapl_evd_cq_async_error_callback(*c.owner);
    end_upcall(device);
}

void tell_qp_failed(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    const phase state = phase_of(q);
    if (state != phase::live && state != phase::closing)
        return;
    break_connection(device, q);
    begin_upcall(device, &q);
    dapl_evd_qp_async_error_callback(*q.params.owner);
    end_upcall(device);
}

void tell_few_left(hca &device, srq &shared) OSD_REQUIRES(device.lock)
{
    begin_upcall(device, &shared);
    dapl_srq_limit_callback(*shared.owner);
    end_upcall(device);
}

bool take_async_event(hca &device) OSD_REQUIRES(device.lock)
{
    ibv_async_event event{};
    if (ibv_get_async_event(device.verbs, &event) != 0)
        return false;
    // Given back at once, for what it is about cannot be destroyed before. That only happens with
    // the lock held.
    void *about = nullptr;
    switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
        about = event.element.qp->qp_context;
        break;
    case IBV_EVENT_CQ_ERR:
        about = event.element.cq->cq_context;
        break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        about = event.element.srq->srq_context;
        break;
    default:
        break;
    }
    const ibv_event_type type = event.event_type;
    ibv_ack_async_event(&event);
    dapl_log(DAPL_DBG_TYPE_CALLBACK, "%s: event of the device: %s", device.name,
             ibv_event_type_str(type));
    switch (type) {
    case IBV_EVENT_DEVICE_FATAL:
        tell_device_failed(device);
        break;
    case IBV_EVENT_CQ_ERR:
        tell_cq_failed(device, *static_cast<cq *>(about));
        break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        tell_few_left(device, *static_cast<srq *>(about));
        break;
    case IBV_EVENT_COMM_EST: // a message came before the word that the connection stands
        if (connection *c = static_cast<qp *>(about)->link_up)
            (void)rdma_notify(c->id, type);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        tell_qp_failed(device, *static_cast<qp *>(about));
        break;
    default:
        break;
    }
    return true;
}

// ------------------------------------------------------------------------------- the thread

qp *first_due(hca &device, std::int64_t now) OSD_REQUIRES(device.lock)
{
    for (qp *q = device.todo.front(); q != nullptr; q = device.todo.after(*q))
        if (q->due_ns <= now)
            return q;
    return nullptr;
}

void attend_due(hca &device) OSD_REQUIRES(device.lock)
{
    const std::int64_t now = osd::now_ns(); // what becomes due meanwhile waits for the next round
    while (qp *q = first_due(device, now)) {
        static_cast<todo_link &>(*q).unlink();
        attend(device, *q);
    }
}

int patience_ms(hca &device) OSD_REQUIRES(device.lock)
{
    std::int64_t due = INT64_MAX;
    for (qp *q = device.todo.front(); q != nullptr; q = device.todo.after(*q))
        due = std::min(due, q->due_ns);
    if (due == INT64_MAX)
        return -1;
    const std::int64_t left = due - osd::now_ns();
    return left <= 0
               ? 0
               : static_cast<int>(std::min<std::int64_t>((left + 999'999) / 1'000'000, INT32_MAX));
}

void clear_kick(hca &device)
{
    eventfd_t ignored;
    (void)eventfd_read(device.kick, &ignored);
    device.kicked.store(false);
}

void serve_event(hca &device, const epoll_event &event) OSD_REQUIRES(device.lock)
{
    void *tag = event.data.ptr;
    if (tag == &device.kick)
        clear_kick(device);
    else if (tag == &device.channel)
        while (take_cm_event(device)) {
        }
    else if (tag == &device.verbs)
        while (take_async_event(device)) {
        }
    else if (listed(device, tag))
        channel_readable(device, *static_cast<cq *>(tag));
}

void serve_hca(void *argument)
{
    hca &device = *static_cast<hca *>(argument);
    epoll_event events[epoll_batch];
    device.lock.lock();
    while (!device.stopping) {
        const int patience = patience_ms(device);
        device.lock.unlock();
        const int count = epoll_wait(device.epoll, events, epoll_batch, patience);
        device.lock.lock();
        for (int i = 0; i < count; ++i)
            serve_event(device, events[i]);
        tell_announced(device);
        attend_due(device);
    }
    device.lock.unlock();
}

} // namespace

void tell_device_failed(hca &device)
{
    if (std::exchange(device.failed, true))
        return;
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: the device failed or was removed", device.name);
    begin_upcall(device, &device);
    dapl_evd_un_async_error_callback(*device.owner);
    end_upcall(device);
}

bool start_service(hca &device)
{
    device.epoll = epoll_create1(EPOLL_CLOEXEC);
    device.kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const bool ready = device.epoll >= 0 && device.kick >= 0 &&
                       add_to_epoll(device, device.channel->fd, EPOLLIN, &device.channel) &&
                       add_to_epoll(device, device.verbs->async_fd, EPOLLIN, &device.verbs) &&
                       add_to_epoll(device, device.kick, EPOLLIN, &device.kick) &&
                       device.service.start("dapl-verbs", serve_hca, &device);
    if (!ready)
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: no service thread", device.name);
    return ready;
}

void stop_service(hca &device)
{
    if (device.service.running()) {
        {
            osd::lock_guard hold(device.lock);
            device.stopping = true;
        }
        kick(device);
        device.service.join();
    }
    if (device.epoll >= 0)
        close(device.epoll);
    if (device.kick >= 0)
        close(device.kick);
    device.epoll = device.kick = -1;
    device.kicked.store(false);
}

void kick(hca &device)
{
    if (!device.kicked.exchange(true))
        (void)eventfd_write(device.kick, 1);
}

void schedule(hca &device, qp &q, std::int64_t due_ns)
{
    q.due_ns = due_ns;
    if (static_cast<todo_link &>(q).alone())
        device.todo.push(q);
    if (!device.service.is_current())
        kick(device);
}

void begin_upcall(hca &device, const void *object)
{
    device.busy = object;
    device.lock.unlock();
}

void end_upcall(hca &device)
{
    device.lock.lock();
    device.busy = nullptr;
    device.quiet.broadcast();
}

void wait_quiet(hca &device, const void *object)
{
    while (device.busy == object)
        (void)device.quiet.wait(device.lock, osd::deadline::never());
}

/// Only from the first time on. Even if nothing were asked of it, the channel would wake the thread
/// for each event that is meant for a consumer in cq_wait; once it has been told, it does not.
void arm_service(cq &c)
{
    epoll_event event{};
    event.events = EPOLLIN | EPOLLONESHOT;
    event.data.ptr = &c;
    if (epoll_ctl(c.device->epoll, EPOLL_CTL_MOD, c.channel->fd, &event) == 0 ||
        add_to_epoll(*c.device, c.channel->fd, event.events, &c) || errno == EEXIST)
        return;
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: a CQ cannot be watched: %s", c.device->name,
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
    (void)epoll_ctl(device.epoll, EPOLL_CTL_DEL, c.channel->fd, nullptr);
    osd::lock_guard hold(device.lock);
    static_cast<all_link &>(c).unlink();
    wait_quiet(device, &c);
}

} // namespace dapl::verbs::vrb
