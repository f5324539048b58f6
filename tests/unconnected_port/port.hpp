// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A port to a device without connections: what the layer leaves to its author.
#pragma once

#include "unconnected/unconnected_port.hpp"

#include "port_features.hpp"

static_assert(DAPLS_IB_VERSION == 5, "the datagram port was written for version 5");

namespace dapl::datagram {

struct transport : unconnected::port {
    static constexpr features claims = port_features;
};

} // namespace dapl::datagram
