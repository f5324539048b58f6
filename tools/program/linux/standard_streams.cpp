// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/standard_streams.hpp"

#include "program/system.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

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
    ::_exit(1);
}

} // namespace

void guard_standard_streams()
{
    int opened;
    do {
        opened = ::open("/dev/null", O_RDWR);
    } while (opened >= 0 && opened <= STDERR_FILENO);
    if (opened >= 0)
        ::close(opened);
    std::atexit(expect_written);
}

} // namespace program
