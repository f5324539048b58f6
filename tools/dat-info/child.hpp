// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Work in a process of its own with a deadline: whatever a provider does there, we hear of it and
// go on.
#pragma once

#include "program/child_process.hpp"

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace dat_info {

/// A line of a child's report: its kind, and up to four texts.
using record = std::array<std::string, 5>;

/// Reports of the child. Records written before a crash reach the parent.
class teller {
public:
    void tell(std::string_view what, std::string_view a = "", std::string_view b = "",
              std::string_view c = "", std::string_view d = "") const;
};
/// Ends the child without what libraries do then.
[[noreturn]] void end_child();

struct child_end {
    bool late = false; ///< it was killed at the deadline
    program::process_end how;
    std::vector<record> told;
    std::vector<std::string> output; ///< lines of its standard output and error
};

struct task {
    const program::job *work; ///< work of the child
    std::string argument;
    std::function<void(child_end)> done; ///< here
};

/// Runs the tasks, several at a time, each until its end or for so many seconds. Throws a
/// std::runtime_error when there are no processes to be had.
void run_children(std::vector<task> tasks, double seconds);

} // namespace dat_info
