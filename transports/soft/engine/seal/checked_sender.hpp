// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Sends packets with a checksum behind them, or sealed.
//
// A consumer may change memory while it is sent, or a peer while it is read: the checksum has to
// match the bytes that are sent. So the pieces are copied together first.
#pragma once

#include "net/net.hpp"
#include "net/packet_io.hpp"
#include "seal.hpp"
#include "wire/wire.hpp"

#include "osd_sync.hpp"

namespace soft_hca {

/// Adds the checksum of a packet in memory of our own.
void add_checksum(out_packet &out);

/// Adds what packets of this version have at their end. Memory of our own only.
inline void complete(out_packet &out, std::uint8_t version)
{
    if (version == checked_version) [[unlikely]]
        add_checksum(out);
}

/// Sends a packet of memory of our own, sealed. `id`: the number of the connection at the peer.
send_result send_sealed(packet_io &io, const net_address &to, const out_packet &packet,
                        connection_seal &seal, std::uint32_t id, std::uint32_t &done);

/// Any thread.
class checked_sender {
public:
    static constexpr std::uint32_t most = 32; ///< packets of one call

    /// `datagram`: the largest.
    void open(std::uint32_t datagram) { size_ = std::size_t{most} * datagram; }
    /// Sends packets as packet_io::send() does. Parts of the packets may be memory of consumers.
    /// `seal`: null for checksums; `id`: the number of the connection at the peer.
    send_result send(packet_io &io, const net_address &to, const out_packet *packets,
                     std::uint32_t count, std::uint32_t &done, connection_seal *seal = nullptr,
                     std::uint32_t id = 0);

private:
    /// The memory in which the packets of one call are put together.
    struct area {
        osd::mutex lock;
        gather_buffer bytes;
        out_packet whole[most];
    };
    static constexpr std::uint32_t areas = 4;

    area &take();

    std::size_t size_ = 0;
    area areas_[areas];
};

} // namespace soft_hca
