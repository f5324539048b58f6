// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cr.hpp"

#include "dapl_api.hpp"

#include <algorithm>
#include <cstring>

namespace dapl::DAPL_TRANSPORT::core {

cr::cr(const DAT_PROVIDER *vector, adapter &owner, transport::cr &&from_port,
       const cr_params &params, endpoint *brought)
    : object(vector, mark::cr, owner), port_cr(std::move(from_port)), ep(brought),
      peer_port(params.peer_port)
{
    peer.assign(params.peer);
    const std::size_t kept = std::min(params.data.size, sizeof data);
    data_size = static_cast<DAT_COUNT>(kept);
    if (kept != 0)
        std::memcpy(data, params.data.bytes, kept);
    std::memset(data + kept, 0, sizeof data - kept);
}

void cr::refuse()
{
    reject(reject_reason::non_consumer, {});
}

void cr::reject(reject_reason why, const private_data &answer)
{
    transport::dapls_ib_reject_connection(port_cr, why, answer);
    release_endpoint();
}

void cr::release_endpoint()
{
    if (ep == nullptr)
        return;
    if (!ep->change_state(DAT_EP_STATE_PASSIVE_CONNECTION_PENDING, DAT_EP_STATE_UNCONNECTED)) {
        ep->shut_down();
        ia->destroy(ia->eps, *ep);
    }
}

namespace {

status check_private_data(const adapter &ia, DAT_COUNT size, const void *bytes, int size_position)
{
    if (size < 0 || size > ia.attr.max_private_data_size)
        return invalid_parameter(size_position);
    if (size > 0 && bytes == nullptr)
        return invalid_parameter(size_position + 1);
    return success;
}

/// The endpoint that answers: the request's own, or the consumer's. Exactly one of them.
endpoint *answering(const cr &request, DAT_EP_HANDLE given)
{
    if (request.ep != nullptr)
        return given == DAT_HANDLE_NULL ? request.ep : nullptr;
    endpoint *ep = from_handle<endpoint>(given);
    return ep != nullptr && ep->ia == request.ia ? ep : nullptr;
}

status accept_cr(cr &request, DAT_EP_HANDLE ep_handle, DAT_COUNT size, const void *bytes)
{
    endpoint *ep = answering(request, ep_handle);
    if (ep == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (const status checked = check_private_data(*request.ia, size, bytes, 3); !checked.ok())
        return checked;
    if (!request.condemn())
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    const private_data answer{bytes, static_cast<std::size_t>(size)};
    const status accepted = ep->accept(request, answer);
    if (accepted.ok())
        request.ia->destroy(request.ia->crs, request);
    else
        request.alive.store(mark::cr); // it can be answered another time
    return accepted;
}

status reject_cr(cr &request, DAT_COUNT size, const void *bytes)
{
    if (const status checked = check_private_data(*request.ia, size, bytes, 2); !checked.ok())
        return checked;
    if (!request.condemn())
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    request.reject(reject_reason::consumer, {bytes, static_cast<std::size_t>(size)});
    request.ia->destroy(request.ia->crs, request);
    return success;
}

/// From the moment at which its handle dies the request is one that comes in at the other service
/// point: that one makes a new CR of it, or refuses it.
status hand_off(cr &request, DAT_CONN_QUAL qualifier)
{
    adapter &ia = *request.ia;
    const user_of<service_point> to =
        ia.find(ia.sps, [qualifier](service_point &sp) { return sp.serves(qualifier); });
    if (!to)
        return invalid_parameter(2);
    if (!request.condemn())
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    const cr_params params{request.peer.get(),
                           request.peer_port,
                           {request.data, static_cast<std::size_t>(request.data_size)}};
    if (to->request_arrived(request.port_cr, params))
        request.release_endpoint();
    else
        request.refuse();
    ia.destroy(ia.crs, request);
    return success;
}

} // namespace

DAT_RETURN dapl_cr_query(DAT_CR_HANDLE handle, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param)
{
    cr *request = from_handle<cr>(handle);
    const status checked =
        check_query(request, DAT_INVALID_HANDLE_CR, mask, DAT_CR_FIELD_ALL, param);
    if (!checked.ok())
        return checked.code();
    *param = {};
    param->remote_ia_address_ptr = request->peer.get();
    param->remote_port_qual = request->peer_port;
    param->private_data_size = request->data_size;
    param->private_data = request->data;
    param->local_ep_handle = request->ep == nullptr ? DAT_HANDLE_NULL : to_handle(request->ep);
    return DAT_SUCCESS;
}

DAT_RETURN dapl_cr_accept(DAT_CR_HANDLE handle, DAT_EP_HANDLE ep, DAT_COUNT size,
                          const DAT_PVOID bytes)
{
    cr *request = from_handle<cr>(handle);
    if (request == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_CR).code();
    return accept_cr(*request, ep, size, bytes).code();
}

DAT_RETURN dapl_cr_reject(DAT_CR_HANDLE handle, DAT_COUNT size, const DAT_PVOID bytes)
{
    cr *request = from_handle<cr>(handle);
    if (request == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_CR).code();
    return reject_cr(*request, size, bytes).code();
}

DAT_RETURN dapl_cr_handoff(DAT_CR_HANDLE handle, DAT_CONN_QUAL qualifier)
{
    cr *request = from_handle<cr>(handle);
    if (request == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_CR).code();
    return hand_off(*request, qualifier).code();
}

} // namespace dapl::DAPL_TRANSPORT::core
