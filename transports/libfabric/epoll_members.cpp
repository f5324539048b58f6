// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "epoll_members.hpp"

#include <cstdlib>
#include <cstring>
#include <sys/epoll.h>

namespace dapl::libfabric::ofi {

namespace {

bool is_epoll_set(int fd)
{
    epoll_event ignored;
    return epoll_wait(fd, &ignored, 1, 0) >= 0;
}

} // namespace

void epoll_members::open(int set)
{
    char path[40];
    std::snprintf(path, sizeof path, "/proc/self/fdinfo/%d", set);
    info_.reset(std::fopen(path, "re"));
}

void epoll_members::restart()
{
    if (info_)
        std::rewind(info_.get());
}

bool epoll_members::next(member &found)
{
    constexpr char fd_label[] = "tfd:";
    constexpr char inode_label[] = "ino:";
    char line[256];
    while (info_ && std::fgets(line, sizeof line, info_.get()) != nullptr) {
        const char *const fd = std::strstr(line, fd_label);
        const char *const inode = std::strstr(line, inode_label);
        if (fd != line || inode == nullptr)
            continue;
        found.fd = static_cast<int>(std::strtol(fd + std::strlen(fd_label), nullptr, 10));
        found.inode = std::strtoul(inode + std::strlen(inode_label), nullptr, 16);
        return true;
    }
    return false;
}

int set_within(int set, int but)
{
    epoll_members members;
    members.open(set);
    for (epoll_members::member each{}; members.next(each);) {
        if (each.fd != but && is_epoll_set(each.fd))
            return each.fd;
    }
    return -1;
}

} // namespace dapl::libfabric::ofi
