// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/libdat2.hpp"

#include <dat2/udat.h>
#include <dlfcn.h>

namespace program {

std::string libdat2_path()
{
    Dl_info where{};
    if (::dladdr(reinterpret_cast<void *>(&dat_ia_openv), &where) == 0 ||
        where.dli_fname == nullptr)
        return "unknown";
    return where.dli_fname;
}

} // namespace program
