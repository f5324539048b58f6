// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Opening and closing interface adapters.
#include "debug.hpp"
#include "dispatch.hpp"
#include "ia_table.hpp"
#include "registry.hpp"
#include "status.hpp"

#include <cstring>
#include <dat2/udat.h>

namespace dat {
namespace {

const DAT_PROVIDER &vector_of(void *ia)
{
    return **static_cast<const DAT_PROVIDER *const *>(ia);
}

DAT_RETURN open_with(const binding &bound, char *name, DAT_COUNT async_qlen,
                     DAT_EVD_HANDLE *async_evd, void *&ia)
{
    if (bound.provider->open == nullptr)
        return error(DAT_MODEL_NOT_SUPPORTED);
    const DAT_RETURN status = bound.provider->open(name, async_qlen, async_evd, &ia);
    log(topic::provider_api, "adapter '%s': the provider's open returned 0x%08x", name, status);
    if (status == DAT_SUCCESS && !could_be_object(ia))
        return error(DAT_INTERNAL_ERROR);
    return status;
}

/// Extension calls are dispatched only while a provider with extensions is open.
void note_extensions(DAT_IA_HANDLE handle, void *ia)
{
    DAT_IA_ATTR attributes;
    std::memset(&attributes, 0, sizeof attributes);
    const auto query = vector_of(ia).ia_query_func;
    if (query == nullptr ||
        query(ia, nullptr, DAT_IA_FIELD_ALL, &attributes, 0, nullptr) != DAT_SUCCESS) {
        log(topic::general, "a fresh adapter cannot be queried: extensions stay off for it");
        return;
    }
    if (attributes.extension_supported != DAT_EXTENSION_NONE)
        open_adapters().announce_extensions(handle);
}

DAT_RETURN publish(void *ia, const binding &bound, DAT_IA_HANDLE &handle)
{
    const DAT_IA_HANDLE number = open_adapters().insert(ia, bound);
    if (number == nullptr) {
        vector_of(ia).ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG);
        return error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    }
    note_extensions(number, ia);
    handle = number;
    return DAT_SUCCESS;
}

DAT_RETURN open(const DAT_PROVIDER_INFO &key, char *name, DAT_COUNT async_qlen,
                DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE &handle)
{
    binding bound{};
    DAT_RETURN status = the_registry().acquire(key, bound);
    if (status != DAT_SUCCESS)
        return status;
    void *ia = nullptr;
    status = open_with(bound, name, async_qlen, async_evd, ia);
    if (status == DAT_SUCCESS)
        status = publish(ia, bound, handle);
    if (status != DAT_SUCCESS)
        the_registry().release(bound);
    return status;
}

/// Closes an adapter. The status is the provider's. While it says anything but success, the adapter
/// is open. A forked child leaves its parent's adapters alone.
DAT_RETURN close(DAT_IA_HANDLE handle, DAT_CLOSE_FLAGS flags)
{
    if (ia_table::is_inherited(handle))
        return DAT_SUCCESS;
    void *ia = open_adapters().begin_close(handle);
    if (ia == nullptr)
        return error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    const auto function = vector_of(ia).ia_close_func;
    const DAT_RETURN status =
        function != nullptr ? function(ia, flags) : error(DAT_MODEL_NOT_SUPPORTED);
    if (status != DAT_SUCCESS) {
        open_adapters().cancel_close(handle);
        return status;
    }
    the_registry().release(open_adapters().finish_close(handle));
    return DAT_SUCCESS;
}

} // namespace
} // namespace dat

extern "C" {

OSD_EXPORT DAT_RETURN DAT_API dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT async_evd_qlen,
                                           DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia,
                                           DAT_UINT32 major, DAT_UINT32 minor,
                                           DAT_BOOLEAN is_thread_safe)
{
    DAT_PROVIDER_INFO key;
    if (!dat::make_key(name, major, minor, is_thread_safe, key))
        return dat::error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    if (ia == nullptr)
        return dat::error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    dat::log(dat::topic::consumer_api, "dat_ia_openv('%s', %u.%u, %d)", name, major, minor,
             static_cast<int>(is_thread_safe));
    return dat::open(key, name, async_evd_qlen, async_evd, *ia);
}

OSD_EXPORT DAT_RETURN DAT_API dat_ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags)
{
    dat::log(dat::topic::consumer_api, "dat_ia_close(%p, %d)", ia, static_cast<int>(flags));
    return dat::close(ia, flags);
}

/// Translates a handle for providers, in both directions: the consumer's number becomes the
/// provider's pointer, the pointer the number.
OSD_EXPORT DAT_RETURN DAT_API dats_get_ia_handle(DAT_IA_HANDLE given, DAT_IA_HANDLE *other)
{
    if (other == nullptr)
        return dat::error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    const bool is_number = reinterpret_cast<std::uintptr_t>(given) < dat::ia_handle_limit;
    void *found = is_number ? dat::ia_from_handle(given) : dat::open_adapters().handle_of(given);
    if (found == nullptr)
        return dat::error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    *other = found;
    return DAT_SUCCESS;
}

} // extern "C"
