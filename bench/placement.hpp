// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Where the two processes of a measurement run, and how far apart that is. On virtual machines the
// distance between two CPUs changes under our feet, so it is measured next to each batch.
#pragma once

#include "channel.hpp"

#include <atomic>
#include <optional>
#include <utility>

namespace bench {

/// The two CPUs to use; nothing when there is only one.
std::optional<std::pair<int, int>> two_cpus();

/// Keeps the calling thread on one CPU; its later children inherit that, so open adapters first.
void pin_to(int cpu);

/// Measures how long a cache line takes from one process to the other. Made before the fork.
class line_probe {
public:
    line_probe();
    ~line_probe();
    line_probe(const line_probe &) = delete;

    /// Both sides call their function at one time. The result is in nanoseconds, 0 when the other
    /// side did not come.
    double lead();
    void follow();

private:
    struct shared_line;
    shared_line *line_;
};

/// A crossing that takes longer than this is "far".
constexpr double far_ns = 130;

inline const char *distance(double ns)
{
    return ns < far_ns ? "near" : "far";
}

} // namespace bench
