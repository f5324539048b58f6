// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The adapter of the acme port. Made by dapl-port; it is yours.
#include "dapl_debug.hpp"
#include "port.hpp"

namespace dapl::acme {

// TODO(port) dapls_ib_open_hca: open the device that the adapter parameters name
// Opens the device named by params. Control. DAT_INVALID_PARAMETER for params that cannot be
// read, DAT_INSUFFICIENT_RESOURCES, DAT_INTERNAL_ERROR when the device does not answer.
// (control, may block; shown by IA-01, IA-04, IA-14)
status transport::dapls_ib_open_hca(hca &device, const hca_open_params &params)
{
    dapl_log(DAPL_DBG_TYPE_WARN, "%s: the port is a skeleton and opens no device (\"%s\")",
             params.name, params.params);
    device.owner = params.owner;
    return success;
}

// TODO(port) dapls_ib_close_hca: close it; its threads have ended
// Everything made on the hca was freed before. Fence: its threads have ended on return.
// (fence, may block; shown by IA-11, IA-13, LIFE-01, LIFE-07, LIFE-08, LIFE-10)
void transport::dapls_ib_close_hca(hca &device)
{
    device.owner = nullptr;
}

// TODO(port) dapls_ib_query_hca: tell limits and identity
// Limits and identity. Control; shall also work after the device failed.
// (control, may block; shown by IA-05, IA-07, EP-06)
void transport::dapls_ib_query_hca(const hca &device, hca_attr &attr)
{
    attr = {};
    attr.address = &device.address;
    attr.hca_name = "acme";
    attr.vendor_name = "Acme Networks";
    attr.max_cq_depth = 1024; // also the limit of EVDs without a CQ, so 0 would not open
    attr.max_private_data_size = 64;
    // What stays 0 there is none of, yet.
}

} // namespace dapl::acme
