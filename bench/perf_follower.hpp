// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The side of dat-perf that answers: what the two sides say first, and what the follower does then.
#pragma once

#include "channel.hpp"
#include "dat_link.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace bench::perf {

/// What the leader says first.
struct greeting {
    char magic[8] = {'d', 'a', 't', 'p', 'e', 'r', 'f', '3'};
    std::uint32_t max_size = 0;
    std::uint32_t threads = 1; ///< and connections
    double limit_s = 0;
};

/// Bytes that the longest messages of all connections have together.
inline std::uint64_t wanted_bytes(const greeting &hello)
{
    return std::uint64_t{hello.max_size} * hello.threads;
}

/// Names the connections after a message size, where there are several.
inline std::string over_connections(const greeting &hello)
{
    return hello.threads == 1 ? ""
                              : " over each of " + std::to_string(hello.threads) + " connections";
}

struct invitation {
    sockaddr_storage address;
    DAT_CONN_QUAL qualifier;
    std::uint64_t max_size; ///< that the follower allows, of all connections together; less than
                            ///< was asked for: it refuses
};

/// Waits for a peer that begins as a leader does.
std::pair<channel, greeting> await_leader(peer_listener &listener, std::uint32_t max_size,
                                          double wait);
/// Answers the leader until it has finished.
void follow(channel &leader, const greeting &hello, const std::string &adapter_name,
            double leader_timeout);

} // namespace bench::perf
