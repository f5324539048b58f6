// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "descriptor_wait.hpp"

#include "osd_cancellation.hpp"

#include <cerrno>
#include <ctime>
#include <poll.h>
#include <sys/eventfd.h>

namespace dapl::port_support {

osd::wait_result wait_readable(int fd, int wake, osd::deadline until, bool &readable)
{
    pollfd sources[2] = {{fd, POLLIN, 0}, {wake, POLLIN, 0}}; // a negative one is left out
    const timespec left = until.remaining();
    int ready = 0;
    osd::cancellation_point(
        [&] { ready = ppoll(sources, 2, until.is_never() ? nullptr : &left, nullptr); });
    readable = ready > 0 && sources[0].revents != 0;
    if (ready < 0 && errno == EINTR)
        return osd::wait_result::interrupted;
    const bool closed = ((sources[0].revents | sources[1].revents) & POLLNVAL) != 0;
    // Closed by the program, or more than it may open by now: callers look again, now and then.
    if (ready < 0 || closed) {
        (void)doze(1000, until);
        return osd::wait_result::woken;
    }
    if (sources[1].revents != 0) {
        eventfd_t ignored;
        (void)eventfd_read(wake, &ignored);
    }
    return ready == 0 ? osd::wait_result::timed_out : osd::wait_result::woken;
}

osd::wait_result wait_readable(int fd, osd::deadline until)
{
    bool readable;
    return wait_readable(fd, -1, until, readable);
}

osd::wait_result doze(std::uint32_t us, osd::deadline until)
{
    const osd::deadline soon = osd::deadline::after_us(us);
    const timespec at = (soon < until ? soon : until).as_timespec();
    int error = 0;
    osd::cancellation_point(
        [&] { error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr); });
    return error == EINTR ? osd::wait_result::interrupted : osd::wait_result::timed_out;
}

} // namespace dapl::port_support
