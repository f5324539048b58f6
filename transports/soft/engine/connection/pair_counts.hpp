// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a queue pair counts, since it was made or in one connection.
#pragma once

#include <cstdint>

namespace soft_hca {

struct pair_counts {
    std::uint64_t packets_out = 0, packets_resent = 0, packets_in = 0, duplicates = 0, early = 0;
    std::uint64_t timeouts = 0;        ///< each made the oldest packet go again
    std::uint64_t tail_probes = 0;     ///< the latest was, some time before that
    std::uint64_t dropped = 0;         ///< packets that were not the peer's, or beyond the window
    std::uint64_t not_ready = 0;       ///< no receive was posted for them
    std::uint64_t corrupt = 0;         ///< their checksum was wrong
    std::uint64_t refused = 0;         ///< accesses of the peer's
    std::uint64_t rules_broken = 0;    ///< by the peer, in another way
    std::uint64_t refused_by_peer = 0; ///< accesses
    std::uint64_t failed_at_peer = 0;  ///< requests, for another reason
    std::uint64_t gave_up = 0;         ///< the peer acknowledged nothing any more
    std::uint64_t direct = 0;          ///< writes and reads without the peer's processor
    std::uint64_t indirect = 0;        ///< writes and reads over the network
    /// Part of packets_out: packets with data that went by a ring.
    std::uint64_t by_ring = 0;
    std::uint64_t fetched = 0; ///< packets in whose payload was copied out of the peer's memory

    pair_counts &operator+=(const pair_counts &other);
    pair_counts &operator-=(const pair_counts &earlier);
};

} // namespace soft_hca
