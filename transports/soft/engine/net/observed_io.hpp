// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shows what passes a socket to an observer, as datagrams of the network: a bad network around it
// has not lost or changed any.
#pragma once

#include "wrapped_io.hpp"

namespace soft_hca {

/// Any thread may call it.
class packet_observer {
public:
    packet_observer() = default;
    packet_observer(const packet_observer &) = delete;
    packet_observer &operator=(const packet_observer &) = delete;
    virtual ~packet_observer() {}

    /// `at_ns`, by osd::now_ns(), is before it was sent. Its pieces may have been unmapped since.
    virtual void sent(const net_address &from, const net_address &to, const out_packet &packet,
                      std::int64_t at_ns) = 0;
    virtual void received(const net_address &from, const net_address &to, const std::uint8_t *bytes,
                          std::size_t size) = 0;
};

class observed_io final : public wrapped_io {
public:
    /// Takes over `inner`, made by new.
    observed_io(packet_io *inner, packet_observer &observer)
        : wrapped_io(inner), observer_(observer)
    {}

    send_result send(const net_address &to, const out_packet *packets, std::uint32_t count,
                     std::uint32_t &done) override;
    std::uint32_t receive(in_packets *into, std::uint32_t capacity) override;

private:
    packet_observer &observer_;
};

/// Puts the observer around a socket. Without an observer that is the socket itself. Null when out
/// of memory: the socket is closed then.
packet_io *observed(packet_io *io, packet_observer *observer);

} // namespace soft_hca
