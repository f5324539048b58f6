// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the calls share to check their arguments.
#pragma once

#include "dapl_debug.hpp"
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

/// Checks the size and the bytes of private data. `size_position` is the argument number of the
/// size; the bytes are the next argument. `most` is the adapter's limit.
inline status check_private_data(DAT_COUNT size, const void *bytes, DAT_COUNT most,
                                 int size_position)
{
    if (size < 0 || size > most) {
        dapl_log(DAPL_DBG_TYPE_ERR, "private data of %d bytes are refused: 0 to %d are possible",
                 size, most);
        return invalid_parameter(size_position);
    }
    if (size > 0 && bytes == nullptr) {
        dapl_log(DAPL_DBG_TYPE_ERR, "private data of %d bytes are refused: their address is null",
                 size);
        return invalid_parameter(size_position + 1);
    }
    return success;
}

} // namespace dapl::DAPL_TRANSPORT::core
