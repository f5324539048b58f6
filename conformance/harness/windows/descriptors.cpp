// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A descriptor is a socket, and Winsock was started by who made it. In place of epoll, which has no
// like there, WSAPoll waits for one.
#include "harness/descriptors.hpp"

#include <winsock2.h>

namespace conformance {

bool is_readable(int fd, milliseconds time)
{
    WSAPOLLFD one{static_cast<SOCKET>(fd), POLLRDNORM, 0};
    return WSAPoll(&one, 1, static_cast<int>(time.count())) == 1 && one.revents == POLLRDNORM;
}

bool is_closed(int fd)
{
    int type = 0;
    int size = sizeof type;
    return getsockopt(static_cast<SOCKET>(fd), SOL_SOCKET, SO_TYPE, reinterpret_cast<char *>(&type),
                      &size) != 0 &&
           WSAGetLastError() == WSAENOTSOCK;
}

descriptor_set::descriptor_set() : fd_(-1) {}

descriptor_set::~descriptor_set() = default;

bool descriptor_set::add(int fd)
{
    if (fd_ >= 0)
        return false;
    fd_ = fd;
    return fd >= 0;
}

int descriptor_set::wait(milliseconds time) const
{
    return is_readable(fd_, time) ? 1 : 0;
}

} // namespace conformance
