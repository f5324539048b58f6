// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Passive endpoints and the requests that come in on them.
#include "internal.hpp"

#include "dapl_line_limit.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace dapl::libfabric {

using namespace ofi;

namespace {

/// A connection that came in before the listener was removed may still have its request on the way,
/// and libfabric then uses the passive endpoint. No request takes that long.
constexpr std::uint32_t retirement_ms = 60'000;

line_limit failed_refusals; // all adapters share these
line_limit strange_requests;

void refuse(const passive &p, fid_t handle, cm_frame_header::kind_t kind,
            const private_data &data = {})
{
    const cm_frame message(kind, data);
    const int error = fi_reject(p.fid, handle, message.bytes, message.size);
    if (error != 0)
        dapl_log_some(failed_refusals, DAPL_DBG_TYPE_WARN, "fi_reject failed: %s",
                      fi_strerror(-error));
}

/// Refuses a request that is watched. Its socket, which this closes, may be held open by a forked
/// child, or by a thread in a system call: `senders` would report it after the request is freed.
void refuse_watched(hca &device, request &r, cm_frame_header::kind_t kind,
                    const private_data &data = {}) OSD_REQUIRES(device.lock)
{
    stop_watching(device, r);
    refuse(*r.from, r.info->handle, kind, data);
}

int listen_on(hca &device, passive &p, std::uint16_t port) OSD_REQUIRES(device.lock)
{
    auto *const from = static_cast<sockaddr *>(device.info->src_addr);
    port_support::set_port(from, port);
    errno = 0;
    int error = fi_passive_ep(device.fabric, device.info, &p.fid, &p);
    if (error == -FI_EIO && lacks_resources(errno)) // tcp says this of any socket it does not get
        error = -errno;
    port_support::set_port(from, 0);
    if (error != 0)
        return error;
    error = fi_pep_bind(p.fid, &device.eq->fid, 0);
    if (error == 0)
        error = fi_listen(p.fid);
    std::size_t size = sizeof p.address;
    if (error == 0)
        error = fi_getname(&p.fid->fid, &p.address, &size);
    if (error != 0)
        fi_close(&p.fid->fid);
    else
        find_socket(p);
    return error;
}

/// Lets the port go but keeps the passive endpoint, by moving its socket to an endpoint that is
/// closed.
bool close_socket_of(hca &device, passive &p) OSD_REQUIRES(device.lock)
{
    fid_ep *ep = nullptr;
    fid_t before = device.info->handle;
    device.info->handle = &p.fid->fid;
    const int error = fi_endpoint(device.domain, device.info, &ep, nullptr);
    device.info->handle = before;
    if (error != 0)
        return false;
    (void)fi_ep_bind(ep, &device.eq->fid, 0); // keeps the event queue from watching the socket any
                                              // longer
    shut_socket(p);
    fi_close(&ep->fid);
    return true;
}

bool is_for(const hca &device, const passive &p, const cm_frame_header *header)
{
    const bool is_request = header != nullptr && header->kind == cm_frame_header::request;
    if (!is_request)
        dapl_log_some(strange_requests, DAPL_DBG_TYPE_WARN,
                      "%s: refused a request that is not from a DAPL libfabric port", device.name);
    return is_request && p.owner != nullptr && qualifier_of(*header) == p.qualifier;
}

/// Whether a request may wait for the consumer. libfabric bounds no backlog: the port does.
bool may_wait(hca &device, const sockaddr_storage &source) OSD_REQUIRES(device.lock)
{
    if (device.requests.count() < device.requests.most())
        return device.requests.has_share(source, "further requests of that address are put off");
    device.requests.say_crowded(source, "further ones are put off");
    return false;
}

/// Null where there is no room for it.
request *keep(hca &device, passive &p, fi_info &info) OSD_REQUIRES(device.lock)
{
    sockaddr_storage source{};
    std::memcpy(&source, info.dest_addr, std::min(info.dest_addrlen, sizeof source));
    auto *const kept = may_wait(device, source) ? new (std::nothrow) request : nullptr;
    if (kept == nullptr)
        return nullptr;
    kept->source = source;
    kept->from = &p;
    kept->info = &info;
    ++p.requests;
    device.requests.add(*kept);
    find_socket(*kept, device.accepted_hint);
    if (kept->socket >= 0)
        (void)device.senders.add(kept->socket, EPOLLRDHUP, kept);
    return kept;
}

void offer(hca &device, passive &p, fi_info &info, cr_params &params) OSD_REQUIRES(device.lock)
{
    cr made{keep(device, p, info)};
    if (made.pending == nullptr) {
        refuse(p, info.handle, cm_frame_header::later); // its sender repeats it
        return fi_freeinfo(&info);
    }
    params.peer = static_cast<const DAT_SOCK_ADDR *>(info.dest_addr);
    params.peer_port = osd::address::port_of(params.peer);
    service_point &owner = *p.owner;
    bool taken = false;
    device.run_upcall(&p, [&] { taken = dapls_cr_callback(owner, made, params); });
    if (taken)
        return;
    refuse_watched(device, *made.pending, cm_frame_header::reject_by_port);
    release_request(device, made);
}

void stop_listening(hca &device, passive &p) OSD_REQUIRES(device.lock)
{
    if (std::exchange(p.listens, false))
        --device.silent.listeners;
}

void discard(hca &device, passive &p) OSD_REQUIRES(device.lock)
{
    if (p.listens)
        shut_socket(p);
    stop_listening(device, p);
    static_cast<all_link &>(p).unlink();
    fi_close(&p.fid->fid);
    delete &p;
}

} // namespace

namespace ofi {

void stop_watching(hca &device, request &r)
{
    if (r.socket >= 0)
        device.senders.remove(std::exchange(r.socket, -1));
}

void release_request(hca &device, cr &answered)
{
    const std::unique_ptr<request> r(std::exchange(answered.pending, nullptr));
    if (!r->gone)
        device.requests.remove(*r);
    fi_freeinfo(r->info);
    --r->from->requests;
}

void forget_gone(hca &device)
{
    void *gone[port_support::epoll_set::batch];
    const std::size_t count = device.senders.collect(gone);
    for (std::size_t i = 0; i < count; ++i) {
        request &r = *static_cast<request *>(gone[i]);
        refuse_watched(device, r, cm_frame_header::reject_by_port);
        device.requests.remove(r);
        r.gone = true;
    }
}

void close_passives(hca &device, std::int64_t retired_before)
{
    for (passive *p = device.passives.front(); p != nullptr;) {
        passive *next = device.passives.after(*p);
        if (p->retired_ns != 0 && p->retired_ns <= retired_before && p->requests == 0)
            discard(device, *p);
        p = next;
    }
}

void connection_request(hca &device, const fi_eq_cm_entry &event, std::size_t data_size)
{
    passive &p = *static_cast<passive *>(event.fid->context);
    cr_params params{};
    const cm_frame_header *header = parse_frame(event.data, data_size, params.data);
    if (is_for(device, p, header))
        offer(device, p, *event.info, params);
    else {
        refuse(p, event.info->handle, cm_frame_header::reject_by_port);
        fi_freeinfo(event.info);
    }
}

} // namespace ofi

status transport::dapls_ib_setup_conn_listener(hca &device, listener &l, service_point &owner,
                                               DAT_CONN_QUAL &qualifier)
{
    if (qualifier != 0 && port_of(qualifier) == 0)
        return invalid_parameter(2);
    auto *p = new (std::nothrow) passive;
    if (p == nullptr)
        return out_of_memory;
    p->device = &device;
    p->owner = &owner;
    osd::lock_guard hold(device.lock);
    const int error = listen_on(device, *p, port_of(qualifier));
    if (error != 0) {
        delete p;
        return listen_failed(device.name, "fi_listen", port_of(qualifier), -error);
    }
    device.passives.push(*p);
    p->listens = true;
    ++device.silent.listeners;
    l.pep = p;
    if (qualifier == 0)
        qualifier = osd::address::port_of(reinterpret_cast<const sockaddr *>(&p->address));
    p->qualifier = qualifier;
    return success;
}

void transport::dapls_ib_remove_conn_listener(listener &l)
{
    passive &p = *l.pep;
    hca &device = *p.device;
    l.pep = nullptr;
    if (device.foreign())
        return;
    osd::lock_guard hold(device.lock);
    p.owner = nullptr;
    p.retired_ns = osd::now_ns();
    const bool closed = close_socket_of(device, p);
    if (closed)
        stop_listening(device, p);
    device.wait_quiet(&p);
    if (!closed && p.requests == 0)
        discard(device, p);
    close_passives(device, osd::now_ns() - std::int64_t{retirement_ms} * 1'000'000);
}

void transport::dapls_ib_reject_connection(cr &request, reject_reason reason,
                                           const private_data &data)
{
    ofi::request &asked = *request.pending;
    hca &device = *asked.from->device;
    osd::lock_guard hold(device.lock);
    if (!asked.gone)
        refuse_watched(device, asked,
                       reason == reject_reason::consumer ? cm_frame_header::reject_by_consumer
                                                         : cm_frame_header::reject_by_port,
                       data);
    release_request(device, request);
}

} // namespace dapl::libfabric
