// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Datagrams between two sockets that both sides poll: the baseline of any transport over UDP. It
// serves ping-pong only: nothing is repeated, and a lost datagram ends the measurement.
#pragma once

#include "channel.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace bench {

class udp_link {
public:
    udp_link(const std::string &node, std::uint32_t max_size);
    ~udp_link();
    udp_link(const udp_link &) = delete;

    sockaddr_storage address() const;
    void meet(const sockaddr_storage &peer);

    void post_receive() {}
    void post_send(std::uint32_t size)
    {
        if (send(socket_, memory_.data(), size, 0) != static_cast<ssize_t>(size)) [[unlikely]]
            fail("send");
    }
    bool poll_request() { return true; }
    bool poll_receive()
    {
        const ssize_t got = recv(socket_, memory_.data(), memory_.size(), MSG_DONTWAIT);
        if (got < 0 && !is_empty()) [[unlikely]]
            fail("recv");
        return got >= 0;
    }

private:
    static bool is_empty();
    [[noreturn]] static void fail(const char *call);

    std::vector<std::byte> memory_;
    int socket_;
};

} // namespace bench
