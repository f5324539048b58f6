// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The sockets below libfabric's tcp endpoints. libfabric does not show them, so they are looked for
// among the descriptors of the process: no two sockets share both addresses.
#include "internal.hpp"

#include <charconv>
#include <cstring>
#include <dirent.h>
#include <memory>
#include <poll.h>
#include <sys/socket.h>

namespace dapl::libfabric::ofi {

namespace {

struct ends {
    sockaddr_storage local{};
    sockaddr_storage peer{};

    bool operator==(const ends &other) const
    {
        return std::memcmp(&local, &other.local, sizeof(local)) == 0 &&
               std::memcmp(&peer, &other.peer, sizeof(peer)) == 0;
    }
};

bool ends_of(int fd, ends &found)
{
    socklen_t local_size = sizeof(found.local);
    socklen_t peer_size = sizeof(found.peer);
    return getsockname(fd, reinterpret_cast<sockaddr *>(&found.local), &local_size) == 0 &&
           getpeername(fd, reinterpret_cast<sockaddr *>(&found.peer), &peer_size) == 0;
}

bool ends_of(fid_ep &ep, ends &found)
{
    std::size_t local_size = sizeof(found.local);
    std::size_t peer_size = sizeof(found.peer);
    return fi_getname(&ep.fid, &found.local, &local_size) == 0 &&
           fi_getpeer(&ep, &found.peer, &peer_size) == 0;
}

bool leads(int fd, const ends &wanted)
{
    ends found;
    return ends_of(fd, found) && found == wanted;
}

/// Endpoints made one after the other have neighbouring descriptors, so `hint` is nearly right most
/// of the time. If it is not, only the descriptors that are open are tried: a process may have a
/// million.
int find_socket(const ends &wanted, int hint)
{
    constexpr int neighbours = 16;
    for (int fd = hint; fd < hint + neighbours; ++fd) {
        if (leads(fd, wanted))
            return fd;
    }
    const std::unique_ptr<DIR, int (*)(DIR *)> open(opendir("/proc/self/fd"), &closedir);
    while (const dirent *entry = open ? readdir(open.get()) : nullptr) {
        int fd = -1;
        const char *end = entry->d_name + std::strlen(entry->d_name);
        if (std::from_chars(entry->d_name, end, fd).ptr == end && leads(fd, wanted))
            return fd;
    }
    return -1;
}

int socket_of(qp &q) OSD_REQUIRES(q.lock)
{
    ends wanted;
    if (q.socket < 0 && ends_of(*q.fid, wanted)) {
        q.socket = find_socket(wanted, q.device->socket_hint.load(std::memory_order_relaxed));
        q.device->socket_hint.store(q.socket + 1, std::memory_order_relaxed);
    }
    return q.socket;
}

} // namespace

void shut_socket(qp &q)
{
    const int fd = socket_of(q);
    if (fd >= 0)
        (void)shutdown(fd, SHUT_RDWR);
}

bool hung_up(qp &q)
{
    osd::lock_guard hold(q.lock);
    if (q.fid == nullptr)
        return false;
    pollfd look{socket_of(q), POLLRDHUP, 0};
    return look.fd >= 0 && poll(&look, 1, 0) == 1;
}

} // namespace dapl::libfabric::ofi
