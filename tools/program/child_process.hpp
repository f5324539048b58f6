// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Work in a process of its own: whatever happens there, its parent hears of it and goes on. On
// Linux the child is a copy of its parent; on Windows it is a second start of
// the program, with its command line.
#pragma once

#include "program/named.hpp"

#include <chrono>
#include <memory>
#include <span>
#include <string>

namespace program {

/// A kind of work, with a name that parent and child know it by.
struct job : named<job> {
    using function = void (*)(const std::string &argument);

    job(const char *name, function task) : named(name), work(task) {}

    function work;
};

/// Runs the job that this process was started for, and ends the process; returns at once in a
/// process that is no child. Programs call it when they have read their options.
void become_child();

/// How a child ended.
struct process_end {
    int exit_status = 0;
    int signal = 0;    ///< signal that ended it
    std::string name;  ///< name of that signal, or of an exception: "SIGSEGV"
    std::string death; ///< "" for exit status 0, "SIGSEGV (Segmentation fault)"
    bool crashed() const { return !death.empty() && exit_status == 0; }
};

/// A child, with the processes that it starts: they all end with this object.
class child_process {
public:
    child_process();
    child_process(const child_process &) = delete;
    child_process &operator=(const child_process &) = delete;
    ~child_process();

    /// Returns nothing, or why there is no such process.
    std::string start(const job &what, const std::string &argument);
    /// Appends what the child has reported and written since.
    void read(std::string &reports, std::string &output);
    /// Whether it has ended; then processes that it has left behind are ended, too.
    bool has_ended(process_end &how);
    void kill();
    /// Memory of both processes, which outlives the child; zero at first.
    void *shared() const;
    static constexpr std::size_t shared_bytes = 4096;

    /// Sleeps until one of the children has something to say or has ended, or so long.
    static void wait_for_any(std::span<child_process *const> children,
                             std::chrono::milliseconds limit);
    struct parts; ///< the system's

private:
    std::unique_ptr<parts> parts_;
};

/// Ends all processes that children have started and that belong to none. A process that is blocked
/// in a driver may not end.
void end_strays();

// A child calls these:
/// Reports bytes to the parent, which has them even if the child crashes next.
void report(const std::string &bytes);
/// Memory of both processes; null in a process that is no child.
void *shared_with_parent();

} // namespace program
