// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How a device is opened.
#pragma once

#include "net/impaired_io.hpp"
#include "wire/wire.hpp"

#include <cstdint>

namespace soft_hca {

class inproc_network;
class packet_observer;

/// A device with a key sends and takes only packets that are sealed with it.
struct key_settings {
    const void *bytes = nullptr; ///< looked at while the device is opened
    std::size_t size = 0;        ///< 0: no key
    const char *library = "libcrypto.so.3";
    /// Number of packets after which a connection changes its keys.
    std::uint64_t renew_packets = 1 << 23;
    std::int64_t renew_ns = 3'600'000'000'000;
    bool fast_aes = true; ///< AES, where processors have instructions for it
};

struct settings {
    net_address address;           ///< its port is not used
    const char *watched = "";      ///< network interface whose removal is told; empty: none
    void *owner = nullptr;         ///< whom an upcall about the device is for
    std::uint32_t threads = 1;     ///< progress threads, each with a socket
    bool waiters_call_back = true; ///< in place of the shards' threads, while they wait
    /// Spread callbacks of queues over the threads, instead of giving all to the first.
    bool spread_callbacks = true;
    std::uint32_t datagram = 0;            ///< largest that is sent and received; 0: 1472
    std::uint32_t spin_us = 20;            ///< how long a thread spins for packets before it sleeps
    std::uint32_t priority = 0;            ///< steps of nice(2) by which threads are raised
    std::uint32_t connect_retry_ms = 2000; ///< how long connecting to a closed port is retried
    std::uint32_t linger_ms = 2000;        ///< how long a graceful disconnect waits
    std::uint32_t keepalive_ms = 1000;     ///< silence after which a peer is probed
    /// Retransmissions of a packet, before the connection breaks.
    std::uint32_t retries = 30;
    /// Most bytes of packets that are kept since they came early.
    std::size_t early_bytes = 16 << 20;
    bool checksum = false; ///< where the peer has it, too
    bool path_mtu = false; ///< find what a path carries, where the peer does, too
    bool direct = false;   ///< access memory of processes of this host directly
    bool rings = false;    ///< send packets to such processes through shared memory
    /// The system copies short messages, too, between consumers' memory and rings or datagrams: no
    /// thread gets a fault where memory was unmapped.
    bool safe_copies = false;
    impairment bad_network;
    key_settings key;
    inproc_network *network = nullptr;   ///< instead of UDP
    packet_observer *observer = nullptr; ///< sees what passes UDP sockets; it outlives the device
    bool fixed_start = false;            ///< tests only: sequence numbers begin at first_number
    std::uint32_t first_number = 0;

    /// A bad network is for all packets.
    bool uses_rings() const { return direct && rings && !bad_network.any(); }
    bool sealed() const { return key.size != 0; }
    /// What a retry names.
    version_set versions_and_padding() const { return versions() | (path_mtu ? takes_padding : 0); }
    version_set versions() const
    {
        if (sealed())
            return set_of(sealed_version);
        return set_of(first_version) | (checksum ? set_of(checked_version) : 0);
    }
};

} // namespace soft_hca
