// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Whether there is anything to judge: opens the adapter once, in a child, and says why not.
#pragma once

#include "harness/case_child.hpp"

#include <string>
#include <utility>
#include <vector>

namespace conformance {

struct device {
    enum class state {
        open,   ///< it can be judged
        absent, ///< there is none here
        broken, ///< its provider dies of being opened
        unknown ///< we could not try
    };
    state is = state::unknown;
    std::string reason; ///< why it is not open
    std::string output; ///< what the provider said
    /// What adapter and provider say of themselves, in the order in which people want to know it.
    std::vector<std::pair<std::string, std::string>> attributes;
    leeway keeps;
    int signal = 0; ///< that asked us to stop
};

/// At most `seconds` for opening, querying and closing it twice.
device probe_device(double seconds);

} // namespace conformance
