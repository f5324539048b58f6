// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Work in a process of its own with a deadline: whatever a provider does there, we hear of it and
// go on.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace dat_info {

/// A line of a child's report: its kind, and up to four texts.
using record = std::array<std::string, 5>;

/// Reports of the child. Records written before a crash reach the parent.
class teller {
public:
    explicit teller(int fd) : fd_(fd) {}
    void tell(std::string_view what, std::string_view a = "", std::string_view b = "",
              std::string_view c = "", std::string_view d = "") const;

private:
    int fd_;
};

struct child_end {
    bool late = false;   ///< it was killed at the deadline
    int signal = 0;      ///< that it died of by itself
    int exit_status = 0; ///< exit status, if no signal ended it
    std::vector<record> told;
    std::vector<std::string> output; ///< lines of its standard output and error
};

struct task {
    std::function<void(const teller &)> work; ///< work of the child; its return ends it
    std::function<void(child_end)> done;      ///< here
};

/// Runs the tasks, several at a time, each until its end or for so many seconds. Throws a
/// std::runtime_error when there are no processes to be had.
void run_children(std::vector<task> tasks, double seconds);

} // namespace dat_info
