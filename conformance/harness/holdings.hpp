// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What this process holds of the system: a leak shows as growth.
#pragma once

#include "harness/settings.hpp"

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace conformance {

/// Resources of a process that a case might leak, each by a readable name.
struct belongings {
    std::vector<std::string> descriptors;
    std::vector<std::string> threads;
};
belongings what_is_held();
/// The files of the libraries that are mapped.
std::set<std::string> mapped_libraries();
/// Looks several times, and tells in how many of `looks` another thread of this process runs, or
/// would if a processor were free; pauses as long between them.
int looks_with_running_threads(int looks, milliseconds pause);

/// Lets this process have as many descriptors as it may; their number.
std::size_t open_all_descriptors();

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
