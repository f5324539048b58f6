// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/descriptors.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace conformance {

bool is_readable(int fd, milliseconds time)
{
    pollfd asked{fd, POLLIN, 0};
    return ::poll(&asked, 1, static_cast<int>(time.count())) == 1;
}

bool is_closed(int fd)
{
    pollfd asked{fd, POLLIN, 0};
    return ::poll(&asked, 1, 0) == 1 && (asked.revents & POLLNVAL) != 0;
}

descriptor_set::descriptor_set() : fd_(::epoll_create1(EPOLL_CLOEXEC)) {}

descriptor_set::~descriptor_set()
{
    ::close(fd_);
}

bool descriptor_set::add(int fd)
{
    epoll_event wanted{EPOLLIN, {}};
    return ::epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &wanted) == 0;
}

int descriptor_set::wait(milliseconds time) const
{
    epoll_event found{};
    return ::epoll_wait(fd_, &found, 1, static_cast<int>(time.count()));
}

} // namespace conformance
