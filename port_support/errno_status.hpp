// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Turns errno into DAT return codes.
#pragma once

#include "dapl_status.hpp"

#include <cstdint>
#include <dat2/udat.h>

namespace dapl::DAPL_TRANSPORT {

/// The DAT status of an operation that failed with this errno; internal error for an errno that
/// says nothing about the call.
status status_of_errno(int error);

/// Logs that this call failed with this errno; returns the status for it.
status call_failed(const char *device, const char *call, int error);

/// Logs that a call which was to listen on this port failed; returns the status for it.
status listen_failed(const char *device, const char *call, std::uint16_t port, int error);

/// The process or the system ran out of something; a later call may succeed.
bool lacks_resources(int error);

/// How an operation ended whose connection is over a socket: flushed where the connection ended
/// below it, a transport error where the errno says nothing about the operation.
DAT_DTO_COMPLETION_STATUS dto_status_of_errno(int error);

/// Why an attempt to connect a socket failed.
DAT_EVENT_NUMBER connection_event_of_errno(int error);

} // namespace dapl::DAPL_TRANSPORT
