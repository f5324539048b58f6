// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The log line about the end of a connection that no consumer has closed.
#pragma once

#include "connection/connection_end.hpp"

namespace dapl::soft {

/// The upcall of the device. A warning (0x2) if the network or the peer is at fault; otherwise a
/// line about connections (DAPL_DBG_TYPE_CM).
void log_end(void *owner, const soft_hca::connection_end &how);

} // namespace dapl::soft
