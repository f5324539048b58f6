// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Leads from a handle to the provider's function: this code stands between a consumer and a
// doorbell. Nothing here locks, counts or logs.
#pragma once

#include "ia_table.hpp"
#include "osd_annotations.hpp"
#include "status.hpp"

#include <bit>
#include <cstdint>
#include <dat2/dat_registry.h>
#include <dat2/udat.h>

namespace dat {

static_assert(sizeof(std::uintptr_t) == 8, "could_be_object() knows 64-bit address spaces only");

/// Whether something may lie at this address whose first word is its provider. Turns away null, the
/// handles of interface adapters, addresses not aligned as a pointer and addresses that no process
/// can map, all with one comparison: rotated, a set low bit is as large as an impossible address.
OSD_ALWAYS_INLINE bool could_be_object(DAT_HANDLE handle)
{
    const auto distance = reinterpret_cast<std::uintptr_t>(handle) - ia_handle_limit;
    return std::rotr(distance, 3) >> (57 - 3) == 0; // 56 bits of addresses, and the offset
}

/// Calls the slot, or says that this provider does not have it: vectors of older providers have
/// holes where newer functions are.
template <auto Slot, DAT_RETURN_SUBTYPE Subtype, typename... Arguments>
OSD_ALWAYS_INLINE DAT_RETURN call(void *object, Arguments... arguments)
{
    const auto *provider = *static_cast<const DAT_PROVIDER *const *>(object);
    if (provider == nullptr) [[unlikely]]
        return error(DAT_INVALID_HANDLE, Subtype);
    const auto function = provider->*Slot;
    if (function == nullptr) [[unlikely]]
        return error(DAT_MODEL_NOT_SUPPORTED);
    return function(object, arguments...);
}

template <auto Slot, DAT_RETURN_SUBTYPE Subtype, typename... Arguments>
OSD_ALWAYS_INLINE DAT_RETURN forward(DAT_HANDLE handle, Arguments... arguments)
{
    if (!could_be_object(handle)) [[unlikely]]
        return error(DAT_INVALID_HANDLE, Subtype);
    return call<Slot, Subtype>(handle, arguments...);
}

/// Forwards a call on an interface adapter: the provider sees its own pointer, not the consumer's
/// number.
template <auto Slot, DAT_RETURN_SUBTYPE Subtype, typename... Arguments>
OSD_ALWAYS_INLINE DAT_RETURN forward_ia(DAT_IA_HANDLE handle, Arguments... arguments)
{
    void *ia = ia_from_handle(handle);
    if (ia == nullptr) [[unlikely]]
        return error(DAT_INVALID_HANDLE, Subtype);
    return call<Slot, Subtype>(ia, arguments...);
}

/// Forwards a call that takes a handle of any type.
template <auto Slot, DAT_RETURN_SUBTYPE Subtype, typename... Arguments>
OSD_ALWAYS_INLINE DAT_RETURN forward_any(DAT_HANDLE handle, Arguments... arguments)
{
    if (void *ia = ia_from_handle(handle))
        return call<Slot, Subtype>(ia, arguments...);
    return forward<Slot, Subtype>(handle, arguments...);
}

} // namespace dat
