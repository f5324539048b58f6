// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Runs jobs in child processes. Each child is killed at its timeout, with its descendants.
// Independent of DAT.
#pragma once

#include "program/child_process.hpp"

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace conformance {

/// How a child ended.
struct child_end {
    std::vector<std::string> lines; ///< lines it reported with tell()
    std::string output;             ///< bytes written to standard output and error
    std::string last_step;          ///< the last call that it started
    std::string trouble;            ///< why the child could not be started
    double seconds = 0;
    double allowed = 0;
    program::process_end how;
    bool late = false;
};

struct child_task {
    const program::job *work = nullptr; ///< runs in the child, which exits after it
    std::string argument;
    std::function<void(const child_end &)> done;
    double seconds = 0;
    bool alone = false;
};

/// Runs all tasks, up to `jobs` in parallel; tasks with `alone` run last, one at a time. `tick` is
/// called several times a second. Returns the number of the signal that interrupted it, or 0.
int run_children(std::vector<child_task> tasks, unsigned jobs,
                 const std::function<void(unsigned running)> &tick);

// A child calls these functions:
/// Reports a line to the parent.
void tell(const std::string &line);
void tell_json(const nlohmann::json &what);
/// Sets the total time limit of this child.
void tell_allowed(unsigned seconds);

} // namespace conformance
