// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections: the active side, the answer of the passive one, and their end.
#include "internal.hpp"
#include "pipe_signal.hpp"
#include "tcp.hpp"

#include "dapl_debug.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace dapl::verbs {

using namespace vrb;

namespace {

constexpr std::int64_t closing_tick_ns = 1'000'000;
constexpr std::int64_t settling_tick_ns = 100'000;

// Reasons of an InfiniBand reject.
constexpr int no_listener = 8;
constexpr int stale_connection = 10; // the number of a queue pair came back into use too early

/// Ends the attempt or the connection of q with this event.
void conclude(hca &device, qp &q, DAT_EVENT_NUMBER event, const private_data &data = {})
    OSD_REQUIRES(device.lock)
{
    tear_down(device, q);
    device.deliver_soon(q, event, data);
}

// ------------------------------------------------------------------------------- the queue pair

bool move_queue_pair(qp &q, rdma_cm_id *id, ibv_qp_state state, const read_depths &reads)
{
    constexpr int bits_of_the_kernel = 0xf << 21; // some kernels let them out; verbs does not know
    ibv_qp_attr attr{};
    int mask = 0;
    attr.qp_state = state;
    if (rdma_init_qp_attr(id, &attr, &mask) != 0) { // the peer may have given up
        dapl_log(DAPL_DBG_TYPE_CM, "%s: qp %p: rdma_init_qp_attr failed: %s", q.device->name,
                 static_cast<void *>(&q), std::strerror(errno));
        return false;
    }
    mask &= ~bits_of_the_kernel;
    attr.qp_access_flags = peer_rights(*q.device);
    attr.max_dest_rd_atomic = reads.in;
    attr.max_rd_atomic = reads.out;
    set_retries(q.device->params, attr);
    osd::lock_guard hold(q.lock);
    return modify(q, attr, mask);
}

/// Makes the queue pair ready for what the connection manager agreed on. With iWARP the kernel does
/// that itself.
bool ready_queue_pair(qp &q, rdma_cm_id *id, const read_depths &reads)
{
    return q.device->iwarp || (move_queue_pair(q, id, IBV_QPS_INIT, reads) &&
                               move_queue_pair(q, id, IBV_QPS_RTR, reads) &&
                               move_queue_pair(q, id, IBV_QPS_RTS, reads));
}

rdma_conn_param parameters(qp &q, const read_depths &reads, const cm_message &message)
{
    rdma_conn_param out{};
    out.private_data = message.bytes;
    out.private_data_len = message.size;
    out.responder_resources = reads.in;
    out.initiator_depth = reads.out;
    out.flow_control = message.flow_control;
    out.retry_count = static_cast<std::uint8_t>(q.device->params.ack_retry);
    out.srq = q.shared != nullptr;
    out.rnr_retry_count = static_cast<std::uint8_t>(q.device->params.rnr_retry);
    osd::lock_guard hold(q.lock);
    out.qp_num = q.handle->qp_num;
    return out;
}

// ------------------------------------------------------------------------------- attempts

/// Destroys a released connection as soon as that does not block for the peer.
void destroy_when_answered(hca &device, connection &c) OSD_REQUIRES(device.lock)
{
    if (c.unanswered)
        c.leaving = true;
    else
        close_connection(device, c);
}

// Each returns an errno, or 0.

int resolve_address(hca &device, qp &q, connection &c)
{
    sockaddr_storage from = device.address;
    const auto timeout = static_cast<int>(device.params.arp_timeout_ms);
    return rdma_resolve_addr(c.id, plain(from), q.attempt->peer(), timeout) == 0 ? 0 : errno;
}

int resolve_route(hca &device, connection &c)
{
    const auto timeout = static_cast<int>(device.params.route_timeout_ms);
    return rdma_resolve_route(c.id, timeout) == 0 ? 0 : errno;
}

/// Sets the class of both directions, before the route is resolved: on Ethernet that of the
/// packets, on InfiniBand the one by which the subnet manager chooses a service level.
int set_class(const qp &q, const connection &c)
{
    std::uint8_t tos = traffic_class_of(q);
    if (tos == 0)
        return 0;
    const int error =
        rdma_set_option(c.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)) == 0 ? 0
                                                                                          : errno;
    return q.qos != DAT_QOS_BEST_EFFORT ? error : 0;
}

/// Starts from the beginning: looks for the peer's address.
int start_attempt(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    auto *c = new (std::nothrow) connection;
    if (c == nullptr)
        return ENOMEM;
    c->device = &device;
    if (rdma_create_id(device.channel, &c->id, c, RDMA_PS_TCP) != 0) {
        delete c;
        return errno;
    }
    device.connections.push(*c);
    c->pair = &q;
    c->retries = device.params.arp_retry;
    q.link_up = c;
    const int error = set_class(q, *c);
    return error != 0 ? error : resolve_address(device, q, *c);
}

DAT_EVENT_NUMBER event_for(int error)
{
    switch (error) {
    case ETIMEDOUT:
        return DAT_CONNECTION_EVENT_TIMED_OUT;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPROTO:
        return DAT_CONNECTION_EVENT_NON_PEER_REJECTED;
    default:
        return DAT_CONNECTION_EVENT_UNREACHABLE;
    }
}

/// The peer does not listen, or not yet: repeats the request with back-off.
bool try_again(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    const std::int64_t next = q.attempt->next_try();
    if (next == connect_attempt::never)
        return false;
    close_connection(device, *std::exchange(q.link_up, nullptr));
    device.schedule(q, next);
    return true;
}

/// A call that is a step of the attempt failed with this errno.
void step_failed(hca &device, qp &q, const char *call, int error) OSD_REQUIRES(device.lock)
{
    if (error == ECONNREFUSED && try_again(device, q))
        return;
    dapl_log(DAPL_DBG_TYPE_CM, "%s: qp %p: %s failed: %s", device.name, static_cast<void *>(&q),
             call, std::strerror(error));
    conclude(device, q, event_for(error));
}

bool is_our_device(const hca &device, const rdma_cm_id *id)
{
    return id->verbs != nullptr &&
           std::strcmp(ibv_get_device_name(id->verbs->device), device.name) == 0;
}

void address_found(hca &device, qp &q, connection &c) OSD_REQUIRES(device.lock)
{
    c.retries = device.params.route_retry;
    if (!is_our_device(device, c.id)) {
        dapl_log(DAPL_DBG_TYPE_CM, "%s: the peer is reachable only through another RDMA device",
                 device.name);
        conclude(device, q, DAT_CONNECTION_EVENT_UNREACHABLE);
    } else if (const int error = resolve_route(device, c); error != 0) {
        step_failed(device, q, "rdma_resolve_route", error);
    }
}

void route_found(hca &device, qp &q, connection &c) OSD_REQUIRES(device.lock)
{
    const cm_message message = request_message(device, q.attempt->data(), q.attempt->qualifier());
    rdma_conn_param wanted = parameters(q, wanted_reads(q), message);
    // siw blocks for TCP here; the attempt may be abandoned before it returns.
    c.unanswered = true;
    device.lock.unlock();
    const int error = rdma_connect(c.id, &wanted) == 0 ? 0 : errno;
    device.lock.lock();
    c.unanswered = device.iwarp && error == 0;
    if (c.pair == nullptr)
        destroy_when_answered(device, c);
    else if (error != 0)
        step_failed(device, *c.pair, "rdma_connect", error);
}

/// Resolution uses messages that may be lost, so a time-out is retried.
void not_found(hca &device, qp &q, connection &c, const cm_event &event) OSD_REQUIRES(device.lock)
{
    const bool route = event.event == RDMA_CM_EVENT_ROUTE_ERROR;
    if (event.status == -ETIMEDOUT && c.retries-- > 0 &&
        (route ? resolve_route(device, c) : resolve_address(device, q, c)) == 0)
        return;
    dapl_log(DAPL_DBG_TYPE_CM, "%s: %s to the peer failed: %s", device.name,
             route ? "rdma_resolve_route" : "rdma_resolve_addr",
             std::strerror(std::abs(event.status)));
    conclude(device, q, DAT_CONNECTION_EVENT_UNREACHABLE);
}

void rejected(hca &device, qp &q, const cm_event &event) OSD_REQUIRES(device.lock)
{
    private_data data;
    const std::optional<reject_reason> reason = read_reject(event, data);
    const bool early = device.iwarp
                           ? event.status == -ECONNREFUSED
                           : event.status == no_listener || event.status == stale_connection;
    if (!reason && early && try_again(device, q))
        return;
    dapl_log(DAPL_DBG_TYPE_CM, "%s: qp %p: rejected, status %d", device.name,
             static_cast<void *>(&q), event.status);
    if (reason == reject_reason::consumer)
        conclude(device, q, DAT_CONNECTION_EVENT_PEER_REJECTED, data);
    else
        conclude(device, q, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
}

void go_live(hca &device, qp &q, const private_data &data) OSD_REQUIRES(device.lock)
{
    q.attempt.reset();
    q.enter(phase::live);
    device.deliver(q, DAT_CONNECTION_EVENT_ESTABLISHED, data);
}

/// The reply is in flight; the peer should have it before any message. It tells that it has, if it
/// can.
void settle(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    const std::int64_t now = osd::now_ns();
    if (now >= q.settled_at_ns || is_peer_ready(q))
        go_live(device, q, {});
    else if (q.ready != nullptr)
        device.schedule(q, std::min(now + settling_tick_ns, q.settled_at_ns));
    else
        device.schedule(q, q.settled_at_ns);
}

void accepted(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    q.settled_at_ns = ns_from_now(device.params.settle_ms);
    settle(device, q);
}

/// The reply of an InfiniBand peer, which waits for our ready-to-use message.
void answered(hca &device, qp &q, connection &c, const cm_event &event) OSD_REQUIRES(device.lock)
{
    const read_depths reads =
        agreed_reads(q, event.param.conn.responder_resources, event.param.conn.initiator_depth);
    const bool ready = ready_queue_pair(q, c.id, reads);
    if (ready && rdma_establish(c.id) == 0) {
        go_live(device, q, read_accept(device, event));
        return;
    }
    if (ready)
        dapl_log(DAPL_DBG_TYPE_CM, "%s: qp %p: rdma_establish failed: %s", device.name,
                 static_cast<void *>(&q), std::strerror(errno));
    (void)rdma_reject(c.id, nullptr, 0);
    conclude(device, q, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
}

// ------------------------------------------------------------------------------- the end

void connection_lost(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    tear_down(device, q); // its completions show whether something failed
    device.deliver(q, q.broken ? DAT_CONNECTION_EVENT_BROKEN : DAT_CONNECTION_EVENT_DISCONNECTED);
}

/// The connection was established before it ended: ESTABLISHED is delivered first.
void end_early(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    device.schedule(q, 0);
    go_live(device, q, {});
}

/// Whether the connection that is being accepted stood before it ended. With InfiniBand only a peer
/// that had our reply disconnects; its ready-to-use message may be lost, or come later.
bool stood(const qp &q, const cm_event &event)
{
    return q.is_scheduled() || (!q.device->iwarp && event.event == RDMA_CM_EVENT_DISCONNECTED);
}

/// An iWARP peer has the request, over TCP, and has not answered it for as long as the kernel
/// waits.
bool is_unanswered(const hca &device, const cm_event &event)
{
    return device.iwarp && event.status == -ETIMEDOUT;
}

/// The connection, or the attempt at one, ended.
void ended(hca &device, qp &q, const cm_event &event) OSD_REQUIRES(device.lock)
{
    switch (q.phase()) {
    case phase::connecting:
        if (event.event == RDMA_CM_EVENT_REJECTED)
            rejected(device, q, event);
        else if (event.event == RDMA_CM_EVENT_UNREACHABLE && is_unanswered(device, event))
            conclude(device, q, DAT_CONNECTION_EVENT_TIMED_OUT);
        else if (event.event == RDMA_CM_EVENT_UNREACHABLE ||
                 event.event == RDMA_CM_EVENT_DEVICE_REMOVAL)
            conclude(device, q, DAT_CONNECTION_EVENT_UNREACHABLE);
        else
            conclude(device, q, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
        break;
    case phase::accepting:
        if (stood(q, event))
            end_early(device, q);
        else
            conclude(device, q, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
        break;
    case phase::live:
    case phase::closing:
        q.broken |= event.event == RDMA_CM_EVENT_DEVICE_REMOVAL;
        connection_lost(device, q);
        break;
    case phase::idle:
    case phase::dead:
        break;
    }
}

// ------------------------------------------------------------------------------- events

/// An event for a connection that has no queue pair.
void late_event(hca &device, connection &c, const cm_event &event) OSD_REQUIRES(device.lock)
{
    if (c.leaving)
        close_connection(device, c);
    else if (event.event != RDMA_CM_EVENT_ESTABLISHED)
        c.gone = true; // a request whose sender gave up before it was answered
}

void connection_event(hca &device, connection &c, const cm_event &event) OSD_REQUIRES(device.lock)
{
    c.unanswered = false;
    if (c.pair == nullptr) {
        late_event(device, c, event);
        return;
    }
    qp &q = *c.pair;
    switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        address_found(device, q, c);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        route_found(device, q, c);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        not_found(device, q, c, event);
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        answered(device, q, c, event);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        q.reads_out = device.siw ? event.param.conn.initiator_depth : 0;
        if (q.phase() == phase::connecting) {
            if (const ready_place place = place_in(device, event); place.key != 0)
                tell_ready(device, q, place);
            go_live(device, q, read_accept(device, event));
        }
        if (q.phase() == phase::accepting)
            accepted(device, q);
        break;
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        c.gone = true;
        ended(device, q, event);
        break;
    default:
        break;
    }
}

/// InfiniBand forgets a connection whose end the peer began and we have confirmed: there is no
/// other event for it.
void forget_confirmed(hca &device, connection &c) OSD_REQUIRES(device.lock)
{
    if (c.pair == nullptr && c.leaving)
        close_connection(device, c);
}

/// The device is removed. Each identifier gets an event, listeners too.
void device_removed(hca &device, const cm_event &event) OSD_REQUIRES(device.lock)
{
    connection *c = device.connections.front();
    while (c != nullptr && c->id != event.id)
        c = device.connections.after(*c);
    if (c != nullptr)
        connection_event(device, *c, event);
    device_failed(device);
}

cm_event copy_of(const rdma_cm_event &raw)
{
    cm_event event{raw, {}};
    if (raw.param.conn.private_data != nullptr)
        std::memcpy(event.bytes, raw.param.conn.private_data, event.size());
    return event;
}

const char *name_of(ibv_qp_state state)
{
    return state == IBV_QPS_INIT ? "INIT" : state == IBV_QPS_RTR ? "RTR" : "RTS";
}

} // namespace

namespace vrb {

std::uint8_t traffic_class_of(const qp &q)
{
    const adapter_params &params = q.device->params;
    return static_cast<std::uint8_t>(q.qos != DAT_QOS_BEST_EFFORT ? params.class_of(q.qos)
                                                                  : params.type_of_service);
}

void set_retries(const adapter_params &tuned, ibv_qp_attr &attr)
{
    attr.min_rnr_timer = static_cast<std::uint8_t>(tuned.rnr_timer);
    attr.rnr_retry = static_cast<std::uint8_t>(tuned.rnr_retry);
    attr.retry_cnt = static_cast<std::uint8_t>(tuned.ack_retry);
    if (tuned.ack_timer != 0)
        attr.timeout = static_cast<std::uint8_t>(tuned.ack_timer);
}

bool modify(qp &q, ibv_qp_attr &attr, int mask)
{
    const int error = q.handle != nullptr ? ibv_modify_qp(q.handle, &attr, mask) : ENODEV;
    if (error != 0)
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: qp %p: ibv_modify_qp to %s failed: %s", q.device->name,
                 static_cast<void *>(&q), name_of(attr.qp_state), std::strerror(std::abs(error)));
    return error == 0;
}

read_depths wanted_reads(const qp &q)
{
    return {static_cast<std::uint8_t>(std::min(q.params.max_rdma_read_in, 254)),
            static_cast<std::uint8_t>(std::min(q.params.max_rdma_read_out, 254))};
}

read_depths agreed_reads(const qp &q, std::uint8_t peer_wants, std::uint8_t peer_lets)
{
    read_depths reads = wanted_reads(q);
    const bool silent = q.device->iwarp && peer_wants == 0 && peer_lets == 0;
    if (!silent)
        reads = {std::min(reads.in, peer_wants), std::min(reads.out, peer_lets)};
    return reads;
}

bool take_cm_event(hca &device)
{
    rdma_cm_event *raw = nullptr;
    if (rdma_get_cm_event(device.channel, &raw) != 0)
        return false;
    // Given back at once: destroying an identifier waits for its events.
    const cm_event event = copy_of(*raw);
    rdma_ack_cm_event(raw);
    dapl_log(DAPL_DBG_TYPE_CM, "%s: id %p: %s, status %d", device.name,
             static_cast<void *>(event.id), rdma_event_str(event.event), event.status);
    switch (event.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        connection_request(device, event);
        break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        device_removed(device, event);
        break;
    case RDMA_CM_EVENT_ADDR_CHANGE:
        break;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        forget_confirmed(device, *static_cast<connection *>(event.id->context));
        break;
    default:
        connection_event(device, *static_cast<connection *>(event.id->context), event);
        break;
    }
    return true;
}

void close_connection(hca &device, connection &c)
{
    static_cast<all_link &>(c).unlink();
    rdma_destroy_id(c.id);
    destroy_rest(device, c.rest);
    delete &c;
}

void release_connection(hca &device, qp &q)
{
    q.forget_attempt();
    connection *c = std::exchange(q.link_up, nullptr);
    if (c == nullptr)
        return;
    c->pair = nullptr;
    if (device.iwarp && c->unanswered)
        q.heir = c;
    // An iWARP kernel confirms nothing to a peer that has ended the connection.
    const bool confirms = !device.iwarp || !c->gone;
    if (q.is_established() && confirms && rdma_disconnect(c->id) == 0)
        c->leaving = true; // stays until the peer has confirmed it
    else
        destroy_when_answered(device, *c);
}

void break_connection(hca &device, qp &q)
{
    if (!q.is_established())
        return;
    if (device.tcp != nullptr)
        return end_by_tcp(device, q,
                          q.phase() == phase::closing ? DAT_CONNECTION_EVENT_DISCONNECTED
                                                      : DAT_CONNECTION_EVENT_BROKEN);
    q.broken = true;
    q.close_after_ns = q.close_by_ns = 0;
    device.schedule(q, 0);
}

namespace {

/// Ends the attempt by an event that the service thread delivers.
void end_attempt(hca &device, qp &q, DAT_EVENT_NUMBER event) OSD_REQUIRES(device.lock)
{
    if (device.tcp != nullptr)
        return end_by_tcp(device, q, event);
    tear_down(device, q);
    device.deliver_later(q, event);
}

} // namespace

void lose_device(hca &device, qp &q)
{
    switch (q.phase()) {
    case phase::connecting:
        end_attempt(device, q, DAT_CONNECTION_EVENT_UNREACHABLE);
        break;
    case phase::accepting:
        end_attempt(device, q, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
        break;
    case phase::live:
    case phase::closing:
        break_connection(device, q);
        break;
    case phase::idle:
        tear_down(device, q);
        break;
    case phase::dead:
        break;
    }
}

namespace {

void attend_attempt(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    const int error = start_attempt(device, q);
    if (error != 0)
        step_failed(device, q, "rdma_resolve_addr", error);
}

void attend_closing(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    const std::int64_t now = osd::now_ns();
    if (now < q.close_after_ns)
        device.schedule(q, q.close_after_ns);
    else if (!closing_marker_completed(q) && now < q.close_by_ns)
        device.schedule(q, now + (q.asks_to_close ? settling_tick_ns : closing_tick_ns));
    else
        conclude(device, q, DAT_CONNECTION_EVENT_DISCONNECTED);
}

} // namespace

void attend(hca &device, qp &q)
{
    if (device.deliver_pending(q))
        return;
    switch (q.phase()) {
    case phase::connecting:
        attend_attempt(device, q);
        break;
    case phase::accepting:
        settle(device, q);
        break;
    case phase::live: // is scheduled by its end only
        connection_lost(device, q);
        break;
    case phase::closing:
        attend_closing(device, q);
        break;
    case phase::idle:
    case phase::dead:
        break;
    }
}

} // namespace vrb

// ------------------------------------------------------------------------------- operations

namespace {

status begin_attempt(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    q.enter(phase::connecting);
    const int error = start_attempt(device, q);
    if (error != 0 && lacks_resources(error)) {
        release_connection(device, q);
        q.enter(phase::idle);
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: rdma_resolve_addr failed: %s", device.name,
                 std::strerror(error));
        return status_of_errno(error);
    }
    if (error != 0)
        step_failed(device, q, "rdma_resolve_addr", error);
    return success;
}

/// Returns false when the request cannot be answered any more.
bool answer(hca &device, qp &q, connection &c, const private_data &data) OSD_REQUIRES(device.lock)
{
    const read_depths reads = agreed_reads(q, c.peer_reads_out, c.peer_reads_in);
    if (c.gone || !ready_queue_pair(q, c.id, reads))
        return false;
    q.ready = nullptr;
    const ready_place place = c.tells_ready ? await_ready(device, q) : ready_place{};
    const cm_message message = accept_message(device, data, place);
    rdma_conn_param agreed = parameters(q, reads, message);
    if (rdma_accept(c.id, &agreed) == 0) {
        c.unanswered = q.device->iwarp;
        return true;
    }
    dapl_log(DAPL_DBG_TYPE_CM, "%s: qp %p: rdma_accept failed, the requester may have given up: %s",
             q.device->name, static_cast<void *>(&q), std::strerror(errno));
    return false;
}

} // namespace

status transport::dapls_ib_connect(qp &q, const connect_params &params)
{
    hca &device = *q.device;
    if (device.tcp != nullptr)
        return connect_by_tcp(q, params);
    const connect_attempt::limits most{device.address.ss_family,
                                       request_room(device, params.qualifier),
                                       device.params.connect_retry_ms};
    std::unique_ptr<connect_attempt> attempt;
    const status made = connect_attempt::make(params, most, attempt);
    if (!made.ok())
        return made;
    const port_support::pipe_signal_hold no_sigpipe(device.siw);
    osd::lock_guard hold(device.lock);
    if (device.failed) {
        tear_down(device, q);
        device.deliver_later(q, DAT_CONNECTION_EVENT_UNREACHABLE);
        return success;
    }
    q.attempt = std::move(attempt);
    q.qos = params.qos;
    return begin_attempt(device, q);
}

status transport::dapls_ib_accept_connection(cr &request, qp &q, const private_data &data)
{
    hca &device = *q.device;
    if (device.tcp != nullptr)
        return accept_by_tcp(request, q, data);
    if (data.size > device.max_private_data)
        return invalid_parameter(3);
    const port_support::pipe_signal_hold no_sigpipe(device.siw);
    osd::lock_guard hold(device.lock);
    connection &c = *std::exchange(request.from, nullptr);
    c.pair = &q;
    q.link_up = &c;
    q.qos = DAT_QOS_BEST_EFFORT;
    q.enter(phase::accepting);
    if (device.failed || !answer(device, q, c, data)) {
        tear_down(device, q);
        device.deliver_later(q, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    }
    return success;
}

void transport::dapls_ib_disconnect(qp &q, DAT_CLOSE_FLAGS flags)
{
    hca &device = *q.device;
    if (device.tcp != nullptr)
        return device.tcp->cm.disconnect(q, flags);
    const port_support::pipe_signal_hold no_sigpipe(device.siw);
    osd::lock_guard hold(device.lock);
    const phase state = q.phase();
    const bool graceful = flags == DAT_CLOSE_GRACEFUL_FLAG;
    if (state != phase::live && (state != phase::closing || graceful))
        return;
    const bool ended = state == phase::live && q.is_scheduled();
    const bool settles = state == phase::live && device.params.settle_ms != 0;
    if ((graceful || settles) && !ended && post_closing_marker(q)) {
        const std::int64_t settled = ns_from_now(device.params.settle_ms);
        q.close_after_ns = q.asks_to_close ? 0 : settled;
        q.close_by_ns = graceful ? ns_from_now(device.params.linger_ms) : settled;
        q.enter(phase::closing);
        device.schedule(q, 0);
        return;
    }
    tear_down(device, q);
    device.deliver_later(q, DAT_CONNECTION_EVENT_DISCONNECTED);
}

void transport::dapls_ib_disconnect_clean(qp &q)
{
    hca &device = *q.device;
    if (device.tcp != nullptr)
        return device.tcp->cm.disconnect_clean(q);
    const port_support::pipe_signal_hold no_sigpipe(device.siw);
    osd::lock_guard hold(device.lock);
    tear_down(device, q);
}

} // namespace dapl::verbs
