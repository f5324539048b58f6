// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Adapter parameters, the ia_params of a dat.conf line: README.md has the grammar.
#pragma once

#include "dapl_status.hpp"
#include "traffic_classes.hpp"

#include <cstdint>

namespace dapl::soft {

struct adapter_params : port_support::traffic_classes {
    static constexpr std::uint32_t by_interface = 2; ///< off on loopback

    char interface[64] = {};  ///< name of a network interface, or an address
    std::uint32_t family = 4; ///< family of the address to take when the interface has both kinds
    std::uint32_t datagram = 0;
    std::uint32_t threads = 1;
    std::uint32_t spin_us = 20;
    std::uint32_t priority = 10;
    std::uint32_t connect_retry_ms = 2000;
    std::uint32_t linger_ms = 2000;
    std::uint32_t keepalive_ms = 1000;
    std::uint32_t retries = 30;
    std::uint32_t checksum = by_interface; ///< 0 or 1
    std::uint32_t path_mtu = by_interface; ///< 0 or 1
    std::uint32_t direct = 1;              ///< access to the memory of processes of this host
    std::uint32_t rings = 1;               ///< packets to such peers go through shared memory
    std::uint32_t safe_copies = 0;         ///< the system copies short messages, too
    char key_file[256] = {};               ///< name of the file with the key; empty: no key
    // A bad network, for tests; parts of a thousand.
    std::uint32_t loss = 0;
    std::uint32_t reorder = 0;
    std::uint32_t duplicate = 0;
    std::uint32_t corrupt = 0;
    std::uint32_t largest = 0; ///< bytes of a datagram that gets through; 0: all do
    std::uint32_t delay_us = 0;
    std::uint32_t seed = 1;
};

/// Reads `text` into `params`; logs each error in it.
status read_params(const char *text, adapter_params &params);

} // namespace dapl::soft
