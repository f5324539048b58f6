// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Queue pair of the acme port. Made by dapl-port; it is yours.
#include "port.hpp"

namespace dapl::acme {

// TODO(port) dapls_ib_qp_alloc: make a queue pair that takes receives
// A queue pair that takes receives at once. A null cq means: nothing will be posted there.
// Control.
// (control, may block; shown by EP-05, EP-22, EP-28, EP-29, EP-31)
status transport::dapls_ib_qp_alloc(pd &, qp &, cq * /*recv_cq*/, cq * /*send_cq*/,
                                    const qp_params &)
{
    return not_supported;
}

// TODO(port) dapls_ib_qp_free: free it; no upcall and no completion comes any more
// Ends what is still connected, as an abrupt disconnect: the peer sees DISCONNECTED. Fence.
// From then on no completion of this qp is added to a CQ; those already there may still be
// polled.
// (fence, may block; shown by EP-27, CONN-18, CONN-19, DTO-27, LIFE-05)
void transport::dapls_ib_qp_free(qp &) {}

// TODO(port) dapls_ib_qp_reset: back to the state that qp_alloc left
// Returns the qp to the state after qp_alloc. It was disconnected before, by disconnect or
// disconnect_clean. Otherwise as qp_free.
// (fence, may block; shown by EP-19, EP-30, CONN-15, CONN-16, CONN-23, DTO-27)
status transport::dapls_ib_qp_reset(qp &)
{
    return not_supported;
}

} // namespace dapl::acme
