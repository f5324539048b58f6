// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Passive endpoints and the requests that come in on them.
#include "internal.hpp"

#include "dapl_debug.hpp"

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace dapl::libfabric {

using namespace ofi;

namespace {

/// A connection that came in before the listener was removed may still have its request on the way,
/// and libfabric then uses the passive endpoint. No request takes that long.
constexpr std::uint32_t retirement_ms = 60'000;

void refuse(ofi::cr &request, cm_frame_header::kind_t kind, const private_data &data)
{
    const cm_frame message(kind, data);
    const int error =
        fi_reject(request.from->fid, request.info->handle, message.bytes, message.size);
    if (error != 0)
        dapl_log(DAPL_DBG_TYPE_WARN, "fi_reject failed: %s", fi_strerror(-error));
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
    if (error != 0)
        fi_close(&p.fid->fid);
    else
        find_socket(*p.fid);
    return error;
}

DAT_CONN_QUAL bound_port(passive &p)
{
    sockaddr_storage address{};
    std::size_t size = sizeof(address);
    (void)fi_getname(&p.fid->fid, &address, &size);
    return osd::address::port_of(reinterpret_cast<sockaddr *>(&address));
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
    fi_close(&ep->fid);
    return true;
}

void discard(passive &p)
{
    static_cast<all_link &>(p).unlink();
    fi_close(&p.fid->fid);
    delete &p;
}

} // namespace

namespace ofi {

void release_request(cr &request)
{
    fi_freeinfo(std::exchange(request.info, nullptr));
    --std::exchange(request.from, nullptr)->requests;
}

void close_passives(hca &device, std::int64_t retired_before)
{
    for (passive *p = device.passives.front(); p != nullptr;) {
        passive *next = device.passives.after(*p);
        if (p->retired_ns != 0 && p->retired_ns <= retired_before && p->requests == 0)
            discard(*p);
        p = next;
    }
}

void connection_request(hca &device, const fi_eq_cm_entry &event, std::size_t data_size)
{
    passive &p = *static_cast<passive *>(event.fid->context);
    cr request{&p, event.info};
    ++p.requests;
    cr_params params{};
    const cm_frame_header *header = parse_frame(event.data, data_size, params.data);
    bool taken = false;
    if (header == nullptr || header->kind != cm_frame_header::request) {
        dapl_log(DAPL_DBG_TYPE_WARN, "%s: refused a request that is not from a DAPL libfabric port",
                 device.name);
    } else if (p.owner != nullptr && qualifier_of(*header) == p.qualifier) {
        params.peer = static_cast<const DAT_SOCK_ADDR *>(event.info->dest_addr);
        params.peer_port = osd::address::port_of(params.peer);
        service_point &owner = *p.owner;
        device.run_upcall(&p, [&] { taken = dapls_cr_callback(owner, request, params); });
    }
    if (taken)
        return;
    refuse(request, cm_frame_header::reject_by_port, {});
    release_request(request);
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
    l.of = p;
    if (qualifier == 0)
        qualifier = bound_port(*p);
    p->qualifier = qualifier;
    return success;
}

void transport::dapls_ib_remove_conn_listener(listener &l)
{
    passive &p = *l.of;
    hca &device = *p.device;
    l.of = nullptr;
    if (device.foreign())
        return;
    osd::lock_guard hold(device.lock);
    p.owner = nullptr;
    p.retired_ns = osd::now_ns();
    const bool closed = device.tcp_like && close_socket_of(device, p);
    device.wait_quiet(&p);
    if (!closed && p.requests == 0)
        discard(p);
    close_passives(device, osd::now_ns() - std::int64_t{retirement_ms} * 1'000'000);
}

void transport::dapls_ib_reject_connection(cr &request, reject_reason reason,
                                           const private_data &data)
{
    hca &device = *request.from->device;
    osd::lock_guard hold(device.lock);
    refuse(request,
           reason == reject_reason::consumer ? cm_frame_header::reject_by_consumer
                                             : cm_frame_header::reject_by_port,
           data);
    release_request(request);
}

} // namespace dapl::libfabric
