// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// When the devices of peers were heard last, on whatever connection. While one of its connections
// is heard a device is alive, and the others need not ask.
#pragma once

#include "net/packet_io.hpp"

#include <algorithm>
#include <cstdint>

namespace soft_hca {

/// A look at all connections begins with next_look(). Then each one says when it heard its peer,
/// and is told when others had, at the look before.
class heard_peers {
public:
    void next_look(std::uint32_t slots)
    {
        ++look_;
        slots_ = std::max(slots, 1u);
        turn_begins_ = (turn_begins_ + turn_length_) % slots_;
        turn_length_ = std::max(slots / looks_of_a_turn, least_turn);
        for (entry &each : now())
            each = {};
    }
    void note(const net_address &peer, std::int64_t heard_ns)
    {
        entry &own = place(now(), peer);
        if (own.heard_ns == 0)
            own.peer = peer;
        if (own.peer == peer)
            own.heard_ns = std::max(own.heard_ns, heard_ns);
    }
    /// Returns 0 if it is not known.
    std::int64_t heard_ns(const net_address &peer)
    {
        const entry &one = place(looks_[~look_ & 1], peer);
        return one.heard_ns != 0 && one.peer == peer ? one.heard_ns : 0;
    }
    /// True for the first connection to this peer that calls it in this look.
    bool asks_first(const net_address &peer)
    {
        entry &own = place(now(), peer);
        if (own.peer == peer && own.asked)
            return false;
        own.asked = true;
        return true;
    }
    /// Connections ask for themselves in turn: a few in each look, and each in one of so many.
    bool is_turn_of(std::uint32_t slot) const
    {
        return (slot + slots_ - turn_begins_) % slots_ < turn_length_;
    }

private:
    static constexpr std::uint32_t places = 64;
    static constexpr std::uint32_t looks_of_a_turn = 64;
    static constexpr std::uint32_t least_turn = 16;

    /// Of peers that meet at a place one is noted; connections to others ask for themselves.
    struct entry {
        net_address peer;
        std::int64_t heard_ns = 0;
        bool asked = false;
    };

    entry (&now())[places] { return looks_[look_ & 1]; }
    static entry &place(entry (&of)[places], const net_address &peer)
    {
        std::uint8_t host[16] = {};
        peer.copy_host(host);
        std::uint32_t sum = peer.port();
        for (const std::uint8_t byte : host)
            sum = sum * 31 + byte;
        return of[sum % places];
    }

    entry looks_[2][places];
    std::uint32_t look_ = 0;
    std::uint32_t slots_ = 1;
    std::uint32_t turn_begins_ = 0;
    std::uint32_t turn_length_ = least_turn;
};

} // namespace soft_hca
