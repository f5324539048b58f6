// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The log of calls and of what they return: DAPL_DBG_TYPE_API and DAPL_DBG_TYPE_RTN. Wrappers write
// it, which are in the vector only if DAPL_DBG_TYPE asks for it: without, no call pays for it.
#pragma once

#include "core/adapter.hpp"

#include <dat2/dat_registry.h>

namespace dapl::DAPL_TRANSPORT::core {

/// Names the call for its wrappers.
struct call_extension_op {
    static constexpr auto slot = &DAT_PROVIDER::handle_extendedop_func;
    static constexpr DAT_RETURN_SUBTYPE bad_handle = DAT_INVALID_HANDLE_EP;
    static constexpr const char *name = "dat_extension_op";
};

/// A return code as text.
struct code_text {
    explicit code_text(DAT_RETURN code);
    char text[96];
};

/// Puts calls that log into the vector of the line, if the mask asks for them.
void log_calls(provider_line &line);

} // namespace dapl::DAPL_TRANSPORT::core
