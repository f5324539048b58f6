// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The counters of running programs, again and again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dat_info {

struct watching {
    std::vector<std::string> adapters; ///< only these; all, if there are none
    double interval = 1;               ///< seconds between looks
    std::uint32_t looks = 0;           ///< until the programs have ended, if 0
    bool json = false;
};

/// Prints what programs offer until there is no offer left. False if there has been none.
bool watch(const watching &wanted);

} // namespace dat_info
