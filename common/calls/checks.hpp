// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the calls share to check their arguments.
#pragma once

#include "dapl_status.hpp"
#include "osd_address.hpp"

#include <cstdint>

namespace dapl::DAPL_TRANSPORT::core {

inline bool has_unknown_bits(std::uint64_t mask, std::uint64_t known)
{
    return (mask & ~known) != 0;
}

/// An address with a port; `position` is its own in the call.
inline status check_common_address(const DAT_SOCK_ADDR *given, int position)
{
    if (given == nullptr)
        return invalid_parameter(position);
    if (osd::address::size_of(given) == 0)
        return status::error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED);
    return osd::address::port_of(given) == 0 ? invalid_parameter(position) : success;
}

} // namespace dapl::DAPL_TRANSPORT::core
