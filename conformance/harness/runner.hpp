// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Children that are judged: each runs its work in a process group of its own, until it ends or its
// time is up, and nothing of it stays behind. This file knows nothing of DAT.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace conformance {

/// What became of a child.
struct child_end {
    std::vector<std::string> lines; ///< what it told us
    std::string output;             ///< what it wrote to its standard output and error
    std::string last_step;          ///< the call it had begun last
    std::string trouble;            ///< why there was no such child
    double seconds = 0;
    double allowed = 0;
    int status = 0; ///< as of waitpid
    bool late = false;

    /// "" for an end of its own with status 0; else in words: "SIGSEGV (Segmentation fault)".
    std::string death() const;
};

struct child_task {
    std::function<void()> work; ///< in the child, which ends with it
    std::function<void(const child_end &)> done;
    double seconds = 0;
    bool alone = false;
};

/// Runs all of them, up to `jobs` at a time, those that want to be alone at last. `tick` is called
/// several times a second. Returns the number of a signal that asked us to stop, or 0.
int run_children(std::vector<child_task> tasks, unsigned jobs,
                 const std::function<void(unsigned running)> &tick);

// In a child:
/// Tells the parent a line.
void tell(const std::string &line);
/// Tells the parent that it may take this long in all.
void tell_allowed(unsigned seconds);

/// A folder for what the children leave lying about, TMPDIR to them; it goes with the object.
class scratch {
public:
    scratch();
    scratch(const scratch &) = delete;
    scratch &operator=(const scratch &) = delete;
    ~scratch();

private:
    std::string path_;
    int owner_;
};

} // namespace conformance
