// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Whether the adapter can be tested: opens it in a child process, and reports why it does not open.
#pragma once

#include "harness/case_child.hpp"

#include <string>
#include <vector>

namespace conformance {

struct attribute {
    std::string name;
    std::string kind; ///< "text", "number", "bytes" or "yes/no"
    std::string value;

    std::string text() const { return kind == "bytes" ? value + " bytes" : value; }
};

struct device {
    enum class state {
        open,   ///< it can be judged
        absent, ///< there is none here
        broken, ///< the process that opens it exits early
        unknown ///< we could not try
    };
    state is = state::unknown;
    std::string reason; ///< why it is not open
    std::string output; ///< what the provider said
    /// Attributes of adapter and provider, the most interesting first.
    std::vector<attribute> attributes;
    leeway keeps;
    int signal = 0; ///< that asked us to stop
};

/// Opens, queries and closes the adapter twice, within `seconds`.
device probe_device(double seconds);

} // namespace conformance
