// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// From the errno of a control operation to DAT.
#pragma once

#include "dapl_status.hpp"

namespace dapl::DAPL_TRANSPORT {

/// What the consumer sees of an operation that failed with this errno; internal error for those
/// that say nothing about the call.
status status_of_errno(int error);

/// The process or the system ran out of something; a later call may succeed.
bool lacks_resources(int error);

} // namespace dapl::DAPL_TRANSPORT
