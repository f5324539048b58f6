// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The functions in the provider vector: each finds the object of the handle, and calls the function
// that works on it.
#pragma once

#include "core/adapter.hpp"
#include "core/transport.hpp"
#include "osd_cancellation.hpp"

#include <cstdarg>
#include <type_traits>

namespace dapl::DAPL_TRANSPORT::core {

/// The live object behind a handle, or null. `kind` matters where a class has several.
template <class T, mark kind>
T *find_object(DAT_HANDLE handle)
{
    if constexpr (std::is_same_v<T, object>) {
        return any_object(handle);
    } else {
        T *found = from_handle<T>(handle);
        return kind == mark::dead || (found != nullptr && found->kind() == kind) ? found : nullptr;
    }
}

/// Every call but those below. Its thread cannot be cancelled meanwhile. `bad` is the subtype for a
/// handle that is none.
template <auto call, DAT_RETURN_SUBTYPE bad, mark kind = mark::dead>
struct control_call;
template <class T, class... Rest, status (*call)(T &, Rest...), DAT_RETURN_SUBTYPE bad, mark kind>
struct control_call<call, bad, kind> {
    static DAT_RETURN made(DAT_HANDLE handle, Rest... rest)
    {
        const osd::cancellation_hold no_cancellation;
        T *found = find_object<T, kind>(handle);
        return found == nullptr ? invalid_handle(bad).code() : call(*found, rest...).code();
    }
};

/// Frees its object, or ends what that does. In a forked child the object is the parent's, and
/// locks may be held by threads that the child has not: succeeds, and does nothing.
template <auto call, DAT_RETURN_SUBTYPE bad, mark kind = mark::dead>
struct ending_call;
template <class T, class... Rest, status (*call)(T &, Rest...), DAT_RETURN_SUBTYPE bad, mark kind>
struct ending_call<call, bad, kind> {
    static status unless_inherited(T &target, Rest... rest)
    {
        return target.ia->is_inherited() ? success : call(target, rest...);
    }
    static DAT_RETURN made(DAT_HANDLE handle, Rest... rest)
    {
        return control_call<unless_inherited, bad, kind>::made(handle, rest...);
    }
};

/// A query call: fills a parameter struct; the caller's mask may have the bits in `known`.
template <auto call, DAT_RETURN_SUBTYPE bad, std::uint64_t known, mark kind = mark::dead>
struct query_call;
template <class T, class Param, void (*call)(T &, Param &), DAT_RETURN_SUBTYPE bad,
          std::uint64_t known, mark kind>
struct query_call<call, bad, known, kind> {
    template <class Mask>
    static status filled(T &target, Mask wanted, Param *out)
    {
        if ((static_cast<std::uint64_t>(wanted) & ~known) != 0)
            return invalid_parameter(2);
        if (out == nullptr)
            return invalid_parameter(3);
        call(target, *out);
        return success;
    }
    template <class Mask>
    static DAT_RETURN made(DAT_HANDLE handle, Mask wanted, Param *out)
    {
        return control_call<filled<Mask>, bad, kind>::made(handle, wanted, out);
    }
};

/// A wait: its thread can be cancelled while it sleeps.
template <auto call, DAT_RETURN_SUBTYPE bad>
struct wait_call;
template <class T, class... Rest, status (*call)(T &, Rest...), DAT_RETURN_SUBTYPE bad>
struct wait_call<call, bad> {
    static DAT_RETURN made(DAT_HANDLE handle, Rest... rest)
    {
        T *found = from_handle<T>(handle);
        return found == nullptr ? invalid_handle(bad).code() : call(*found, rest...).code();
    }
};

/// A call of the data path: holds cancellation back only if the port calls cancellation points.
template <auto call, DAT_RETURN_SUBTYPE bad>
struct data_path_call;
template <class T, class... Rest, DAT_RETURN (*call)(T &, Rest...), DAT_RETURN_SUBTYPE bad>
struct data_path_call<call, bad> {
    struct nothing {};
    using hold =
        std::conditional_t<transport::has_cancellation_points, osd::cancellation_hold, nothing>;
    static DAT_RETURN made(DAT_HANDLE handle, Rest... rest)
    {
        [[maybe_unused]] const hold no_cancellation;
        T *found = from_dispatched<T>(handle);
        if (found == nullptr) [[unlikely]]
            return invalid_handle(bad).code();
        return call(*found, rest...);
    }
};

/// dat_extension_op is not wrapped: the types of its arguments depend on the operation.
template <class Safety>
DAT_RETURN dapl_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list arguments);

} // namespace dapl::DAPL_TRANSPORT::core
