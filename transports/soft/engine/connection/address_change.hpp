// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A peer whose address changes, as when a router that translates addresses restarts.
//
// Packets of the connection then arrive from another address. Only the peer can make them, but a
// host on the path can repeat them from elsewhere. So what we send follows only when that address
// has answered a challenge, and cannot be directed to a host that did not ask for it.
#pragma once

#include "net/net.hpp"

#include <cstdint>

namespace soft_hca {

class address_change {
public:
    /// What to send to this address, after a packet of the peer came from there; 0: nothing now.
    std::uint64_t challenge(const net_address &from, std::int64_t now)
    {
        if (token_ != 0 && from == candidate_ && now - sent_ns_ < interval_ns)
            return 0;
        if (token_ == 0 || !(from == candidate_)) {
            candidate_ = from;
            if (!random_bytes(&token_, sizeof token_))
                token_ = 0;
        }
        sent_ns_ = now;
        return token_;
    }
    /// Whether the token proves that the peer receives what is sent to this address. True once for
    /// each challenge.
    bool is_answered(const net_address &from, std::uint64_t token)
    {
        if (token_ == 0 || token != token_ || !(from == candidate_))
            return false;
        token_ = 0;
        return true;
    }

private:
    static constexpr std::int64_t interval_ns = 10'000'000;

    net_address candidate_;
    std::uint64_t token_ = 0;
    std::int64_t sent_ns_ = 0;
};

} // namespace soft_hca
