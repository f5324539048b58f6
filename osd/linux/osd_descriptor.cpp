// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_descriptor.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

namespace osd {

bool event_descriptor::open()
{
    fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return is_open();
}

void event_descriptor::close()
{
    if (is_open())
        ::close(fd_);
    fd_ = -1;
}

void event_descriptor::raise()
{
    if (is_open())
        (void)::eventfd_write(fd_, 1);
}

void event_descriptor::lower()
{
    eventfd_t count = 0;
    if (is_open())
        (void)::eventfd_read(fd_, &count); // fails when it was not raised
}

} // namespace osd
