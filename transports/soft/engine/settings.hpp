// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How a device is opened.
#pragma once

#include "impaired_io.hpp"
#include "wire.hpp"

#include <cstdint>

namespace soft_hca {

class inproc_network;

struct settings {
    net_address address;                   ///< its port is not used
    std::uint32_t threads = 1;             ///< progress threads, each with a socket
    bool waiters_call_back = true;         ///< in place of the shards' threads, while they wait
    bool spread_callbacks = true;          ///< of queues over the threads, not all to the first
    std::uint32_t datagram = 0;            ///< largest that is sent and received; 0: 1472
    std::uint32_t spin_us = 20;            ///< how long a thread spins for packets before it sleeps
    std::uint32_t priority = 0;            ///< steps of nice(2) by which threads are raised
    std::uint32_t connect_retry_ms = 2000; ///< how long connecting to a closed port is retried
    std::uint32_t linger_ms = 2000;        ///< how long a graceful disconnect waits
    std::uint32_t keepalive_ms = 1000;     ///< silence after which a peer is probed
    std::uint32_t retries = 30;            ///< of the same packet, before the connection breaks
    std::size_t early_bytes = 16 << 20;    ///< of packets that are kept since they came early
    bool checksum = false;                 ///< where the peer has it, too
    bool direct = false;                   ///< access memory of processes of this host directly
    bool rings = false;                    ///< and send them packets through shared memory
    impairment bad_network;
    inproc_network *network = nullptr; ///< instead of UDP
    bool fixed_start = false;          ///< for tests: sequence numbers begin at first_number
    std::uint32_t first_number = 0;

    /// A bad network is for all packets.
    bool uses_rings() const { return direct && rings && !bad_network.any(); }
    version_set versions() const
    {
        return set_of(first_version) | (checksum ? set_of(checked_version) : 0);
    }
};

} // namespace soft_hca
