// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the calls of DAT 1.2 have in common: each finds its object, calls the provider of DAT 2.0
// with translated arguments, and translates the answer.
#pragma once

#include "dispatch.hpp"
#include "object.hpp"
#include "status.hpp"
#include "vector.hpp"

namespace dat12 {

inline void *two(const object &of)
{
    return of.two.load(std::memory_order_relaxed);
}

/// Calls the provider's function in the slot. The result is a DAT 2.0 code.
template <auto Slot, typename... Arguments>
OSD_ALWAYS_INLINE DAT_RETURN call_two(const object &first, Arguments... arguments)
{
    return dat::call<Slot, DAT_NO_SUBTYPE>(two(first), arguments...);
}

/// Calls a slot on the data path unchecked: providers have had these slots ever since there are
/// any.
template <auto Slot, typename... Arguments>
OSD_ALWAYS_INLINE DAT_RETURN call_at_once(const object &first, Arguments... arguments)
{
    void *object = two(first);
    return ((*static_cast<const DAT_PROVIDER *const *>(object))->*Slot)(object, arguments...);
}

/// Makes a call whose arguments and codes are equal in both generations.
template <auto Slot, typename... Arguments>
OSD_ALWAYS_INLINE DAT_RETURN call(const object &first, Arguments... arguments)
{
    return to_one(call_two<Slot>(first, arguments...));
}

template <DAT_HANDLE_TYPE Type>
constexpr v1::DAT_RETURN_SUBTYPE bad_handle = v1::DAT_NO_SUBTYPE;
template <>
inline constexpr auto bad_handle<DAT_HANDLE_TYPE_CR> = v1::DAT_INVALID_HANDLE_CR;
template <>
inline constexpr auto bad_handle<DAT_HANDLE_TYPE_EP> = v1::DAT_INVALID_HANDLE_EP;
// libdat2 returns this for a handle that is no EVD at all, too.
template <>
inline constexpr auto bad_handle<DAT_HANDLE_TYPE_EVD> = v1::DAT_INVALID_HANDLE_EVD_REQUEST;
template <>
inline constexpr auto bad_handle<DAT_HANDLE_TYPE_IA> = v1::DAT_INVALID_HANDLE_IA;
template <>
inline constexpr auto bad_handle<DAT_HANDLE_TYPE_LMR> = v1::DAT_INVALID_HANDLE_LMR;
template <>
inline constexpr auto bad_handle<DAT_HANDLE_TYPE_PSP> = v1::DAT_INVALID_HANDLE_PSP;
template <>
inline constexpr auto bad_handle<DAT_HANDLE_TYPE_PZ> = v1::DAT_INVALID_HANDLE_PZ;
template <>
inline constexpr auto bad_handle<DAT_HANDLE_TYPE_RMR> = v1::DAT_INVALID_HANDLE_RMR;
template <>
inline constexpr auto bad_handle<DAT_HANDLE_TYPE_RSP> = v1::DAT_INVALID_HANDLE_RSP;
template <>
inline constexpr auto bad_handle<DAT_HANDLE_TYPE_CNO> = v1::DAT_INVALID_HANDLE_CNO;
template <>
inline constexpr auto bad_handle<DAT_HANDLE_TYPE_SRQ> = v1::DAT_INVALID_HANDLE_SRQ;

template <DAT_HANDLE_TYPE Type>
constexpr DAT_RETURN refused = fail(v1::DAT_INVALID_HANDLE, bad_handle<Type>);

constexpr DAT_RETURN bad_argument(unsigned position)
{
    return DAT_CLASS_ERROR | static_cast<DAT_UINT32>(v1::DAT_INVALID_PARAMETER) |
           (static_cast<DAT_UINT32>(v1::DAT_INVALID_ARG1) + position - 1);
}

constexpr DAT_RETURN no_memory = fail(v1::DAT_INSUFFICIENT_RESOURCES, v1::DAT_RESOURCE_MEMORY);
constexpr DAT_RETURN too_long = fail(v1::DAT_LENGTH_ERROR);

/// A call that makes an object: `make` calls the provider and stores the object of DAT 2.0.
template <DAT_HANDLE_TYPE Type, typename Make>
DAT_RETURN create(object &ia, DAT_HANDLE *handle, unsigned position, Make make,
                  object **published = nullptr)
{
    if (handle == nullptr)
        return bad_argument(position);
    object *made = reserve();
    if (made == nullptr)
        return no_memory;
    DAT_HANDLE theirs = nullptr;
    const DAT_RETURN status = make(&theirs, *made);
    if (status != DAT_SUCCESS) {
        discard(*made);
        return status;
    }
    *handle = handle_of(publish(*made, Type, theirs, &ia));
    if (published != nullptr)
        *published = made;
    return DAT_SUCCESS;
}

/// A call that frees an object.
template <DAT_HANDLE_TYPE Type, auto Slot>
DAT_RETURN release(DAT_HANDLE handle)
{
    object *given = object_of<Type>(handle);
    if (given == nullptr)
        return refused<Type>;
    const DAT_RETURN status = call<Slot>(*given);
    if (status == DAT_SUCCESS)
        retire(*given);
    return status;
}

/// A call that has nothing but an object and plain values.
template <DAT_HANDLE_TYPE Type, auto Slot, typename... Arguments>
DAT_RETURN forward(DAT_HANDLE handle, Arguments... arguments)
{
    object *given = object_of<Type>(handle);
    return given != nullptr ? call<Slot>(*given, arguments...) : refused<Type>;
}

/// The check of a query's mask and structure; success means to go on.
template <typename Param>
DAT_RETURN check_query(DAT_UINT64 mask, DAT_UINT64 all, const Param *param)
{
    if ((mask & ~all) != 0)
        return bad_argument(2);
    return param == nullptr ? bad_argument(3) : DAT_RETURN{DAT_SUCCESS};
}

/// A query: `fill` translates what the provider says. The mask is said in both generations.
template <DAT_HANDLE_TYPE Type, auto Slot, typename Two, typename Mask, typename One, typename Fill>
DAT_RETURN query(DAT_HANDLE handle, DAT_UINT64 mask, DAT_UINT64 all, Mask two_mask, One *param,
                 Fill fill)
{
    object *given = object_of<Type>(handle);
    if (given == nullptr)
        return refused<Type>;
    DAT_RETURN status = check_query(mask, all, param);
    if (status != DAT_SUCCESS)
        return status;
    Two two{};
    status = call<Slot>(*given, two_mask, &two);
    if (status == DAT_SUCCESS)
        fill(*given, two, *param);
    return status;
}

inline DAT_HANDLE one_of(void *two)
{
    return handle_of(found_by_two(two));
}

} // namespace dat12
