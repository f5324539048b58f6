// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Changes one argument of a call, by the overloads of spoil() that were declared before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace dapl::DAPL_TRANSPORT::faults {

/// Constant arguments are the caller's: a copy is another value.
template <class T>
decltype(auto) spoiled_if(bool now, T &argument)
{
    // A type that is not constant may be incomplete here.
    if constexpr (std::conjunction_v<std::is_const<T>, std::is_copy_constructible<T>>) {
        std::remove_cv_t<T> copy = argument;
        if (now)
            spoil(copy);
        return copy;
    } else {
        if (now)
            spoil(argument);
        return (argument);
    }
}

template <class Call, std::size_t... Places, class... Args>
auto spoil_and_call(std::int64_t place, Call call, std::index_sequence<Places...>, Args &...args)
{
    return call(spoiled_if(place == static_cast<std::int64_t>(Places), args)...);
}

/// Calls with another value in this place, counted from 0.
template <class Call, class... Args>
auto with_spoiled(std::int64_t place, Call call, Args &...args) -> decltype(call(args...))
{
    return spoil_and_call(place, call, std::index_sequence_for<Args...>(), args...);
}

template <class... Args>
void spoil_one(std::int64_t place, Args &...args)
{
    std::int64_t at = 0;
    ((at++ == place ? spoil(args) : void()), ...);
}

} // namespace dapl::DAPL_TRANSPORT::faults
