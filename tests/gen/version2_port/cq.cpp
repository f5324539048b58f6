// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completion queue of the acme port. Made by dapl-port; it is yours.
#include "port.hpp"

namespace dapl::acme {

// TODO(port) dapls_ib_cq_alloc: make a completion queue
// A CQ for at least `depth` completions; stores the depth it really has. Control.
// (control, may block; shown by EVD-02, EVD-04)
status transport::dapls_ib_cq_alloc(hca &, cq &, evd & /*owner*/, DAT_COUNT & /*depth*/)
{
    return not_supported;
}

// TODO(port) dapls_ib_cq_free: free it; no callback comes any more
// No qp refers to it any more. Fence for dapl_evd_dto_callback.
// (fence, may block; shown by EVD-22, LIFE-06)
void transport::dapls_ib_cq_free(cq &) {}

} // namespace dapl::acme
