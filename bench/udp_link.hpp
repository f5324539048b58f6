// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Datagrams between two sockets that both sides poll: the baseline of any transport over UDP. It
// serves ping-pong only: nothing is repeated, and a lost datagram ends the measurement.
#pragma once

#include "channel.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bench {

class udp_link {
public:
    static constexpr std::uint32_t largest = 65507; ///< bytes of a datagram

    udp_link(const std::string &node, std::uint32_t max_size);

    sockaddr_storage address() const;
    void meet(const sockaddr_storage &peer);

    void post_receive() {}
    void post_send(std::uint32_t size)
    {
        if (socket_.send(memory_.data(), size) != static_cast<std::ptrdiff_t>(size)) [[unlikely]]
            fail("send");
    }
    bool poll_request() { return true; }
    bool poll_receive()
    {
        const std::ptrdiff_t got = socket_.receive(memory_.data(), memory_.size());
        if (got < 0) [[unlikely]]
            fail("recv");
        return got > 0;
    }

private:
    [[noreturn]] static void fail(const char *call);

    std::vector<std::byte> memory_;
    program::socket socket_;
};

} // namespace bench
