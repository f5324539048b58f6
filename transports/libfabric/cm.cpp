// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections: the active side, the answer of the passive one, and their end.
#include "internal.hpp"

#include "dapl_debug.hpp"
#include "osd_address.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <new>

namespace dapl::libfabric {

using namespace ofi;

namespace {

constexpr std::uint32_t first_delay_ms = 5;
constexpr std::uint32_t longest_delay_ms = 100;
constexpr std::int64_t closing_tick_ns = 200'000;
constexpr DAT_EVENT_NUMBER no_verdict{};

void tell(hca &device, qp &q, DAT_EVENT_NUMBER event, const private_data &data)
    OSD_REQUIRES(device.lock)
{
    dapl_log(DAPL_DBG_TYPE_CM, "%s: qp %p: connection event 0x%x", device.name,
             static_cast<void *>(&q), static_cast<unsigned>(event));
    device.upcalls.run(device.lock, &q,
                       [&] { dapl_evd_connection_callback(*q.owner, event, data); });
}

void conclude_later(hca &device, qp &q, DAT_EVENT_NUMBER event) OSD_REQUIRES(device.lock)
{
    q.verdict = event;
    schedule(device, q, 0);
}

/// The attempt came to nothing.
void end_attempt(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    delete q.trying;
    q.trying = nullptr;
    drop_endpoint(device, q, phase::dead);
}

int connect_endpoint(qp &q, const attempt &a)
{
    osd::lock_guard hold(q.lock);
    return fi_connect(q.fid, &a.address, a.bytes, a.size);
}

bool accept_on_endpoint(qp &q, const private_data &data)
{
    const cm_message message(cm_header::accept, data);
    osd::lock_guard hold(q.lock);
    return fi_accept(q.fid, message.bytes, message.size) == 0;
}

int start_attempt(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    const attempt &a = *q.trying;
    const int error = open_endpoint(device, q, *device.info);
    if (error != 0)
        return error;
    return connect_endpoint(q, a);
}

DAT_EVENT_NUMBER event_for(int error)
{
    switch (error) {
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case EADDRNOTAVAIL:
    case EINVAL: // what the system says of a loopback address that is to leave the host
        return DAT_CONNECTION_EVENT_UNREACHABLE;
    case ETIMEDOUT:
        return DAT_CONNECTION_EVENT_TIMED_OUT;
    default:
        return DAT_CONNECTION_EVENT_NON_PEER_REJECTED;
    }
}

/// Nobody listens there, or not yet: programs that exchange their addresses first may be early.
bool try_again(hca &device, qp &q, int error) OSD_REQUIRES(device.lock)
{
    attempt &a = *q.trying;
    const std::int64_t next = ns_from_now(a.delay_ms);
    if (error != ECONNREFUSED || next > a.give_up_ns)
        return false;
    a.delay_ms = std::min(2 * a.delay_ms, longest_delay_ms);
    drop_endpoint(device, q, phase::connecting);
    schedule(device, q, next);
    return true;
}

/// An attempt failed. Tells the consumer at once when this is the service thread.
void attempt_failed(hca &device, qp &q, int error, const void *answer, std::size_t size)
    OSD_REQUIRES(device.lock)
{
    private_data data;
    const cm_header *header = parse_message(answer, size, data);
    if (size == 0 && try_again(device, q, error))
        return;
    end_attempt(device, q);
    if (!device.events.is_current())
        conclude_later(device, q, event_for(error));
    else if (header != nullptr && header->kind == cm_header::reject_by_consumer)
        tell(device, q, DAT_CONNECTION_EVENT_PEER_REJECTED, data);
    else
        tell(device, q, event_for(error), {});
}

void end_connection(hca &device, qp &q, DAT_EVENT_NUMBER event) OSD_REQUIRES(device.lock)
{
    tear_down(device, q);
    q.cancel();
    tell(device, q, event, {});
}

// ------------------------------------------------------------------------------- event queue

void connected(hca &device, qp &q, const void *answer, std::size_t size) OSD_REQUIRES(device.lock)
{
    private_data data;
    const phase state = phase_of(q);
    if (state == phase::connecting) {
        const cm_header *header = parse_message(answer, size, data);
        if (header == nullptr || header->kind != cm_header::accept) {
            dapl_log(DAPL_DBG_TYPE_WARN, "%s: the peer is no DAPL libfabric port", device.name);
            end_attempt(device, q);
            tell(device, q, DAT_CONNECTION_EVENT_NON_PEER_REJECTED, {});
            return;
        }
        delete q.trying;
        q.trying = nullptr;
    } else if (state != phase::accepting) {
        return;
    }
    go_live(device, q);
    tell(device, q, DAT_CONNECTION_EVENT_ESTABLISHED, data);
}

/// The endpoint of q failed or was shut, with this error or none.
void ended(hca &device, qp &q, int error, const void *answer, std::size_t size)
    OSD_REQUIRES(device.lock)
{
    switch (phase_of(q)) {
    case phase::connecting:
        attempt_failed(device, q, error != 0 ? error : ECONNRESET, answer, size);
        break;
    case phase::accepting:
        end_attempt(device, q);
        tell(device, q, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR, {});
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
    unsigned char answer[sizeof(cm_message::bytes)];
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
    alignas(fi_eq_cm_entry) unsigned char bytes[sizeof(fi_eq_cm_entry) + sizeof(cm_message::bytes)];
    std::uint32_t kind = 0;
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

void drain_events(hca &device)
{
    while (take_event(device)) {
    }
}

void connection_lost(hca &device, qp &q)
{
    const bool ours = phase_of(q) == phase::closing;
    tear_down(device, q); // its completions tell whether something failed
    const bool broken = !ours && q.broken.load(std::memory_order_relaxed);
    q.cancel();
    tell(device, q, broken ? DAT_CONNECTION_EVENT_BROKEN : DAT_CONNECTION_EVENT_DISCONNECTED, {});
}

void abandon(hca &device, qp &q)
{
    end_attempt(device, q);
    q.verdict = no_verdict;
    q.cancel();
}

namespace {

void attend_closing(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    const bool said = say_last_word(q);
    harvest(*q.send_cq);
    if (said && !q.last_word_back.load(std::memory_order_acquire) && osd::now_ns() < q.close_by_ns)
        schedule(device, q, osd::now_ns() + closing_tick_ns);
    else
        end_connection(device, q, DAT_CONNECTION_EVENT_DISCONNECTED);
}

} // namespace

void attend(hca &device, qp &q)
{
    if (q.verdict != no_verdict) {
        const DAT_EVENT_NUMBER event = q.verdict;
        q.verdict = no_verdict;
        tell(device, q, event, {});
    } else if (q.trying != nullptr) {
        const int error = start_attempt(device, q);
        if (error != 0)
            attempt_failed(device, q, -error, nullptr, 0);
    } else if (phase_of(q) == phase::closing) {
        attend_closing(device, q);
    }
}

} // namespace ofi

// ------------------------------------------------------------------------------- operations

namespace {

attempt *new_attempt(const hca &device, const connect_params &params)
{
    auto *a = new (std::nothrow) attempt{};
    if (a == nullptr)
        return nullptr;
    osd::address to;
    (void)to.assign(params.address);
    std::memcpy(&a->address, to.get(), osd::address::size_of(to.get()));
    // sockaddr_in and sockaddr_in6 have the port at the same place.
    reinterpret_cast<sockaddr_in &>(a->address).sin_port = htons(port_of(params.qualifier));
    const std::uint64_t patience_us = std::min<std::uint64_t>(
        params.timeout_us, std::uint64_t{device.params.connect_retry_ms} * 1000);
    a->give_up_ns = osd::now_ns() + static_cast<std::int64_t>(patience_us) * 1000;
    a->delay_ms = first_delay_ms;
    const cm_message message(cm_header::request, params.data, params.qualifier);
    std::memcpy(a->bytes, message.bytes, message.size);
    a->size = message.size;
    return a;
}

bool lacks_resources(int error)
{
    return error == ENOMEM || error == EMFILE || error == ENFILE || error == ENOBUFS;
}

status begin_attempt(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    set_phase(device, q, phase::connecting);
    const int error = start_attempt(device, q);
    if (error != 0 && lacks_resources(-error)) {
        delete q.trying;
        q.trying = nullptr;
        drop_endpoint(device, q, phase::idle);
        return control_error(-error);
    }
    if (error != 0)
        attempt_failed(device, q, -error, nullptr, 0);
    return success;
}

} // namespace

status transport::dapls_ib_connect(qp &q, const connect_params &params)
{
    hca &device = *q.device;
    if (params.address->sa_family != device.address.ss_family)
        return status::error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED);
    if (port_of(params.qualifier) == 0)
        return invalid_parameter(3);
    if (params.data.size > device.max_private_data)
        return invalid_parameter(5);
    attempt *a = new_attempt(device, params);
    if (a == nullptr)
        return out_of_memory;
    osd::lock_guard hold(device.lock);
    q.trying = a;
    return begin_attempt(device, q);
}

status transport::dapls_ib_accept_connection(cr &request, qp &q, const private_data &data)
{
    hca &device = *q.device;
    if (data.size > device.max_private_data)
        return invalid_parameter(3);
    osd::lock_guard hold(device.lock);
    const int error = open_endpoint(device, q, *request.info);
    if (error != 0) {
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: no endpoint to accept with: %s", device.name,
                 fi_strerror(-error));
        return control_error(-error);
    }
    set_phase(device, q, phase::accepting);
    // libfabric would establish a connection whose peer is gone, and only then notice.
    if (hung_up(q) || !accept_on_endpoint(q, data)) {
        // The endpoint has the connection, so the request cannot be answered any more.
        end_attempt(device, q);
        conclude_later(device, q, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    }
    release_request(device, request);
    return success;
}

void transport::dapls_ib_disconnect(qp &q, DAT_CLOSE_FLAGS flags)
{
    hca &device = *q.device;
    osd::lock_guard hold(device.lock);
    const phase state = phase_of(q);
    if (state == phase::connecting || state == phase::accepting) {
        abandon(device, q);
        return;
    }
    const bool graceful = flags == DAT_CLOSE_GRACEFUL_FLAG;
    if (state != phase::live && (state != phase::closing || graceful))
        return;
    if (graceful && device.tcp_like && say_last_word(q)) {
        q.close_by_ns = ns_from_now(device.params.linger_ms);
        set_phase(device, q, phase::closing);
        schedule(device, q, 0);
        return;
    }
    tear_down(device, q);
    conclude_later(device, q, DAT_CONNECTION_EVENT_DISCONNECTED);
}

void transport::dapls_ib_disconnect_clean(qp &q)
{
    hca &device = *q.device;
    osd::lock_guard hold(device.lock);
    const phase state = phase_of(q);
    if (state == phase::live || state == phase::closing)
        tear_down(device, q);
    else if (state != phase::dead)
        end_attempt(device, q);
    q.verdict = no_verdict;
    q.cancel();
}

} // namespace dapl::libfabric
