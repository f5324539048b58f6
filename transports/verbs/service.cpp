// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The service thread of an open adapter: it reads the connection manager's and the device's events,
// keeps timers, and makes the upcalls; callbacks.cpp makes the CQs' callbacks.
#include "internal.hpp"
#include "tcp.hpp"

#include "dapl_debug.hpp"
#include "osd_system.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

namespace dapl::verbs::vrb {

namespace {

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

bool is_in_error_state(qp &q)
{
    ibv_qp_attr attr{};
    ibv_qp_init_attr unused{};
    osd::lock_guard hold(q.lock);
    return q.handle != nullptr && ibv_query_qp(q.handle, &attr, IBV_QP_STATE, &unused) == 0 &&
           attr.qp_state == IBV_QPS_ERR;
}

/// Breaks the connections whose queue pairs the device has taken to the error state, as far as a
/// flushed completion shows it.
void break_flushed(hca &device) OSD_REQUIRES(device.lock)
{
    if (!device.flushed.exchange(false))
        return;
    for (cq *c = device.cqs.front(); c != nullptr; c = device.cqs.after(*c)) {
        if (!c->flushed.exchange(false))
            continue;
        for (qp *q = device.qps.front(); q != nullptr; q = device.qps.after(*q))
            if ((q->send_cq == c || q->recv_cq == c) && q->phase() == phase::live &&
                is_in_error_state(*q))
                break_connection(device, *q);
    }
}

/// A shared receive queue that failed gives its queue pairs no more receives.
void srq_failed(hca &device, srq &shared) OSD_REQUIRES(device.lock)
{
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: shared receive queue %p failed: its connections end",
             device.name, static_cast<void *>(&shared));
    for (qp *q = device.qps.front(); q != nullptr; q = device.qps.after(*q))
        if (q->shared == &shared)
            break_connection(device, *q);
}

void port_changed(const hca &device, int port, const char *how)
{
    if (port == device.port_number)
        dapl_log(DAPL_DBG_TYPE_WARN, "%s: port %d %s", device.name, port, how);
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

/// Calls `handle` with the port's object behind one of the device's, unless the port has let go of
/// it.
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
    case IBV_EVENT_SRQ_ERR:
        with_owner(device, event.element.srq->srq_context, srq_failed);
        break;
    case IBV_EVENT_PORT_ERR:
        port_changed(device, event.element.port_num, "is down");
        break;
    case IBV_EVENT_PORT_ACTIVE:
        port_changed(device, event.element.port_num, "is up");
        break;
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_GID_CHANGE:
        port_changed(device, event.element.port_num, "has another address");
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

/// Serves the connections that are due. Returns when to be called again at the latest.
std::int64_t attend_due(hca &device) OSD_REQUIRES(device.lock)
{
    if (device.tcp != nullptr)
        return serve_tcp(device);
    const std::int64_t now = osd::now_ns(); // what becomes due meanwhile waits for the next round
    while (connection_state *due = device.timers.pop_due(now))
        attend(device, static_cast<qp &>(*due));
    return device.timers.next_due();
}

void serve_event(hca &device, const void *tag) OSD_REQUIRES(device.lock)
{
    if (tag == &device.channel)
        while (take_cm_event(device)) {
        }
    else if (tag == &device.verbs)
        while (take_async_event(device)) {
        }
    else if (tag == &device.domains[0])
        serve_callbacks(device, device.domains[0]);
}

void serve_hca(void *argument)
{
    hca &device = *static_cast<hca *>(argument);
    osd::lock_guard hold(device.lock);
    while (!device.events.is_stopping(device.lock)) {
        const std::int64_t due_ns = attend_due(device);
        for (void *tag : device.events.wait(device.lock, due_ns))
            serve_event(device, tag);
        call_owners_of_deferred(device, device.domains[0]);
        break_flushed(device);
    }
}

} // namespace

void device_failed(hca &device)
{
    if (std::exchange(device.failed, true))
        return;
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: the device failed or was removed", device.name);
    for (qp *q = device.qps.front(); q != nullptr; q = device.qps.after(*q))
        lose_device(device, *q);
    device.run_upcall(&device, [&] { dapl_evd_un_async_error_callback(*device.owner); });
}

namespace {

bool watch_connections(hca &device)
{
    if (device.tcp != nullptr)
        return device.tcp->cm.open(device.address);
    return device.events.add(device.channel->fd, EPOLLIN, &device.channel);
}

} // namespace

bool start_service(hca &device)
{
    const bool ready = device.events.open() && start_domains(device) && watch_connections(device) &&
                       device.events.add(device.verbs->async_fd, EPOLLIN, &device.verbs) &&
                       device.events.start("dapl-verbs", serve_hca, &device);
    if (!ready)
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: starting the service threads failed: %s%s", device.name,
                 std::strerror(errno), osd::limit_text(errno).text);
    return ready;
}

void stop_service(hca &device)
{
    device.events.stop(device.lock);
    stop_domains(device); // no CQ is left: their threads make no more upcalls
}

} // namespace dapl::verbs::vrb
