// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Opening and closing an adapter.
#pragma once

#include "adapter.hpp"

namespace dapl::DAPL_TRANSPORT::core {

/// Opens an adapter. With a null handle its async EVD is made, of this length; otherwise it is
/// shared.
status open_adapter(const provider_line &line, DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd,
                    DAT_IA_HANDLE *out);
/// Only an abrupt close destroys the consumer's objects.
status close_adapter(adapter &ia, DAT_CLOSE_FLAGS flags);

// Defined in provider.cpp, which knows how the library was loaded.

/// The line of dat.conf of this name and promise about threads, or null.
const provider_line *find_line(const char *name, bool thread_safe);

/// Threads that left a wait because of a close may still execute their last instructions here when
/// the registry unloads the library. Keeps it in memory until it is loaded once more.
void outlive_leaving_threads();
/// Keeps the library loaded for good, because threads run in it that cannot be waited for.
void stay_loaded();

} // namespace dapl::DAPL_TRANSPORT::core
