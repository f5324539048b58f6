// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A peer that knows all secrets of its connection and sends what the test says, right or wrong.
#pragma once

#include "rig.hpp"

namespace rig {

class raw_peer {
public:
    /// Connects to an end, which accepts. The credit allows it to send messages below this number.
    raw_peer(inproc_network &network, end &to, std::uint32_t credit = 1 << 20);

    // Each returns when the end has looked at it.

    /// A numbered packet with a segment and `payload` bytes of it. `ack` says that the end's
    /// packets before it were taken.
    void send(std::uint32_t psn, std::uint32_t ack, const ddp_segment &segment,
              std::size_t payload = 0, std::uint16_t flags = 0);
    /// A message of some bytes.
    void send_message(std::uint32_t psn, std::uint32_t msn);
    /// The word stands for 32 packets behind `ack`: packets of set bits have arrived.
    void acknowledge(std::uint32_t ack, std::uint32_t arrived = 0, std::uint16_t flags = 0);
    /// All that has come by now.
    void acknowledge_all();
    /// Says that the connection does not exist here.
    void send_reset();

    /// Sends like send(), without waiting for the end.
    void post(std::uint32_t psn, std::uint32_t ack, const ddp_segment &segment);
    /// The next packet from the end, of this kind; others are passed over.
    std::optional<packet> next(packet_kind kind, std::chrono::milliseconds time = patience);
    /// The next packet of data that is none of those before it, which a timeout may bring again.
    std::optional<packet> next_new();

    const net_address &address() const { return io_.address(); }
    std::uint32_t first_psn = 1000;
    std::uint32_t expected = 0; ///< first psn of the end
    std::uint32_t taken = 0;    ///< psn behind the last that was seen of the end's

private:
    bool receive(packet &p);
    base_header base(packet_kind kind, std::uint32_t psn, std::uint32_t ack) const;
    void deliver(const base_header &base, const std::uint8_t *body, std::size_t size);
    void deliver_and_await(const base_header &base, const std::uint8_t *body, std::size_t size);
    void connect();

    inproc_network &network_;
    end &to_;
    inproc_io io_;
    net_address at_; ///< address of the end
    std::uint32_t credit_;
    std::uint32_t id_ = 0x55550001;
    std::uint32_t tag_ = 0xabcdef01;
    std::uint32_t peer_id_ = 0;
    std::uint32_t peer_tag_ = 0;
    std::vector<std::uint8_t> last_; ///< what the latest packet points into
};

} // namespace rig
