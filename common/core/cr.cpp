// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cr.hpp"

#include "adapter.hpp"

#include <algorithm>
#include <cstring>

namespace dapl::DAPL_TRANSPORT::core {

cr::cr(const DAT_PROVIDER *vector, adapter &owner, transport::cr &&from_port,
       const cr_params &params, endpoint *brought)
    : object(vector, mark::cr, owner), port_cr(std::move(from_port)), ep(brought),
      peer_port(params.peer_port), for_datagrams(params.datagrams)
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
        ia->destroy(*ep);
    }
}

} // namespace dapl::DAPL_TRANSPORT::core
