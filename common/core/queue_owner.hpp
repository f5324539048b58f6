// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the event path calls upwards: declared here, where it is called, and defined in the unit of
// the object that answers (endpoint.cpp, adapter_life.cpp), which this one does not include.
#pragma once

#include "dapls_ib.hpp"

namespace dapl::DAPL_TRANSPORT::core {

/// A posted operation failed by itself: the connection is broken. The caller holds the owner_lock
/// of the endpoint's queue and the consumer claim of an EVD, so no consumer code may run.
void operation_failed(endpoint &);

/// Ends the endpoint's failures: on return no timer of the endpoint acts on its queue pair, nor
/// does a failure that an upcall reports. The endpoint is in a state in which none begins.
void end_failures(endpoint &);

/// Whether this EVD will receive the ESTABLISHED event of a connection that is being set up. The
/// caller holds the owner_lock of the endpoint's queue.
bool awaits_establish_on(endpoint &, const evd &);

/// Logs which endpoints have operations outstanding that complete on this EVD.
void trace_outstanding(adapter &, const evd &);

} // namespace dapl::DAPL_TRANSPORT::core
