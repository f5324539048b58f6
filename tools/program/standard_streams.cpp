// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/standard_streams.hpp"

#include "program/system.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace program {
namespace {

void expect_written()
{
    const std::string own = own_name();
    const char *const name = own.c_str();
    if (std::ferror(stdout) != 0)
        std::fprintf(stderr, "%s: not all output could be written\n", name);
    else if (std::fflush(stdout) != 0)
        std::fprintf(stderr, "%s: writing the output failed: %s\n", name, std::strerror(errno));
    else
        return;
    std::_Exit(1);
}

} // namespace

void guard_standard_streams()
{
    open_closed_streams();
    std::atexit(expect_written);
}

} // namespace program
