// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/libdat2.hpp"

#include "program/system.hpp"

namespace program {

/// Asks by name: what a program of Windows calls is a jump inside the program.
std::string libdat2_path()
{
    const std::string path = file_of(find_symbol("dat_ia_openv"));
    return path.empty() ? "unknown" : path;
}

} // namespace program
