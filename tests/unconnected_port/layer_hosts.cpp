// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the layer calls of the common layer.
#include "layer_hosts.hpp"

namespace dapl::DAPL_TRANSPORT {

void dapl_evd_dto_callback(evd &to)
{
    ++to.callbacks;
}
void dapl_srq_limit_callback(shared_recv_queue &s)
{
    ++s.limits;
}
void dapl_evd_connection_callback(endpoint &ep, DAT_EVENT_NUMBER event, const private_data &)
{
    ep.last = event;
}
template <class Cr>
bool dapls_cr_callback(service_point &at, Cr &request, const cr_params &)
{
    unconnected::types::cr own{std::move(request.request), request.of};
    return unconnected::port::dapls_ib_accept_connection(own, *at.with, {}).ok();
}
template bool dapls_cr_callback(service_point &, unconnected::types::cr &, const cr_params &);

} // namespace dapl::DAPL_TRANSPORT
