// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The address on which a service point listens: connection qualifiers and port numbers.
#pragma once

#include "osd_address.hpp"

#include <cstdint>
#include <dat2/udat.h>

namespace dapl::port_support {

/// The TCP or RDMA port number of a qualifier: its low 16 bits, as with other DAT providers. 0 when
/// it has none.
inline std::uint16_t port_of(DAT_CONN_QUAL qualifier)
{
    return static_cast<std::uint16_t>(qualifier);
}

/// Sets the port number, in this machine's byte order, of an IPv4 or IPv6 address; both have it at
/// one place.
inline void set_port(sockaddr *address, std::uint16_t port)
{
    reinterpret_cast<sockaddr_in *>(address)->sin_port = htons(port);
}

} // namespace dapl::port_support
