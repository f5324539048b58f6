// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "udp_link.hpp"

#include <algorithm>

namespace bench {

udp_link::udp_link(const std::string &node, std::uint32_t max_size)
    : memory_(std::min(max_size, largest)), socket_(program::socket::open(AF_INET, SOCK_DGRAM))
{
    const sockaddr_storage address = any_port_of(node);
    if (!socket_.is_open() ||
        !socket_.bind(reinterpret_cast<const sockaddr *>(&address), sizeof(sockaddr_in)))
        fail("socket");
}

sockaddr_storage udp_link::address() const
{
    sockaddr_storage own{};
    if (!socket_.own_name(own))
        fail("getsockname");
    return own;
}

void udp_link::meet(const sockaddr_storage &peer)
{
    if (!socket_.connect(reinterpret_cast<const sockaddr *>(&peer), sizeof(sockaddr_in)))
        fail("connect");
}

void udp_link::fail(const char *call)
{
    throw program::failure(std::string("UDP socket: ") + call + ": " + program::socket_error());
}

} // namespace bench
