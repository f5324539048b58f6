// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "socket_search.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <dirent.h>
#include <memory>
#include <poll.h>

namespace dapl::port_support {

namespace {

bool has_ends(int fd, const socket_ends &wanted)
{
    socket_ends found;
    socklen_t local_size = sizeof(found.local);
    socklen_t peer_size = sizeof(found.peer);
    return getsockname(fd, reinterpret_cast<sockaddr *>(&found.local), &local_size) == 0 &&
           (getpeername(fd, reinterpret_cast<sockaddr *>(&found.peer), &peer_size) == 0 ||
            errno == ENOTCONN) &&
           std::memcmp(&found, &wanted, sizeof(found)) == 0;
}

} // namespace

int find_socket(const socket_ends &wanted, int hint)
{
    constexpr int neighbours = 16;
    for (int fd = hint; fd < hint + neighbours; ++fd) {
        if (has_ends(fd, wanted))
            return fd;
    }
    // Only descriptors that are open are tried: a process may have room for a million.
    const std::unique_ptr<DIR, int (*)(DIR *)> open(opendir("/proc/self/fd"), &closedir);
    while (const dirent *entry = open ? readdir(open.get()) : nullptr) {
        int fd = -1;
        const char *end = entry->d_name + std::strlen(entry->d_name);
        if (std::from_chars(entry->d_name, end, fd).ptr == end && has_ends(fd, wanted))
            return fd;
    }
    return -1;
}

bool has_hung_up(int fd)
{
    pollfd look{fd, POLLRDHUP, 0};
    return fd >= 0 && poll(&look, 1, 0) == 1;
}

} // namespace dapl::port_support
