// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections: the active side, the answer of the passive one, and their end.
#include "internal.hpp"

#include "dapl_line_limit.hpp"

#include <cerrno>
#include <utility>

namespace dapl::libfabric {

using namespace ofi;

namespace {

constexpr std::int64_t closing_tick_ns = 200'000;

line_limit strange_answers; // all adapters share these
line_limit failed_accepts;

/// The attempt failed.
void end_attempt(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    q.attempt.reset();
    drop_endpoint(device, q, phase::dead);
}

int connect_endpoint(qp &q, connect_attempt &attempt)
{
    const cm_frame message(cm_frame_header::request, attempt.data(), attempt.qualifier());
    osd::lock_guard hold(q.lock);
    return fi_connect(q.fid, attempt.peer(), message.bytes, message.size);
}

bool accept_on_endpoint(qp &q, const private_data &data)
{
    const cm_frame message(cm_frame_header::accept, data);
    osd::lock_guard hold(q.lock);
    return fi_accept(q.fid, message.bytes, message.size) == 0;
}

int start_attempt(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    const int error = open_endpoint(device, q, *device.info);
    if (error != 0)
        return error;
    follow_attempt(device, q, true);
    return connect_endpoint(q, *q.attempt);
}

/// The peer does not listen, or not yet, or has no room: repeats the request with back-off.
bool try_again(hca &device, qp &q, int error, bool put_off) OSD_REQUIRES(device.lock)
{
    const std::int64_t next = put_off                 ? q.attempt->next_try_later()
                              : error == ECONNREFUSED ? q.attempt->next_try()
                                                      : connect_attempt::never;
    if (next == connect_attempt::never)
        return false;
    drop_endpoint(device, q, phase::connecting);
    device.schedule(q, next);
    return true;
}

/// A try failed: repeats it later, or reports why it failed.
void attempt_failed(hca &device, qp &q, int error, const void *answer, std::size_t size)
    OSD_REQUIRES(device.lock)
{
    private_data data;
    const cm_frame_header *header = parse_frame(answer, size, data);
    const bool put_off = header != nullptr && header->kind == cm_frame_header::later;
    if ((put_off || size == 0) && try_again(device, q, error, put_off))
        return;
    end_attempt(device, q);
    if (header != nullptr && header->kind == cm_frame_header::reject_by_consumer)
        device.deliver_soon(q, DAT_CONNECTION_EVENT_PEER_REJECTED, data);
    else
        device.deliver_soon(q, connection_event_of_errno(error));
}

void end_connection(hca &device, qp &q, DAT_EVENT_NUMBER event) OSD_REQUIRES(device.lock)
{
    tear_down(device, q);
    q.cancel();
    device.deliver(q, event);
}

// ------------------------------------------------------------------------------- event queue

void connected(hca &device, qp &q, const void *answer, std::size_t size) OSD_REQUIRES(device.lock)
{
    private_data data;
    const phase state = q.phase();
    if (state == phase::connecting) {
        const cm_frame_header *header = parse_frame(answer, size, data);
        if (header == nullptr || header->kind != cm_frame_header::accept) {
            dapl_log_some(strange_answers, DAPL_DBG_TYPE_WARN,
                          "%s: the peer accepted without a DAPL header", device.name);
            end_attempt(device, q);
            device.deliver(q, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
            return;
        }
        q.attempt.reset();
        find_socket(q, device.connected_hint);
    } else if (state != phase::accepting) {
        return;
    }
    watch_hang_up(device, q);
    go_live(device, q);
    device.deliver(q, DAT_CONNECTION_EVENT_ESTABLISHED, data);
}

/// The endpoint of q failed or was shut, with this error or none.
void ended(hca &device, qp &q, int error, const void *answer, std::size_t size)
    OSD_REQUIRES(device.lock)
{
    switch (q.phase()) {
    case phase::connecting:
        attempt_failed(device, q, error != 0 ? error : ECONNRESET, answer, size);
        break;
    case phase::accepting:
        end_attempt(device, q);
        device.deliver(q, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
        break;
    case phase::live:
    case phase::closing:
        connection_lost(device, q);
        break;
    case phase::idle:
    case phase::dead:
        break;
    }
}

bool take_failure(hca &device) OSD_REQUIRES(device.lock)
{
    unsigned char answer[sizeof(cm_frame::bytes)];
    fi_eq_err_entry entry{};
    entry.err_data = answer;
    entry.err_data_size = sizeof(answer);
    if (fi_eq_readerr(device.eq, &entry, 0) <= 0)
        return false;
    if (entry.fid == nullptr || entry.fid->fclass != FI_CLASS_EP)
        return true;
    const bool answered = entry.err_data == answer; // left alone when nothing came
    ended(device, *static_cast<qp *>(entry.fid->context), entry.err, answer,
          answered ? entry.err_data_size : 0);
    return true;
}

bool take_event(hca &device) OSD_REQUIRES(device.lock)
{
    alignas(fi_eq_cm_entry) unsigned char bytes[sizeof(fi_eq_cm_entry) + sizeof(cm_frame::bytes)];
    std::uint32_t kind = 0;
    errno = 0; // libfabric looks at it where a connection ends, and may not close the socket
    const ssize_t got = fi_eq_read(device.eq, &kind, bytes, sizeof(bytes), 0);
    if (got == -FI_EAVAIL)
        return take_failure(device);
    if (got < static_cast<ssize_t>(sizeof(fi_eq_cm_entry)))
        return got >= 0;
    const auto &entry = *reinterpret_cast<const fi_eq_cm_entry *>(bytes);
    const std::size_t size = static_cast<std::size_t>(got) - sizeof(fi_eq_cm_entry);
    if (kind == FI_CONNREQ)
        connection_request(device, entry, size);
    else if (kind == FI_CONNECTED)
        connected(device, *static_cast<qp *>(entry.fid->context), entry.data, size);
    else if (kind == FI_SHUTDOWN)
        ended(device, *static_cast<qp *>(entry.fid->context), 0, nullptr, 0);
    return true;
}

} // namespace

namespace ofi {

std::uint32_t drain_events(hca &device, bool &starved)
{
    std::uint32_t calls = 1;
    while (take_event(device))
        ++calls;
    starved = lacks_resources(errno); // libfabric does not tell that accept failed
    return calls;
}

void break_connection(hca &device, qp &q)
{
    tear_down(device, q);
    device.deliver_later(q, DAT_CONNECTION_EVENT_BROKEN);
}

void connection_lost(hca &device, qp &q)
{
    tear_down(device, q); // its completions tell whether something failed
    const bool broken = q.broken.load(std::memory_order_relaxed);
    q.cancel();
    device.deliver(q, broken ? DAT_CONNECTION_EVENT_BROKEN : DAT_CONNECTION_EVENT_DISCONNECTED);
}

void abandon(hca &device, qp &q)
{
    end_attempt(device, q);
    q.forget_attempt();
}

namespace {

void attend_closing(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    const bool said = post_closing_marker(q);
    drain(*q.send_cq);
    if (said && !q.closing_marker_completed.load(std::memory_order_acquire) &&
        osd::now_ns() < q.close_by_ns)
        device.schedule(q, osd::now_ns() + closing_tick_ns);
    else
        end_connection(device, q, DAT_CONNECTION_EVENT_DISCONNECTED);
}

} // namespace

void attend(hca &device, qp &q)
{
    if (device.deliver_pending(q))
        return;
    if (q.attempt != nullptr) {
        const int error = start_attempt(device, q);
        if (error != 0)
            attempt_failed(device, q, -error, nullptr, 0);
    } else if (q.phase() == phase::closing) {
        attend_closing(device, q);
    }
}

} // namespace ofi

// ------------------------------------------------------------------------------- operations

namespace {

status begin_attempt(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    q.enter(phase::connecting);
    const int error = start_attempt(device, q);
    if (error != 0 && lacks_resources(-error)) {
        q.attempt.reset();
        drop_endpoint(device, q, phase::idle);
        return status_of_errno(-error);
    }
    if (error != 0)
        attempt_failed(device, q, -error, nullptr, 0);
    return success;
}

/// Moves what a request came on to an endpoint of q's.
int take_connection(hca &device, qp &q, request &asked) OSD_REQUIRES(device.lock)
{
    const int socket = asked.socket;
    stop_watching(device, asked);
    const int error = open_endpoint(device, q, *asked.info);
    if (error != 0)
        return error;
    if (socket < 0) {
        find_socket(q, device.accepted_hint);
    } else {
        osd::lock_guard hold(q.lock);
        q.socket = socket;
    }
    return 0;
}

} // namespace

status transport::dapls_ib_connect(qp &q, const connect_params &params)
{
    hca &device = *q.device;
    const connect_attempt::limits most{device.interface.address.ss_family, device.max_private_data,
                                       device.params.connect_retry_ms};
    std::unique_ptr<connect_attempt> attempt;
    const status made = connect_attempt::make(params, most, attempt);
    if (!made.ok())
        return made;
    osd::lock_guard hold(device.lock);
    q.attempt = std::move(attempt);
    return begin_attempt(device, q);
}

status transport::dapls_ib_accept_connection(cr &request, qp &q, const private_data &data)
{
    hca &device = *q.device;
    if (data.size > device.max_private_data)
        return invalid_parameter(3);
    osd::lock_guard hold(device.lock);
    const int error = request.pending->gone ? 0 : take_connection(device, q, *request.pending);
    if (error != 0) {
        dapl_log_some(failed_accepts, DAPL_DBG_TYPE_ERR, "%s: fi_endpoint for an accept failed: %s",
                      device.name, fi_strerror(-error));
        return status_of_errno(-error);
    }
    q.enter(phase::accepting);
    // libfabric would establish a connection whose peer is gone, and only then notice.
    if (request.pending->gone || hung_up(q) || !accept_on_endpoint(q, data)) {
        // The endpoint has the connection, so the request cannot be answered any more.
        end_attempt(device, q);
        device.deliver_later(q, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    }
    release_request(device, request);
    return success;
}

void transport::dapls_ib_disconnect(qp &q, DAT_CLOSE_FLAGS flags)
{
    hca &device = *q.device;
    osd::lock_guard hold(device.lock);
    const phase state = q.phase();
    if (state == phase::connecting || state == phase::accepting) {
        abandon(device, q);
        return;
    }
    const bool graceful = flags == DAT_CLOSE_GRACEFUL_FLAG;
    if (state != phase::live && (state != phase::closing || graceful))
        return;
    if (graceful && post_closing_marker(q)) {
        q.close_by_ns = ns_from_now(device.params.linger_ms);
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
    osd::lock_guard hold(device.lock);
    const phase state = q.phase();
    if (state == phase::live || state == phase::closing)
        tear_down(device, q);
    else if (state != phase::dead)
        end_attempt(device, q);
    q.forget_attempt();
}

} // namespace dapl::libfabric
