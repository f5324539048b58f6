// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/libdat2.hpp"

#include "program/failure.hpp"
#include "program/system.hpp"

#include <cstdlib>
#include <unistd.h>

namespace program {

namespace {

constexpr const char *over_dat12 = "libdat2-over-dat12.so";

/// Returns its path in an installation, where it is in a folder beside libdat2. In a build tree the
/// loader finds it by its name.
std::string over_dat12_path()
{
    const std::string libdat2 = libdat2_path();
    const std::string installed = libdat2.substr(0, libdat2.rfind('/') + 1) + "dapl/" + over_dat12;
    return ::access(installed.c_str(), R_OK) == 0 ? installed : over_dat12;
}

} // namespace

bool is_over_dat12()
{
    return libdat2_path().find(over_dat12) != std::string::npos;
}

void use_api(const std::string &version, char **argv)
{
    if (version != "2.0" && version != "1.2")
        throw failure("--api: " + version + " is neither 2.0 nor 1.2");
    if (version == "2.0" || is_over_dat12())
        return;
    const char *before = std::getenv("LD_PRELOAD");
    const std::string others = before != nullptr ? before : "";
    if (others.find(over_dat12) != std::string::npos)
        throw failure(std::string("--api 1.2: the loader does not find ") + over_dat12 +
                      "; name its folder in LD_LIBRARY_PATH");
    const std::string preload = others + (others.empty() ? "" : ":") + over_dat12_path();
    set_variable("LD_PRELOAD", preload);
    throw failure("--api 1.2: cannot start again: " + start_again(argv));
}

} // namespace program
