// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "udp_link.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <unistd.h>

namespace bench {

namespace {

constexpr std::uint32_t largest = 65507;

} // namespace

udp_link::udp_link(const std::string &node, std::uint32_t max_size)
    : memory_(std::min(max_size, largest)), socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0))
{
    const sockaddr_storage address = any_port_of(node);
    if (socket_ < 0 ||
        bind(socket_, reinterpret_cast<const sockaddr *>(&address), sizeof(sockaddr_in)) != 0)
        fail("socket");
}

udp_link::~udp_link()
{
    if (socket_ >= 0)
        close(socket_);
}

sockaddr_storage udp_link::address() const
{
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (getsockname(socket_, reinterpret_cast<sockaddr *>(&own), &size) != 0)
        fail("getsockname");
    return own;
}

void udp_link::meet(const sockaddr_storage &peer)
{
    if (::connect(socket_, reinterpret_cast<const sockaddr *>(&peer), sizeof(sockaddr_in)) != 0)
        fail("connect");
}

bool udp_link::is_empty()
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

void udp_link::fail(const char *call)
{
    throw program::failure(std::string("UDP socket: ") + call + ": " + std::strerror(errno));
}

} // namespace bench
