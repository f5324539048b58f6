// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The sockets below libfabric's tcp endpoints. libfabric does not show them, so they are looked for
// among the descriptors of the process.
#include "internal.hpp"
#include "socket_search.hpp"

namespace dapl::libfabric::ofi {

namespace {

bool ends_of(fid_ep &ep, port_support::socket_ends &found)
{
    std::size_t local_size = sizeof(found.local);
    std::size_t peer_size = sizeof(found.peer);
    return fi_getname(&ep.fid, &found.local, &local_size) == 0 &&
           fi_getpeer(&ep, &found.peer, &peer_size) == 0;
}

int socket_of(qp &q) OSD_REQUIRES(q.lock)
{
    port_support::socket_ends ends;
    std::atomic<int> &hint = q.device->socket_hint;
    if (q.socket < 0 && ends_of(*q.fid, ends)) {
        q.socket = port_support::find_socket(ends, hint.load(std::memory_order_relaxed));
        hint.store(q.socket + 1, std::memory_order_relaxed);
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
    return q.fid != nullptr && port_support::has_hung_up(socket_of(q));
}

} // namespace dapl::libfabric::ofi
