// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_sharing.hpp"

#include <windows.h>

namespace osd {

bool can_share()
{
    return false;
}

const char *shared_pages::open(const char *, std::size_t)
{
    return "there is no such memory on Windows yet";
}

const char *shared_pages::view(const char *name, std::size_t size)
{
    return open(name, size);
}

void shared_pages::close() {}

bool shared_pages::is_whole() const
{
    return false;
}

const char *offered_pages::open(const char *, std::size_t)
{
    return "there are no such pages on Windows yet";
}

void offered_pages::close() {}

process_identity this_process()
{
    return {static_cast<std::uint32_t>(GetCurrentProcessId()), 0, 0};
}

bool is_gone(const process_identity &)
{
    return false;
}

} // namespace osd
