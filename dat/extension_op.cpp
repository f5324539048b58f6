// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// dat_extension_op: calls that only some providers know. Two ranges of numbers ask about an
// adapter without opening it; for these the registry finds the provider by name.
#include "dispatch.hpp"
#include "ia_table.hpp"
#include "immortal.hpp"
#include "registry.hpp"
#include "status.hpp"

#include <cstdarg>
#include <cstdlib>
#include <dat2/udat.h>

namespace dat {
namespace {

/// An adapter opened for a query. Its handle is the provider's own pointer.
struct query {
    query *next;
    void *ia;
    binding provider;
    DAT_HANDLE_EXTENDEDOP_FUNC function;
};

class query_list {
public:
    void insert(query &opened) OSD_EXCLUDES(lock_)
    {
        osd::lock_guard guard(lock_);
        opened.next = first_;
        first_ = &opened;
    }
    query *take(void *ia) OSD_EXCLUDES(lock_)
    {
        osd::lock_guard guard(lock_);
        query **at = &first_;
        while (*at != nullptr && (*at)->ia != ia)
            at = &(*at)->next;
        query *taken = *at;
        if (taken != nullptr)
            *at = taken->next;
        return taken;
    }

private:
    osd::mutex lock_;
    query *first_ OSD_GUARDED_BY(lock_) = nullptr;
};

constinit immortal<query_list> queries;

DAT_RETURN end(query &ended, DAT_RETURN status)
{
    the_registry().release(ended.provider);
    std::free(&ended);
    return status;
}

DAT_HANDLE_EXTENDEDOP_FUNC function_of(const registration &provider)
{
    if (provider.extensions != nullptr)
        return provider.extensions;
    return provider.owner != nullptr ? provider.owner->extensions : nullptr;
}

/// The provider takes the name where other calls have a handle, and stores its pointer through the
/// argument that follows.
DAT_RETURN start_query(query &started, char *name, DAT_EXTENDED_OP op, va_list arguments)
{
    va_list ahead;
    va_copy(ahead, arguments);
    void **ia = va_arg(ahead, void **);
    va_end(ahead);
    if (ia == nullptr)
        return error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    const DAT_RETURN status = started.function(name, op, arguments);
    if (status == DAT_SUCCESS)
        started.ia = *ia;
    return status;
}

DAT_RETURN open_query(char *name, DAT_EXTENDED_OP op, va_list arguments)
{
    DAT_PROVIDER_INFO key;
    if (!make_key(name, DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_FALSE, key))
        return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    auto *opened = static_cast<query *>(std::calloc(1, sizeof(query)));
    if (opened == nullptr)
        return error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    DAT_RETURN status = the_registry().acquire(key, opened->provider);
    if (status != DAT_SUCCESS) {
        std::free(opened);
        return status;
    }
    opened->function = function_of(*opened->provider.provider);
    if (opened->function == nullptr)
        return end(*opened, error(DAT_NOT_IMPLEMENTED));
    status = start_query(*opened, name, op, arguments);
    if (status != DAT_SUCCESS)
        return end(*opened, status);
    queries.value.insert(*opened);
    return DAT_SUCCESS;
}

DAT_RETURN close_query(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list arguments)
{
    query *closed = queries.value.take(handle);
    if (closed == nullptr)
        return error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    const DAT_RETURN status = closed->function(handle, op, arguments);
    if (status == DAT_SUCCESS)
        return end(*closed, status);
    queries.value.insert(*closed);
    return status;
}

DAT_RETURN operate(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list arguments)
{
    if (handle == nullptr)
        return error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
    if (!open_adapters().any_extensions())
        return error(DAT_NOT_IMPLEMENTED);
    const bool is_ia = reinterpret_cast<std::uintptr_t>(handle) < ia_handle_limit;
    void *object = is_ia ? ia_from_handle(handle) : handle;
    if (!could_be_object(object))
        return error(DAT_INVALID_HANDLE, is_ia ? DAT_INVALID_HANDLE_IA : DAT_INVALID_HANDLE1);
    const auto function =
        (*static_cast<const DAT_PROVIDER *const *>(object))->handle_extendedop_func;
    return function != nullptr ? function(object, op, arguments) : error(DAT_NOT_IMPLEMENTED);
}

DAT_RETURN dispatch(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list arguments)
{
    if ((op & DAT_OPEN_EXTENSION_BASE) != 0) {
        char *name = va_arg(arguments, char *);
        return open_query(name, op, arguments);
    }
    if ((op & DAT_CLOSE_EXTENSION_BASE) != 0)
        return close_query(handle, op, arguments);
    return operate(handle, op, arguments);
}

} // namespace
} // namespace dat

extern "C" OSD_EXPORT DAT_RETURN DAT_API dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP op,
                                                          ...)
{
    va_list arguments;
    va_start(arguments, op);
    const DAT_RETURN status = dat::dispatch(handle, op, arguments);
    va_end(arguments);
    return status;
}
