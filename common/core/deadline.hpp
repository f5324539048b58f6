// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "osd_time.hpp"

#include <dat2/udat.h>

namespace dapl::DAPL_TRANSPORT::core {

inline osd::deadline deadline_of(DAT_TIMEOUT timeout_us)
{
    return timeout_us == DAT_TIMEOUT_INFINITE ? osd::deadline::never()
                                              : osd::deadline::after_us(timeout_us);
}

} // namespace dapl::DAPL_TRANSPORT::core
