// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "socket_search.hpp"

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <dirent.h>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>

namespace dapl::port_support {

namespace {

/// The kernel's description of a TCP socket, up to the last member that is read here. The C
/// library's structure ends with the retransmissions or goes on, by its version.
struct kernel_tcp_info {
    std::uint8_t state;
    std::uint8_t until_options[7];
    std::uint32_t until_last_ack_sent[11];
    std::uint32_t last_data_recv;
    std::uint32_t until_total_retrans[12];
    std::uint64_t pacing_rates[2];
    std::uint64_t bytes_acked;
    std::uint64_t bytes_received;
    std::uint32_t segments[2];
    std::uint32_t bytes_not_sent;
};
static_assert(offsetof(kernel_tcp_info, state) == offsetof(tcp_info, tcpi_state));
static_assert(offsetof(kernel_tcp_info, last_data_recv) == offsetof(tcp_info, tcpi_last_data_recv));
static_assert(offsetof(kernel_tcp_info, pacing_rates) ==
              offsetof(tcp_info, tcpi_total_retrans) + sizeof(tcp_info::tcpi_total_retrans));

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

bool read_info(int fd, kernel_tcp_info &info, int &unread)
{
    socklen_t size = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return false;
    unread = 0;
    return info.bytes_received == 0 || ioctl(fd, FIONREAD, &unread) == 0;
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

std::optional<std::uint32_t> unused_ms(int fd)
{
    kernel_tcp_info info{};
    int unread = 0;
    if (!read_info(fd, info, unread) || info.state != TCP_ESTABLISHED || unread != 0)
        return std::nullopt;
    return info.bytes_received != 0 ? UINT32_MAX : info.last_data_recv;
}

std::optional<std::uint64_t> bytes_moved(int fd)
{
    kernel_tcp_info info{};
    int unread = 0;
    if (!read_info(fd, info, unread))
        return std::nullopt;
    const std::uint64_t in = 2 * info.bytes_received - static_cast<std::uint64_t>(unread);
    const std::uint64_t out = 2 * info.bytes_acked + info.bytes_not_sent;
    return in + out;
}

} // namespace dapl::port_support
