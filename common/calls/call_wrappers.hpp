// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How calls stand in the provider vector, and those that are not in the table of the DAT API.
#pragma once

#include "core/thread_safety.hpp"
#include "core/transport.hpp"
#include "osd_cancellation.hpp"

#include <dat2/dat_registry.h>

#include <cstdarg>

namespace dapl::DAPL_TRANSPORT::core {

DAT_RETURN dapl_ia_close(DAT_IA_HANDLE, DAT_CLOSE_FLAGS);
template <class Safety>
DAT_RETURN dapl_extension_op(DAT_HANDLE, DAT_EXTENDED_OP, va_list);

/// A call during which its thread cannot be cancelled. All calls are made so but the waits, which
/// can be cancelled while they sleep, and operations of the data path that have no cancellation
/// point in them.
template <auto call>
struct uncancelled_call;
template <class... Arguments, DAT_RETURN (*call)(Arguments...)>
struct uncancelled_call<call> {
    static DAT_RETURN made(Arguments... arguments)
    {
        const osd::cancellation_hold held;
        return call(arguments...);
    }
};
template <auto call>
inline constexpr auto uncancelled = uncancelled_call<call>::made;
template <auto call>
inline constexpr auto on_data_path =
    transport::has_cancellation_points ? uncancelled_call<call>::made : call;

/// For the calls that no port can serve yet; typed like the slot it stands in.
template <class>
struct unsupported_call;
template <class... Arguments>
struct unsupported_call<DAT_RETURN (*)(Arguments...)> {
    static DAT_RETURN made(Arguments...) { return not_supported.code(); }
};
template <class Slot>
inline constexpr Slot unsupported = unsupported_call<Slot>::made;

} // namespace dapl::DAPL_TRANSPORT::core
