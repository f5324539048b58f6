// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The child's side of a judged case: runs it, and tells the parent what it finds.
#pragma once

#include "harness/catalogue.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace conformance {

/// What a process holds that a case might leave behind, each by a name for people.
struct belongings {
    std::vector<std::string> descriptors;
    std::vector<std::string> threads;
};
belongings what_is_held();

/// What opening the adapter once and for all may cost, because a library keeps it.
struct leeway {
    std::size_t descriptors = 0;
    std::size_t threads = 0;
};

/// Runs the case in this process, which is a child.
void run_case(const rule &chosen, const leeway &allowed);

/// What the child told, put together again.
struct findings {
    struct failure {
        std::string reason;
        std::string where; ///< file and line
    };
    std::vector<failure> failures;
    std::vector<std::string> notes;
    std::string not_claimed;
    bool complete = false; ///< the case came to its end
};
findings read_findings(const std::vector<std::string> &lines);

} // namespace conformance
