// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections, and the device's upcalls.
#include "upcall_table.hpp"

#include "end_line.hpp"
#include "exchange.hpp"

#include "dapl_line_limit.hpp"
#include "osd_address.hpp"
#include "osd_errno.hpp"

#include <cstring>

namespace dapl::soft {

// --------------------------------------------------------------------------------------- upcalls

DAT_EVENT_NUMBER event_of(soft_hca::connection_event what)
{
    switch (what) {
    case soft_hca::connection_event::established:
        return DAT_CONNECTION_EVENT_ESTABLISHED;
    case soft_hca::connection_event::rejected:
        return DAT_CONNECTION_EVENT_PEER_REJECTED;
    case soft_hca::connection_event::refused:
        return DAT_CONNECTION_EVENT_NON_PEER_REJECTED;
    case soft_hca::connection_event::unreachable:
        return DAT_CONNECTION_EVENT_UNREACHABLE;
    case soft_hca::connection_event::timed_out:
        return DAT_CONNECTION_EVENT_TIMED_OUT;
    case soft_hca::connection_event::accept_failed:
        return DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR;
    case soft_hca::connection_event::disconnected:
        return DAT_CONNECTION_EVENT_DISCONNECTED;
    case soft_hca::connection_event::broken:
        break;
    }
    return DAT_CONNECTION_EVENT_BROKEN;
}

namespace {

void on_completion(void *owner)
{
    dapl_evd_dto_callback(*static_cast<evd *>(owner));
}

void on_overflow(void *owner)
{
    dapl_evd_cq_async_error_callback(*static_cast<evd *>(owner));
}

void on_connection(void *owner, soft_hca::connection_event what, const void *data, std::size_t size)
{
    dapl_evd_connection_callback(*static_cast<endpoint *>(owner), event_of(what), {data, size});
}

/// The owner is the port's listener: the request needs the hca to be answered.
bool on_request(void *owner, soft_hca::inbound_request &request)
{
    auto &l = *static_cast<types::listener *>(owner);
    types::cr incoming;
    incoming.parent = l.parent;
    incoming.request = &request;
    cr_params params{};
    params.peer = reinterpret_cast<const DAT_SOCK_ADDR *>(request.peer.get());
    params.peer_port = request.peer.port();
    params.data = {request.data, request.data_size};
    params.datagrams = request.exchange;
    if (request.exchange && !take_address(params.data))
        return false;
    return dapls_cr_callback(*l.owner, incoming, params);
}

void on_limit(void *owner)
{
    dapl_srq_limit_callback(*static_cast<shared_recv_queue *>(owner));
}

void on_watermark(void *owner)
{
    dapl_ep_watermark_callback(*static_cast<endpoint *>(owner));
}

void on_path(void *owner, soft_hca::local_obstacle why_not_direct)
{
    const bool direct = why_not_direct == soft_hca::local_obstacle::none;
    dapl_log(DAPL_DBG_TYPE_CM, "EP %p: RDMA writes and reads %s%s", owner,
             direct ? "copy directly" : "go over UDP: ", direct ? "" : text_of(why_not_direct));
}

line_limit troubles; // all adapters share it

void on_trouble(soft_hca::key_trouble what, const soft_hca::net_address &peer)
{
    char host[INET6_ADDRSTRLEN] = "?";
    std::uint8_t bytes[16];
    peer.copy_host(bytes);
    (void)inet_ntop(peer.family(), bytes, host, sizeof host);
    dapl_log_some(troubles, DAPL_DBG_TYPE_WARN, "%s, UDP port %u: %s", host, peer.port(),
                  what == soft_hca::key_trouble::wants_key
                      ? "the peer takes only packets sealed with a key (key_file), and we have none"
                      : "a packet is not sealed with our key: the peer has another key, or none");
}

void on_gone(void *owner)
{
    auto &h = *static_cast<types::hca *>(owner);
    dapl_log(DAPL_DBG_TYPE_ERR,
             "%s: the interface was removed: all connections end; close the adapter, and open it "
             "again when the interface is back",
             h.interface.name);
    h.device.fail();
    dapl_evd_un_async_error_callback(*h.owner);
}

} // namespace

const soft_hca::upcalls upcall_table{on_completion, on_overflow, on_connection, log_end,
                                     on_request,    on_limit,    on_watermark,  on_path,
                                     on_trouble,    on_gone,     on_exchange};

// ------------------------------------------------------------------------------------ operations

/// What a call to begin a connection answers.
status answer_of(soft_hca::queue_pair::start how)
{
    switch (how) {
    case soft_hca::queue_pair::start::begun:
        return success;
    case soft_hca::queue_pair::start::no_memory:
        return out_of_memory;
    case soft_hca::queue_pair::start::no_device:
    case soft_hca::queue_pair::start::wrong_state:
        break;
    }
    return status::error(DAT_INTERNAL_ERROR);
}

namespace {

status listen_error(const types::hca &h, DAT_CONN_QUAL qualifier, int error)
{
    dapl_log(DAPL_DBG_TYPE_CM, "%s: listening on qualifier %llu failed: %s", h.interface.name,
             static_cast<unsigned long long>(qualifier), osd::error_text(error).text);
    if (soft_hca::is_address_in_use(error))
        return status::error(DAT_CONN_QUAL_IN_USE);
    if (soft_hca::is_forbidden(error))
        return status::error(DAT_PRIVILEGES_VIOLATION);
    return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
}

/// A qualifier becomes the UDP port of its low 16 bits, so that must be one.
bool has_port(DAT_CONN_QUAL qualifier)
{
    return (qualifier & 0xffff) != 0;
}

} // namespace

status aim(const types::hca &h, const connect_params &params, soft_hca::net_address &to)
{
    const bool fits = to.assign(reinterpret_cast<const sockaddr *>(params.address)) &&
                      to.family() == h.interface.address.family();
    if (!fits)
        return status::error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED);
    if (!has_port(params.qualifier))
        return invalid_parameter(3);
    if (params.qos != DAT_QOS_BEST_EFFORT)
        to.set_traffic_class(h.params.class_of(params.qos));
    return success;
}

status transport::dapls_ib_setup_conn_listener(hca &h, listener &l, service_point &owner,
                                               DAT_CONN_QUAL &qualifier)
{
    if (qualifier != 0 && !has_port(qualifier))
        return invalid_parameter(2);
    l.parent = &h;
    l.owner = &owner;
    std::uint64_t chosen = qualifier;
    const int error = h.device.listening.add(l.at, chosen, &l);
    if (error != 0)
        return listen_error(h, qualifier, error);
    qualifier = chosen;
    return success;
}

void transport::dapls_ib_remove_conn_listener(listener &l)
{
    if (!l.parent->foreign())
        l.parent->device.listening.remove(l.at);
}

status transport::dapls_ib_connect(qp &q, const connect_params &params)
{
    soft_hca::net_address to;
    if (const status aimed = aim(*q.parent, params, to); !aimed.ok())
        return aimed;
    if (params.data.size > soft_hca::max_private_data)
        return invalid_parameter(5);
    return answer_of(q.pair.connect(to, params.qualifier, params.data.bytes, params.data.size));
}

status transport::dapls_ib_accept_connection(cr &request, qp &q, const private_data &data)
{
    if (data.size > soft_hca::max_private_data)
        return invalid_parameter(3);
    const status answer = answer_of(q.pair.accept(*request.request, data.bytes, data.size));
    if (answer.ok())
        request.request = nullptr;
    return answer;
}

void transport::dapls_ib_reject_connection(cr &request, reject_reason reason,
                                           const private_data &data)
{
    const bool ours = !request.parent->foreign();
    if (ours)
        request.parent->device.listening.reject(*request.request,
                                                reason == reject_reason::consumer
                                                    ? soft_hca::reject_code::consumer
                                                    : soft_hca::reject_code::no_listener,
                                                data.bytes, data.size);
    request.request = nullptr;
}

void transport::dapls_ib_disconnect(qp &q, DAT_CLOSE_FLAGS flags)
{
    q.pair.disconnect(flags == DAT_CLOSE_GRACEFUL_FLAG);
}

void transport::dapls_ib_disconnect_clean(qp &q)
{
    q.pair.abandon();
}

} // namespace dapl::soft
