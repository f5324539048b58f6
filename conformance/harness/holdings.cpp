// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/holdings.hpp"

#include "harness/events.hpp"
#include "harness/settings.hpp"

#include <cstdlib>
#include <dirent.h>
#include <fstream>
#include <string>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace conformance {

namespace {

std::size_t mappings()
{
    std::size_t number = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        ++number;
    return number;
}

/// Pages with freed memory alone go back to the system first. malloc() keeps them otherwise while
/// something small behind them is in use, such as a connection request that may be repeated.
std::size_t resident_kib()
{
#ifdef __GLIBC__
    ::malloc_trim(0);
#endif
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind("VmRSS:", 0) == 0)
            return std::strtoul(line.c_str() + 6, nullptr, 10);
    return 0;
}

} // namespace

std::size_t entries_in(const char *folder)
{
    std::size_t number = 0;
    DIR *open = ::opendir(folder);
    while (open != nullptr && ::readdir(open) != nullptr)
        ++number;
    if (open != nullptr)
        ::closedir(open);
    return number;
}

holdings what_we_hold()
{
    return {entries_in("/proc/self/fd"), entries_in("/proc/self/task"), mappings(), resident_kib()};
}

holdings what_we_hold_at_rest(const holdings &before)
{
    holdings now;
    (void)becomes_true(
        [&] {
            now = what_we_hold();
            return now.descriptors <= before.descriptors && now.threads <= before.threads &&
                   now.resident_kib <= before.resident_kib + resident_slack_kib;
        },
        milliseconds(3000));
    return now;
}

} // namespace conformance
