// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The sockets below libfabric's tcp endpoints. libfabric does not show them, so they are looked for
// among the descriptors of the process.
#include "internal.hpp"
#include "socket_search.hpp"

#include <algorithm>
#include <fcntl.h>

namespace dapl::libfabric::ofi {

namespace {

bool ends_of(fid_ep &ep, port_support::socket_ends &found)
{
    std::size_t local_size = sizeof(found.local);
    std::size_t peer_size = sizeof(found.peer);
    return fi_getname(&ep.fid, &found.local, &local_size) == 0 &&
           fi_getpeer(&ep, &found.peer, &peer_size) == 0;
}

/// libfabric would leave it to every program that this process executes: there it would keep the
/// connection open, or the port taken, after the end of this process.
void close_in_programs(int fd)
{
    if (fd >= 0)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/// Bounds how long libfabric may block in a read from a socket that it accepts there, since this
/// port's service thread has the lock of the adapter meanwhile. Accepted sockets inherit the limit.
void bound_reads(int listener)
{
    const timeval at_once{0, 1};
    if (listener >= 0)
        (void)setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &at_once, sizeof at_once);
}

} // namespace

void find_socket(const passive &listener)
{
    const int fd = port_support::find_socket({listener.address, {}}, 0);
    close_in_programs(fd);
    bound_reads(fd);
}

void shut_socket(const passive &listener)
{
    const int fd = port_support::find_socket({listener.address, {}}, 0);
    if (fd >= 0)
        (void)shutdown(fd, SHUT_RDWR);
}

void find_socket(request &r, int &hint)
{
    r.socket = port_support::find_socket({r.from->address, r.source}, hint);
    hint = std::max(r.socket, 0); // the next one has its number if it is refused
    close_in_programs(r.socket);
}

void find_socket(qp &q, int &hint)
{
    osd::lock_guard hold(q.lock);
    port_support::socket_ends ends;
    if (!ends_of(*q.fid, ends))
        return;
    q.socket = port_support::find_socket(ends, hint);
    hint = q.socket + 1;
    close_in_programs(q.socket);
}

void shut_socket(qp &q)
{
    if (q.socket >= 0)
        (void)shutdown(q.socket, SHUT_RDWR);
}

namespace {

std::optional<std::uint64_t> bytes_moved(qp &q)
{
    osd::lock_guard hold(q.lock);
    return q.fid != nullptr ? port_support::bytes_moved(q.socket) : 0;
}

} // namespace

/// The number of bytes moved; if it is not known, a new number every two milliseconds.
std::uint64_t cq::moved_so_far()
{
    std::uint64_t sum = 0;
    for (qp *q = device->qps.front(); q != nullptr; q = device->qps.after(*q)) {
        if (!q->is_established() || (q->send_cq != this && q->recv_cq != this))
            continue;
        const std::optional<std::uint64_t> moved = bytes_moved(*q);
        if (!moved)
            return static_cast<std::uint64_t>(osd::now_ns()) >> 21;
        sum += *moved;
    }
    return sum;
}

bool hung_up(qp &q)
{
    osd::lock_guard hold(q.lock);
    return q.fid != nullptr && port_support::has_hung_up(q.socket);
}

} // namespace dapl::libfabric::ofi
