// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What scenarios need of the operating system; a file of linux/ or windows/ has it.
#pragma once

#include "scenario.hpp"

namespace host {

/// Runs `body` in a child process with these variables on top of ours, and its standard output and
/// error in files. Returns how the child ended; 0: well.
int run_child(void (*body)(), const scenario::environment &variables, const std::string &output,
              const std::string &messages);

} // namespace host
