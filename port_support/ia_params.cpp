// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ia_params.hpp"

#include "dapl_debug.hpp"

namespace dapl::DAPL_TRANSPORT {

status ia_params::refuse(const char *why) const
{
    dapl_log(DAPL_DBG_TYPE_ERR, "ia_params \"%s\": %s; wanted: %s", text_, why, grammar_);
    return status::error(DAT_INVALID_PARAMETER);
}

} // namespace dapl::DAPL_TRANSPORT
