// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The dat_ep_* calls: their arguments are checked here, their work is done in core/endpoint.cpp.
#include "checks.hpp"
#include "core/adapter.hpp"
#include "core/endpoint.hpp"
#include "dat_calls.hpp"

#include <algorithm>

namespace dapl::DAPL_TRANSPORT::core {

namespace {

// ---------------------------------------------------------------------------------- attributes

bool counts_match(DAT_COUNT dtos, bool has_evd)
{
    return has_evd ? dtos > 0 : dtos == 0;
}

bool within(DAT_COUNT value, DAT_COUNT limit)
{
    return value >= 0 && value <= limit;
}

bool is_one_qos(DAT_QOS qos)
{
    return qos == DAT_QOS_BEST_EFFORT || qos == DAT_QOS_HIGH_THROUGHPUT ||
           qos == DAT_QOS_LOW_LATENCY || qos == DAT_QOS_ECONOMY || qos == DAT_QOS_PREMIUM;
}

bool fits(const DAT_EP_ATTR &attr, const hca_attr &limits)
{
    constexpr unsigned recv_completion = DAT_COMPLETION_SOLICITED_WAIT_FLAG |
                                         DAT_COMPLETION_UNSIGNALLED_FLAG |
                                         DAT_COMPLETION_EVD_THRESHOLD_FLAG;
    constexpr unsigned request_completion = recv_completion | DAT_COMPLETION_SUPPRESS_FLAG;
    const bool datagrams = is_for_datagrams(attr);
    const DAT_UINT64 longest = datagrams ? limits.max_datagram_size : limits.max_message_size;
    return (datagrams || attr.service_type == DAT_SERVICE_TYPE_RC) && is_one_qos(attr.qos) &&
           !has_unknown_bits(attr.recv_completion_flags, recv_completion) &&
           !has_unknown_bits(attr.request_completion_flags, request_completion) &&
           attr.max_message_size <= longest && attr.max_rdma_size <= limits.max_rdma_size &&
           within(attr.max_recv_dtos, limits.max_dto_per_ep) &&
           within(attr.max_request_dtos, limits.max_dto_per_ep) &&
           within(attr.max_recv_iov, limits.max_iov_per_dto) &&
           within(attr.max_request_iov, limits.max_iov_per_dto) &&
           within(attr.max_rdma_read_iov, limits.max_iov_per_rdma_read) &&
           within(attr.max_rdma_write_iov, limits.max_iov_per_rdma_write);
}

/// Checks endpoint attributes; `position` is their argument number in the call.
status check_attr(const DAT_EP_ATTR &attr, const hca_attr &limits, int position)
{
    const bool unreliable =
        static_cast<int>(attr.service_type) == static_cast<int>(DAT_IB_SERVICE_TYPE_UD);
    if (unreliable && limits.max_datagram_size == 0)
        return not_supported;
    if (!fits(attr, limits))
        return invalid_parameter(position);
    const bool solicited = (attr.recv_completion_flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG) != 0;
    return solicited && !limits.solicited_wait ? not_supported : success;
}

/// 0 asks for the provider's own value; read depths are negotiated down, never refused.
DAT_EP_ATTR completed(DAT_EP_ATTR attr, const hca_attr &limits)
{
    if (attr.max_message_size == 0)
        attr.max_message_size =
            is_for_datagrams(attr) ? limits.max_datagram_size : limits.max_message_size;
    if (attr.max_rdma_size == 0)
        attr.max_rdma_size = limits.max_rdma_size;
    attr.max_rdma_read_in =
        std::clamp<DAT_COUNT>(attr.max_rdma_read_in, 0, limits.max_rdma_read_per_ep_in);
    attr.max_rdma_read_out =
        std::clamp<DAT_COUNT>(attr.max_rdma_read_out, 0, limits.max_rdma_read_per_ep_out);
    return attr;
}

// ------------------------------------------------------------------------------------- objects

/// Null stays null; anything else has to be an EVD that takes the stream. Completions need one of
/// this adapter; connection events have no device, and programs that open an adapter several times
/// mix them.
bool find_evd(const adapter &ia, DAT_EVD_HANDLE handle, DAT_EVD_FLAGS stream, evd *&out)
{
    out = from_handle<evd>(handle);
    if (handle == DAT_HANDLE_NULL)
        return true;
    const bool own = out != nullptr && (out->ia == &ia || stream == DAT_EVD_CONNECTION_FLAG);
    return own && out->takes(stream);
}

status find_objects(const adapter &ia, DAT_PZ_HANDLE zone, DAT_EVD_HANDLE recv,
                    DAT_EVD_HANDLE request, DAT_EVD_HANDLE connect, ep_objects &out)
{
    out.zone = from_handle<pz>(zone);
    if (zone != DAT_HANDLE_NULL && (out.zone == nullptr || out.zone->ia != &ia))
        return invalid_handle(DAT_INVALID_HANDLE_PZ);
    if (!find_evd(ia, recv, DAT_EVD_DTO_FLAG, out.recv))
        return invalid_handle(DAT_INVALID_HANDLE_EVD_RECV);
    if (!find_evd(ia, request, DAT_EVD_DTO_FLAG, out.request))
        return invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    if (!find_evd(ia, connect, DAT_EVD_CONNECTION_FLAG, out.connect))
        return invalid_handle(DAT_INVALID_HANDLE_EVD_CONN);
    return success;
}

/// Checks an endpoint with an SRQ: the SRQ must be in its zone, and a receive EVD must be given.
/// `position` is the zone's argument number in the call.
status check_shared(const ep_objects &objects, int position)
{
    if (objects.shared == nullptr)
        return success;
    if (objects.zone != &objects.shared->zone())
        return invalid_parameter(position);
    return objects.recv != nullptr ? success : invalid_handle(DAT_INVALID_HANDLE_EVD_RECV);
}

// ---------------------------------------------------------------------------- create and modify

/// Completes the attributes of a new endpoint; `position` is their argument number in the call.
status attr_for_create(const adapter &ia, const DAT_EP_ATTR *given, const ep_objects &objects,
                       int position, DAT_EP_ATTR &attr)
{
    attr = default_ep_attr(ia.attr);
    if (given == nullptr) {
        if (objects.recv == nullptr || objects.shared != nullptr)
            attr.max_recv_dtos = 0;
        if (objects.request == nullptr)
            attr.max_request_dtos = 0;
        return success;
    }
    const bool own_recvs = objects.recv != nullptr && objects.shared == nullptr;
    const bool matches =
        (objects.shared != nullptr || counts_match(given->max_recv_dtos, own_recvs)) &&
        counts_match(given->max_request_dtos, objects.request != nullptr);
    if (!matches)
        return invalid_parameter(position);
    const status checked = check_attr(*given, ia.attr, position);
    if (!checked.ok())
        return checked;
    attr = completed(*given, ia.attr);
    return success;
}

status create_ep(adapter &ia, const ep_objects &objects, const DAT_EP_ATTR *given, int position,
                 DAT_EP_HANDLE *out)
{
    DAT_EP_ATTR attr;
    if (const status checked = attr_for_create(ia, given, objects, position, attr); !checked.ok())
        return checked;
    if (out == nullptr)
        return invalid_parameter(position + 1);
    if (ia.attr.max_eps == 0 || ia.has_most<endpoint>(ia.attr.max_eps))
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEP);
    endpoint *made = ia.make<endpoint>(attr, objects, DAT_EP_STATE_UNCONNECTED);
    if (made == nullptr)
        return out_of_memory;
    const status ready = made->set_up();
    if (ready.ok())
        *out = to_handle(made);
    else
        ia.destroy(*made);
    return ready;
}

constexpr DAT_EP_PARAM_MASK never_modifiable =
    DAT_EP_FIELD_IA_HANDLE | DAT_EP_FIELD_EP_STATE | DAT_EP_FIELD_COMM |
    DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR | DAT_EP_FIELD_LOCAL_PORT_QUAL |
    DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR | DAT_EP_FIELD_REMOTE_PORT_QUAL | DAT_EP_FIELD_SRQ_HANDLE;

/// What the endpoint would become: `now` with the masked fields of `wanted`.
DAT_EP_PARAM merged(const DAT_EP_PARAM &now, DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM &wanted)
{
    DAT_EP_PARAM out = now;
    const auto take = [mask](DAT_EP_PARAM_MASK field, auto &to, const auto &from) {
        if ((mask & field) != 0)
            to = from;
    };
    DAT_EP_ATTR &to = out.ep_attr;
    const DAT_EP_ATTR &from = wanted.ep_attr;
    take(DAT_EP_FIELD_PZ_HANDLE, out.pz_handle, wanted.pz_handle);
    take(DAT_EP_FIELD_RECV_EVD_HANDLE, out.recv_evd_handle, wanted.recv_evd_handle);
    take(DAT_EP_FIELD_REQUEST_EVD_HANDLE, out.request_evd_handle, wanted.request_evd_handle);
    take(DAT_EP_FIELD_CONNECT_EVD_HANDLE, out.connect_evd_handle, wanted.connect_evd_handle);
    take(DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE, to.service_type, from.service_type);
    take(DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE, to.max_message_size, from.max_message_size);
    take(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_SIZE, to.max_rdma_size, from.max_rdma_size);
    take(DAT_EP_FIELD_EP_ATTR_QOS, to.qos, from.qos);
    take(DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS, to.recv_completion_flags,
         from.recv_completion_flags);
    take(DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS, to.request_completion_flags,
         from.request_completion_flags);
    take(DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, to.max_recv_dtos, from.max_recv_dtos);
    take(DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, to.max_request_dtos, from.max_request_dtos);
    take(DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV, to.max_recv_iov, from.max_recv_iov);
    take(DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV, to.max_request_iov, from.max_request_iov);
    take(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN, to.max_rdma_read_in, from.max_rdma_read_in);
    take(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT, to.max_rdma_read_out, from.max_rdma_read_out);
    take(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV, to.max_rdma_read_iov, from.max_rdma_read_iov);
    take(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV, to.max_rdma_write_iov, from.max_rdma_write_iov);
    return out;
}

// ------------------------------------------------------------------------------------- connect

status check_connect(const endpoint &ep, DAT_TIMEOUT timeout_us, DAT_COUNT size, const void *bytes,
                     DAT_QOS qos, int timeout_position)
{
    if (timeout_us == 0)
        return invalid_parameter(timeout_position);
    const status data =
        check_private_data(size, bytes, ep.ia->attr.max_private_data_size, timeout_position + 1);
    if (!data.ok())
        return data;
    if (!is_one_qos(qos))
        return invalid_parameter(timeout_position + 3);
    const bool offered = (qos & ~ep.ia->attr.qos) == 0; // best effort is no bit
    return offered ? success : not_supported;
}

status connect_one(endpoint &ep, const connect_request &wanted)
{
    return ep.datagrams.in_use() ? ep.datagrams.connect(wanted) : ep.connect(wanted);
}

} // namespace

status dapl_ep_create(adapter &ia, DAT_PZ_HANDLE zone, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
                      DAT_EVD_HANDLE connect, const DAT_EP_ATTR *attr, DAT_EP_HANDLE *out)
{
    ep_objects objects;
    const status found = find_objects(ia, zone, recv, request, connect, objects);
    return found.ok() ? create_ep(ia, objects, attr, 6, out) : found;
}

status dapl_ep_create_with_srq(adapter &ia, DAT_PZ_HANDLE zone, DAT_EVD_HANDLE recv,
                               DAT_EVD_HANDLE request, DAT_EVD_HANDLE connect, DAT_SRQ_HANDLE srq,
                               const DAT_EP_ATTR *attr, DAT_EP_HANDLE *out)
{
    ep_objects objects;
    const status found = find_objects(ia, zone, recv, request, connect, objects);
    if (!found.ok())
        return found;
    if (!claims.srq || ia.attr.max_srqs == 0) // there is no SRQ to check, then
        return out != nullptr ? not_supported : invalid_parameter(8);
    objects.shared = from_handle<shared_recv_queue>(srq);
    if (objects.shared == nullptr || objects.shared->ia != &ia)
        return invalid_handle(DAT_INVALID_HANDLE_SRQ);
    const status fits = check_shared(objects, 2);
    if (attr != nullptr && is_for_datagrams(*attr))
        return not_supported;
    return fits.ok() ? create_ep(ia, objects, attr, 7, out) : fits;
}

void dapl_ep_query(endpoint &ep, DAT_EP_PARAM &out)
{
    ep.fill(out, true);
}

status dapl_ep_modify(endpoint &ep, DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM *wanted)
{
    if (has_unknown_bits(mask, DAT_EP_FIELD_ALL) || (mask & never_modifiable) != 0)
        return invalid_parameter(2);
    if (wanted == nullptr)
        return invalid_parameter(3);
    osd::lock_guard hold(ep.modifying); // keeps attributes that the call does not name as they are
    DAT_EP_PARAM now;
    ep.fill(now, false);
    const DAT_EP_PARAM then = merged(now, mask, *wanted);
    if (ep.datagrams.any())
        return ep.state_error();
    if (now.srq_handle != DAT_HANDLE_NULL && is_for_datagrams(then.ep_attr))
        return not_supported;
    ep_objects objects;
    if (const status found =
            find_objects(*ep.ia, then.pz_handle, then.recv_evd_handle, then.request_evd_handle,
                         then.connect_evd_handle, objects);
        !found.ok())
        return found;
    objects.shared = from_handle<shared_recv_queue>(now.srq_handle);
    if (const status fits = check_shared(objects, 3); !fits.ok())
        return fits;
    if (const status checked = check_attr(then.ep_attr, ep.ia->attr, 3); !checked.ok())
        return checked;
    return ep.modify(completed(then.ep_attr, ep.ia->attr), objects,
                     then.pz_handle != now.pz_handle);
}

status dapl_ep_connect(endpoint &ep, DAT_IA_ADDRESS_PTR address, DAT_CONN_QUAL qualifier,
                       DAT_TIMEOUT timeout, DAT_COUNT size, const DAT_PVOID bytes, DAT_QOS qos,
                       DAT_CONNECT_FLAGS flags)
{
    if (address == nullptr)
        return invalid_parameter(2);
    if (const status checked = check_connect(ep, timeout, size, bytes, qos, 4); !checked.ok())
        return checked;
    if (flags != DAT_CONNECT_DEFAULT_FLAG)
        return not_supported;
    return connect_one(ep,
                       {address, qualifier, timeout, {bytes, static_cast<std::size_t>(size)}, qos});
}

status dapl_ep_dup_connect(endpoint &ep, DAT_EP_HANDLE model_handle, DAT_TIMEOUT timeout,
                           DAT_COUNT size, const DAT_PVOID bytes, DAT_QOS qos)
{
    endpoint *model = from_handle<endpoint>(model_handle);
    if (model == nullptr || model->ia != ep.ia)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (const status checked = check_connect(ep, timeout, size, bytes, qos, 3); !checked.ok())
        return checked;
    if (ep.state() != DAT_EP_STATE_UNCONNECTED)
        return ep.state_error();
    if (ep.datagrams.in_use())
        return not_supported;
    return ep.connect_like(*model, timeout, {bytes, static_cast<std::size_t>(size)}, qos);
}

status dapl_ep_common_connect(endpoint &ep, DAT_IA_ADDRESS_PTR address, DAT_TIMEOUT timeout,
                              DAT_COUNT size, const DAT_PVOID bytes)
{
    if (const status checked = check_common_address(address, 2); !checked.ok())
        return checked;
    if (const status checked = check_connect(ep, timeout, size, bytes, DAT_QOS_BEST_EFFORT, 3);
        !checked.ok())
        return checked;
    return connect_one(ep, {address,
                            osd::address::port_of(address),
                            timeout,
                            {bytes, static_cast<std::size_t>(size)},
                            DAT_QOS_BEST_EFFORT});
}

status dapl_ep_disconnect(endpoint &ep, DAT_CLOSE_FLAGS flags)
{
    if (flags != DAT_CLOSE_ABRUPT_FLAG && flags != DAT_CLOSE_GRACEFUL_FLAG)
        return invalid_parameter(2);
    ep.datagrams.abandon();
    return ep.disconnect(flags);
}

status dapl_ep_get_status(endpoint &ep, DAT_EP_STATE *state, DAT_BOOLEAN *recv_idle,
                          DAT_BOOLEAN *request_idle)
{
    if (state != nullptr)
        *state = ep.state();
    if (recv_idle != nullptr)
        *recv_idle = ep.recv_idle() ? DAT_TRUE : DAT_FALSE;
    if (request_idle != nullptr)
        *request_idle = ep.request_idle() ? DAT_TRUE : DAT_FALSE;
    return success;
}

/// Receives that are there are processed in the order of their messages, so that the span is their
/// number.
status dapl_ep_recv_query(endpoint &ep, DAT_COUNT *buffers, DAT_COUNT *span)
{
    DAT_COUNT receives = 0;
    const status counted = ep.count_receives(receives);
    for (DAT_COUNT *out : {buffers, span})
        if (counted.ok() && out != nullptr)
            *out = receives;
    return counted;
}

status dapl_ep_set_watermark(endpoint &ep, DAT_COUNT soft, DAT_COUNT hard)
{
    if (soft < 0 && soft != DAT_WATERMARK_INFINITE)
        return invalid_parameter(2);
    if (hard < 0 && hard != DAT_WATERMARK_INFINITE)
        return invalid_parameter(3);
    return ep.set_watermarks(soft, hard);
}

status dapl_ep_reset(endpoint &ep)
{
    return ep.reset();
}

status dapl_ep_free(endpoint &ep)
{
    const DAT_EP_STATE now = ep.state();
    if (now == DAT_EP_STATE_RESERVED || now == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING ||
        now == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING)
        return ep.state_error();
    if (!ep.condemn())
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    ep.shut_down();
    ep.report_failure().make();
    ep.ia->destroy(ep);
    return success;
}

} // namespace dapl::DAPL_TRANSPORT::core
