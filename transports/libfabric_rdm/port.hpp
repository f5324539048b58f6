// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The port over libfabric's endpoints without connections (FI_EP_RDM). All but the device is the
// layer for such fabrics.
#pragma once

#include "unconnected/unconnected_port.hpp"

#include "port_features.hpp"

static_assert(DAPLS_IB_VERSION == 5, "the libfabric_rdm port was written for version 5");

namespace dapl::libfabric_rdm {

struct transport : unconnected::port {
    static constexpr features claims = port_features;
};

} // namespace dapl::libfabric_rdm
