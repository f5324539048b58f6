// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Locks of the stress program.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace stress {

using mutex = std::mutex;
using shared_mutex = std::shared_mutex;

} // namespace stress
