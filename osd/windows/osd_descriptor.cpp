// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_descriptor.hpp"

namespace osd {

int beyond_standard(int fd)
{
    return fd;
}

void occupy_standard() {}

bool event_descriptor::open()
{
    return false;
}

void event_descriptor::close() {}

void event_descriptor::raise() {}

void event_descriptor::lower() {}

wait_result wait_readable(std::span<const int>, deadline, std::uint64_t &ready)
{
    ready = 0;
    return wait_result::timed_out;
}

} // namespace osd
