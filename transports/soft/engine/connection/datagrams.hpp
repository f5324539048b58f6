// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Datagrams: messages of one packet each, between queue pairs that are not connected.
//
// Nothing is acknowledged, numbered or kept: what the network loses, or finds no receive, is lost,
// and no sender waits. A datagram names the id and the tag of the queue pair that it is for, which
// its sender has from an exchange.
#pragma once

#include "pair_context.hpp"
#include "peer_path.hpp"

namespace soft_hca {

/// Where datagrams to a queue pair go.
struct datagram_address {
    net_address at; ///< socket of its shard
    std::uint32_t id = 0;
    std::uint32_t tag = 0;
};

/// Bytes of the largest message of a device whose packets have this size.
constexpr std::uint32_t largest_message(std::uint32_t packet)
{
    return packet - static_cast<std::uint32_t>(base_size + checksum_size);
}

/// Sends what was posted to a queue pair of datagrams, and completes it; flushes it if `dead`. The
/// lock is held.
void send_datagrams(pair_context &pair, const peer_path &path, bool dead);

/// Receives a datagram for this queue pair. It is dropped, and counted, unless it names the tag and
/// fits a posted receive. The lock is held.
void receive_datagram(pair_context &pair, const peer_path &path, const packet &p,
                      const net_address &from);

} // namespace soft_hca
