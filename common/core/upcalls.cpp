// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The upcalls of the contract: each is passed on to the object that it is about.
#include "async_events.hpp"
#include "dapl_debug.hpp"
#include "endpoint.hpp"
#include "evd.hpp"
#include "service_point.hpp"
#include "shared_recv_queue.hpp"

namespace dapl::DAPL_TRANSPORT {

template <>
bool dapls_cr_callback<transport::cr>(service_point &sp, transport::cr &port_cr,
                                      const cr_params &params)
{
    return sp.request_arrived(port_cr, params);
}

void dapl_evd_connection_callback(endpoint &ep, DAT_EVENT_NUMBER event, const private_data &data)
{
    ep.connection_changed(event, data);
}

void dapl_datagram_peer_callback(datagram_peer &peer, DAT_EVENT_NUMBER event,
                                 const private_data &data, const datagram_address &address)
{
    peer.exchanged(event, data, address);
}

void dapl_evd_dto_callback(evd &target)
{
    target.completion_arrived();
}

void dapl_srq_limit_callback(shared_recv_queue &queue)
{
    queue.limit_reached();
}

void dapl_ep_watermark_callback(endpoint &ep)
{
    ep.watermark_passed();
}

void dapl_evd_cq_async_error_callback(evd &target)
{
    target.overflowed();
    dapl_log(DAPL_DBG_TYPE_ERR, "EVD %p: its completion queue overflowed",
             core::to_handle(&target));
    core::async_overflow(*target.ia, target);
}

void dapl_evd_qp_async_error_callback(endpoint &ep)
{
    core::async_error(*ep.ia, DAT_ASYNC_ERROR_EP_BROKEN, core::to_handle(&ep),
                      DAT_EP_TRANSFER_TO_ERROR);
    ep.operation_failed();
}

void dapl_evd_un_async_error_callback(adapter &ia)
{
    core::async_error(ia, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia.consumer_handle(),
                      DAT_IA_CATASTROPHIC_ERROR);
}

} // namespace dapl::DAPL_TRANSPORT
