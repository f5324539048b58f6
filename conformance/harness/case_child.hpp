// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The child process of a case: runs it, and reports its findings to the parent.
#pragma once

#include "harness/catalogue.hpp"
#include "harness/holdings.hpp"
#include "program/child_process.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace conformance {

/// Resources that remain after the adapter was opened once, because a library keeps them.
struct leeway {
    std::size_t descriptors = 0;
    std::size_t threads = 0;
};

/// Runs a case in this process, which is a child.
extern const program::job case_job;
/// What the job is told.
std::string case_argument(const rule &chosen, const leeway &allowed);

/// The report of the child, reassembled.
struct findings {
    struct failure {
        std::string reason;
        std::string where; ///< file and line
    };
    std::vector<failure> failures;
    std::vector<std::string> notes;
    std::string not_claimed;
    std::string refused_call; ///< that ended the case as not claimed
    bool complete = false;    ///< the case ran to its end
};
findings read_findings(const std::vector<std::string> &lines);

} // namespace conformance
