// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What of this machine matters to RDMA and is not an adapter's, for a report.
#pragma once

#include "program/json.hpp"

namespace dat_info {

/// Describes system, libraries, limits and RDMA devices. What cannot be read is null or left out.
program::json machine_json();

} // namespace dat_info
