// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/libdat2.hpp"

#include "program/system.hpp"

#include <dat2/udat.h>

namespace program {

std::string libdat2_path()
{
    const std::string path = file_of(reinterpret_cast<const void *>(&dat_ia_openv));
    return path.empty() ? "unknown" : path;
}

} // namespace program
