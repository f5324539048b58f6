// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>

namespace program {

/// The file of the libdat2 that this process uses; "unknown" if the loader cannot say.
std::string libdat2_path();

/// Whether the calls of this process go through DAT 1.2; see use_api().
bool is_over_dat12();

/// Chooses version "2.0", or "1.2": then the program is started again with libdat2-over-dat12.so in
/// front of libdat2, which turns its calls into calls of DAT 1.2; the loader takes it at the start
/// of a process only. Throws a failure.
void use_api(const std::string &version, char **argv);

} // namespace program
