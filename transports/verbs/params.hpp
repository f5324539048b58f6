// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Adapter parameters: the ia_params of a dat.conf line, of which README.md has the grammar, and
// environment variables that tune connections, under the names that users of OFED know.
#pragma once

#include "dapl_status.hpp"
#include "traffic_classes.hpp"

#include <cstdint>

namespace dapl::verbs::vrb {

struct adapter_params : port_support::traffic_classes {
    static constexpr std::uint32_t own = UINT32_MAX; ///< stands for the value that is right for the
                                                     ///< device

    char device[64] = {};     ///< name of an RDMA device or a network interface, or an address
    std::uint32_t port = 0;   ///< port of the device; 0: any
    std::uint32_t family = 4; ///< family of the address to take when there are both
    std::uint32_t connect_retry_ms = 2000;
    std::uint32_t linger_ms = 2000;
    std::uint32_t settle_ms = own;      ///< an accepting side keeps still for so long
    std::uint32_t spin_us = own;        ///< a wait looks for so long before it sleeps
    std::uint32_t cq_room = 8192;       ///< least entries of a CQ that the device will not resize
    std::uint32_t threads = 1;          ///< that make the callbacks for CQs
    std::uint32_t odp = 0;              ///< memory is not pinned; the device pages it in
    std::uint32_t relaxed_ordering = 0; ///< writes to memory may overtake each other
    std::uint32_t vector = own;         ///< completion vector of all CQs; own: spread over them

    // Connections made over TCP, without the connection manager of the kernel (cm=tcp).
    bool by_tcp = false;
    char tcp_interface[64] = {};   ///< interface or address of TCP; empty: the device's own
    std::uint32_t gid_index = own; ///< entry of the port's GID table
    std::uint32_t service_level = 0;

    // Values from the environment. The defaults are the variables' defaults.
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
void read_environment(adapter_params &params);

/// Reads `text` into `params`; logs mistakes in it.
status read_params(const char *text, adapter_params &params);

} // namespace dapl::verbs::vrb
