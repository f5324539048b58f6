// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The line in the log about a connection that no consumer has closed.
#pragma once

#include "connection_end.hpp"

namespace dapl::soft {

/// The device's upcall. A warning where the network or the peer is at fault, in a way that a
/// program cannot bring about; otherwise for those who look at connections.
void log_end(void *owner, const soft_hca::connection_end &how);

} // namespace dapl::soft
