// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Where and how results were made, so that they can be compared later.
#pragma once

#include <string>
#include <vector>

namespace program {

struct origin {
    std::string program; ///< "dat-perf 1.0.0"
    std::string date;    ///< local time with its offset: "2026-01-31 12:00:00 +0100"
    std::string host;
    std::string kernel;      ///< "Linux 6.1.0-31-amd64 x86_64"
    std::string processor;   ///< model; empty where the system does not tell
    unsigned processors = 0; ///< number that this process may use
    double load = 0;         ///< processes that wanted a processor, in the last minute
    std::vector<std::string> arguments;

    /// "host, processor, kernel, date", for a picture or a page.
    std::string text() const;
    /// A sentence if other work wants most of the machine, or nothing.
    std::string warning() const;
};

/// Asks the system. command_line::parse() calls it, before anything is measured.
void note_origin(const std::string &program, int argc, const char *const *argv);
/// What note_origin() found.
const origin &this_origin();

} // namespace program
