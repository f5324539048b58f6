// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Environment variables that tune connections, under the names that users of OFED know.
#pragma once

#include <cstdint>

namespace dapl::verbs::vrb {

/// The defaults are those of the variables.
struct tuning {
    std::uint32_t max_inline = 64;
    std::uint32_t ack_timer = 0; ///< 0: what the connection manager finds right for the path
    std::uint32_t ack_retry = 7;
    std::uint32_t rnr_timer = 12;
    std::uint32_t rnr_retry = 7;
    std::uint32_t arp_timeout_ms = 4000;
    std::uint32_t arp_retry = 15;
    std::uint32_t route_timeout_ms = 4000;
    std::uint32_t route_retry = 15;
    std::uint32_t type_of_service = 0;
};

/// Reads the variables; a value that cannot be used is named in a warning and left out.
tuning read_tuning();

} // namespace dapl::verbs::vrb
