// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What this process holds of the system: a leak shows as growth.
#pragma once

#include <cstddef>

namespace conformance {

/// The number of entries of a folder, "." and ".." included.
std::size_t entries_in(const char *folder);

struct holdings {
    std::size_t descriptors = 0;
    std::size_t threads = 0;
    std::size_t mappings = 0;
    std::size_t resident_kib = 0; ///< resident memory less freed memory
};

holdings what_we_hold();
/// Memory may differ by this much without a leak.
inline constexpr std::size_t resident_slack_kib = 2048;

/// Our holdings, when they are no more than before, or after a while: a thread that was joined
/// stays listed until the kernel is done with it, and a peer notices an end soon, not at once.
holdings what_we_hold_at_rest(const holdings &before);

} // namespace conformance
