// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The dat_cr_* calls: their arguments are checked here, their work is done in core/cr.cpp.
#include "checks.hpp"
#include "core/adapter.hpp"
#include "core/cr.hpp"
#include "core/service_point.hpp"
#include "dat_calls.hpp"

namespace dapl::DAPL_TRANSPORT::core {

namespace {

/// The endpoint that answers: either the request's own or the consumer's, and never both.
endpoint *answering(const cr &request, DAT_EP_HANDLE given)
{
    if (request.ep != nullptr)
        return given == DAT_HANDLE_NULL ? request.ep : nullptr;
    endpoint *ep = from_handle<endpoint>(given);
    return ep != nullptr && ep->ia == request.ia ? ep : nullptr;
}

} // namespace

status dapl_cr_accept(cr &request, DAT_EP_HANDLE ep_handle, DAT_COUNT size, const DAT_PVOID bytes)
{
    endpoint *ep = answering(request, ep_handle);
    if (ep == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    const DAT_COUNT most = request.ia->attr.max_private_data_size;
    if (const status checked = check_private_data(size, bytes, most, 3); !checked.ok())
        return checked;
    if (request.for_datagrams != ep->datagrams.in_use())
        return invalid_parameter(2);
    if (!request.condemn())
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    const private_data answer{bytes, static_cast<std::size_t>(size)};
    const incoming_request incoming{request.port_cr, request.peer.get(), request.peer_port,
                                    request.ep != nullptr};
    const status accepted = request.for_datagrams ? ep->datagrams.accept(incoming, answer)
                                                  : ep->accept(incoming, answer);
    if (accepted.ok())
        request.ia->destroy(request);
    else
        request.tag.store(mark::cr); // it can be answered another time
    return accepted;
}

status dapl_cr_reject(cr &request, DAT_COUNT size, const DAT_PVOID bytes)
{
    const DAT_COUNT most = request.ia->attr.max_private_data_size;
    if (const status checked = check_private_data(size, bytes, most, 2); !checked.ok())
        return checked;
    if (!request.condemn())
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    request.reject(reject_reason::consumer, {bytes, static_cast<std::size_t>(size)});
    request.ia->destroy(request);
    return success;
}

/// Hands a request over to another service point. Once its handle is dead, the request arrives
/// there as a new one: that service point makes a new CR for it, or refuses it.
status dapl_cr_handoff(cr &request, DAT_CONN_QUAL qualifier)
{
    adapter &ia = *request.ia;
    const user_of<service_point> to =
        ia.find<service_point>([qualifier](service_point &sp) { return sp.serves(qualifier); });
    if (!to)
        return invalid_parameter(2);
    if (!request.condemn())
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    const cr_params params{request.peer.get(),
                           request.peer_port,
                           {request.data, static_cast<std::size_t>(request.data_size)},
                           request.for_datagrams};
    if (to->request_arrived(request.port_cr, params))
        request.release_endpoint();
    else
        request.refuse();
    ia.destroy(request);
    return success;
}

void dapl_cr_query(cr &request, DAT_CR_PARAM &out)
{
    out = {};
    out.remote_ia_address_ptr = request.peer.get();
    out.remote_port_qual = request.peer_port;
    out.private_data_size = request.data_size;
    out.private_data = request.data;
    out.local_ep_handle = request.ep == nullptr ? DAT_HANDLE_NULL : to_handle(request.ep);
}

} // namespace dapl::DAPL_TRANSPORT::core
