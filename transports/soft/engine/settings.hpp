// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How a device is opened.
#pragma once

#include "impaired_io.hpp"

#include <cstdint>

namespace soft_hca {

class inproc_network;

struct settings {
    net_address address;                   ///< its port is not used
    std::uint32_t threads = 1;             ///< progress threads, each with a socket
    std::uint32_t datagram = 0;            ///< largest that is sent and received; 0: 1472
    std::uint32_t spin_us = 20;            ///< how long a thread looks for packets before it sleeps
    std::uint32_t connect_retry_ms = 2000; ///< how long a peer that nobody listens at is tried
    std::uint32_t linger_ms = 2000;        ///< how long a graceful disconnect waits
    std::uint32_t keepalive_ms = 1000;     ///< when a silent peer is asked whether it is there
    std::uint32_t retries = 30;            ///< of the same packet, before its connection is broken
    impairment bad_network;
    inproc_network *network = nullptr; ///< instead of UDP
    bool fixed_start = false;          ///< for tests: sequence numbers begin at first_number
    std::uint32_t first_number = 0;
};

} // namespace soft_hca
