// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "descriptor_wait.hpp"

#include "osd_cancellation.hpp"
#include "osd_descriptor.hpp"

#include <sys/eventfd.h>

namespace dapl::port_support {

namespace {

osd::wait_result sleep_on(std::span<const int> descriptors, osd::deadline until,
                          std::uint64_t &ready)
{
    osd::wait_result result{};
    osd::cancellation_point([&] { result = osd::wait_readable(descriptors, until, ready); });
    return result;
}

} // namespace

osd::wait_result wait_readable(int fd, int wake, osd::deadline until, bool &readable)
{
    const int sources[2] = {fd, wake};
    std::uint64_t ready = 0;
    const osd::wait_result result = sleep_on(sources, until, ready);
    readable = (ready & 1) != 0;
    if ((ready & 2) != 0) {
        eventfd_t ignored;
        (void)eventfd_read(wake, &ignored);
    }
    return result;
}

osd::wait_result wait_either_readable(int fd, int other, osd::deadline until)
{
    const int sources[2] = {fd, other};
    std::uint64_t ready = 0;
    return sleep_on(sources, until, ready);
}

osd::wait_result wait_readable(int fd, osd::deadline until)
{
    bool readable;
    return wait_readable(fd, -1, until, readable);
}

osd::wait_result doze(std::uint32_t us, osd::deadline until)
{
    const osd::deadline soon = osd::deadline::after_us(us);
    std::uint64_t none = 0;
    return sleep_on({}, soon < until ? soon : until, none);
}

} // namespace dapl::port_support
