// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Files that a program writes after long work.
#pragma once

#include <string>

namespace program {

/// Throws a failure, before the work is begun, when no file can be written there; "-" is standard
/// output. Neither makes nor changes a file.
void check_output(const std::string &path);

} // namespace program
