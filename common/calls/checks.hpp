// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the calls share to check their arguments.
#pragma once

#include "core/object.hpp"
#include "dapl_status.hpp"
#include "osd_address.hpp"

#include <utility>

namespace dapl::DAPL_TRANSPORT::core {

inline bool has_unknown_bits(std::uint64_t mask, std::uint64_t known)
{
    return (mask & ~known) != 0;
}

/// Calls `fn` with the object of a handle. `subtype` says which handle is invalid, if it is.
template <class T, class Fn>
DAT_RETURN on_object(DAT_HANDLE handle, DAT_RETURN_SUBTYPE subtype, Fn &&fn)
{
    T *found = from_handle<T>(handle);
    return found == nullptr ? invalid_handle(subtype).code() : fn(*found).code();
}

/// A query begins alike everywhere: the object, the mask (second), the out pointer (third).
template <class T>
status check_query(T *found, DAT_RETURN_SUBTYPE kind, std::uint64_t mask, std::uint64_t known,
                   const void *out)
{
    if (found == nullptr)
        return invalid_handle(kind);
    if (has_unknown_bits(mask, known))
        return invalid_parameter(2);
    return out == nullptr ? invalid_parameter(3) : success;
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
