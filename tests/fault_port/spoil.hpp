// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Other values for arguments and answers of operations.
#pragma once

#include "dapls_ib.hpp"
#include "wrapped_objects.hpp"

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

namespace dapl::DAPL_TRANSPORT::faults {

/// What has no other value stays as it is.
template <class T>
void spoil(T &)
{}
inline void spoil(DAT_COUNT &count)
{
    if (count > 0)
        --count;
}
inline void spoil(bool &answer)
{
    answer = !answer;
}
inline void spoil(DAT_UINT32 &number)
{
    number ^= 1;
}
inline void spoil(DAT_CONN_QUAL &qualifier)
{
    ++qualifier;
}
inline void spoil(take_result &answer)
{
    answer = take_result::empty;
}
inline void spoil(osd::wait_result &answer)
{
    answer = osd::wait_result::timed_out;
}
/// The success is not told, although the common layer waits for it; or the other way round.
inline void spoil(DAT_COMPLETION_FLAGS &flags)
{
    flags = static_cast<DAT_COMPLETION_FLAGS>(flags ^ DAT_COMPLETION_SUPPRESS_FLAG);
}
inline void spoil(DAT_CLOSE_FLAGS &how)
{
    how = how == DAT_CLOSE_ABRUPT_FLAG ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG;
}
inline void spoil(notify_on &what)
{
    what = what == notify_on::any ? notify_on::solicited : notify_on::any;
}
inline void spoil(reject_reason &why)
{
    why = why == reject_reason::consumer ? reject_reason::non_consumer : reject_reason::consumer;
}
/// Every right.
inline void spoil(mr_params &params)
{
    params.privileges = DAT_MEM_PRIV_ALL_FLAG;
}
inline void spoil(mw_params &params)
{
    params.privileges = DAT_MEM_PRIV_ALL_FLAG;
    params.one_connection = false;
}
inline void spoil(mr_keys &keys)
{
    keys.remote ^= 0x40000000;
}
inline void spoil(qp_params &params)
{
    params.max_recv = params.max_send = 1;
}
inline void spoil(srq_params &params)
{
    params.max_recv = 1;
}
inline void spoil(private_data &data)
{
    data = {};
}
inline void spoil(connect_params &params)
{
    params.data = {};
}
inline void spoil(cr_params &params)
{
    params.data = {};
}
inline void spoil(extended_operands &operands)
{
    ++operands.immediate;
    ++operands.add_or_compare;
    ++operands.swap;
}
inline void spoil(hca_attr &limits)
{
    limits.max_eps = limits.max_cqs = limits.max_mrs = limits.max_iov_per_dto = 0;
    limits.max_message_size = 0;
}
/// Everything is counted twice.
inline void spoil(device_counters &counters)
{
    for (int i = device_counters::first; i < DCNT_IA_ALL_COUNTERS; ++i)
        counters[i] *= 2;
}
inline void spoil(DAT_RMR_TRIPLET &remote)
{
    remote.virtual_address += 8;
}
inline void spoil(const DAT_RMR_TRIPLET *&remote)
{
    static thread_local DAT_RMR_TRIPLET other;
    if (remote == nullptr)
        return;
    other = *remote;
    spoil(other);
    remote = &other;
}

/// Constant arguments are the caller's: a copy is another value.
template <class T>
decltype(auto) spoiled_if(bool now, T &argument)
{
    if constexpr (std::is_const_v<T> && !holds_object<std::remove_cv_t<T>>) {
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
