// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/libdat2.hpp"

#include "program/failure.hpp"

namespace program {

bool is_over_dat12()
{
    return false;
}

void use_api(const std::string &version, char **)
{
    if (version != "2.0")
        throw failure("--api: " + version + " is not 2.0; there is no other on Windows");
}

} // namespace program
