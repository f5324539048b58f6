// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Listeners and the requests that come in on them.
#include "internal.hpp"
#include "pipe_signal.hpp"
#include "tcp.hpp"

#include "dapl_debug.hpp"

#include <cerrno>
#include <cstring>
#include <new>

namespace dapl::verbs {

using namespace vrb;

namespace {

constexpr int backlog = 1024; ///< requests that are not yet answered

void refuse(hca &device, connection &c, reject_reason reason, const private_data &data)
    OSD_REQUIRES(device.lock)
{
    const cm_message message = reject_message(reason, data);
    if (!c.gone && rdma_reject(c.id, message.bytes, message.size) != 0)
        dapl_log(DAPL_DBG_TYPE_CM, "%s: rdma_reject failed, the requester may have given up: %s",
                 device.name, std::strerror(errno));
    close_connection(device, c);
}

status listen_on(hca &device, vrb::listener &l, std::uint16_t port)
{
    if (rdma_create_id(device.channel, &l.id, &l, RDMA_PS_TCP) != 0)
        return call_failed(device.name, "rdma_create_id", errno);
    sockaddr_storage address = device.address;
    port_support::set_port(plain(address), port);
    const bool bound = rdma_bind_addr(l.id, plain(address)) == 0;
    if (bound && rdma_listen(l.id, backlog) == 0)
        return success;
    const int error = errno;
    rdma_destroy_id(l.id);
    return listen_failed(device.name, bound ? "rdma_listen" : "rdma_bind_addr", port, error);
}

connection *new_request(hca &device, const cm_event &event)
{
    auto *c = new (std::nothrow) connection;
    if (c == nullptr)
        return nullptr;
    c->device = &device;
    c->id = event.id;
    c->id->context = c;
    c->peer_reads_in = event.param.conn.initiator_depth;
    c->peer_reads_out = event.param.conn.responder_resources;
    c->tells_ready = is_marked(device, event);
    return c;
}

/// Returns true when the service point took the request.
bool hand_up(hca &device, connection &c, vrb::listener &l, const cm_event &event)
    OSD_REQUIRES(device.lock)
{
    cr_params params{};
    DAT_CONN_QUAL high = 0;
    params.data = read_request(device, event, high);
    if (high != high_part(l.qualifier))
        return false;
    params.peer = rdma_get_peer_addr(c.id);
    params.peer_port = ntohs(rdma_get_dst_port(c.id));
    vrb::cr request{&c};
    service_point &owner = *l.owner;
    bool taken = false;
    device.run_upcall(&l, [&] { taken = dapls_cr_callback(owner, request, params); });
    return taken;
}

} // namespace

namespace vrb {

void connection_request(hca &device, const cm_event &event)
{
    connection *c = new_request(device, event);
    if (c == nullptr) {
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: a connection request is rejected: out of memory",
                 device.name);
        (void)rdma_reject(event.id, nullptr, 0);
        rdma_destroy_id(event.id);
        return;
    }
    device.connections.push(*c);
    if (!hand_up(device, *c, *static_cast<vrb::listener *>(event.listen_id->context), event))
        refuse(device, *c, reject_reason::non_consumer, {});
}

} // namespace vrb

status transport::dapls_ib_setup_conn_listener(hca &device, listener &l, service_point &owner,
                                               DAT_CONN_QUAL &qualifier)
{
    l.device = &device;
    if (device.tcp != nullptr)
        return device.tcp->cm.listen(l, owner, qualifier);
    if (qualifier != 0 && port_of(qualifier) == 0)
        return invalid_parameter(2);
    osd::lock_guard hold(device.lock);
    const status listening = listen_on(device, l, port_of(qualifier));
    if (!listening.ok())
        return listening;
    if (qualifier == 0)
        qualifier = ntohs(rdma_get_src_port(l.id));
    l.owner = &owner;
    l.qualifier = qualifier;
    return success;
}

void transport::dapls_ib_remove_conn_listener(listener &l)
{
    hca &device = *l.device;
    if (device.foreign())
        return;
    if (device.tcp != nullptr)
        return device.tcp->cm.stop_listening(l);
    osd::lock_guard hold(device.lock);
    device.wait_quiet(&l);
    rdma_destroy_id(l.id); // lets the kernel refuse requests that were not read yet
}

void transport::dapls_ib_reject_connection(cr &request, reject_reason reason,
                                           const private_data &data)
{
    if (request.from == nullptr)
        return tcp_cm::reject(request.by_tcp, reason, data);
    hca &device = *request.from->device;
    const port_support::pipe_signal_hold no_sigpipe(device.siw);
    osd::lock_guard hold(device.lock);
    refuse(device, *request.from, reason, data);
    request.from = nullptr;
}

} // namespace dapl::verbs
