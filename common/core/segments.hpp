// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <dat2/udat.h>

namespace dapl::DAPL_TRANSPORT::core {

inline DAT_UINT64 total_length(DAT_COUNT segments, const DAT_LMR_TRIPLET *local)
{
    DAT_UINT64 total = 0;
    for (DAT_COUNT i = 0; i < segments; ++i)
        total += local[i].segment_length;
    return total;
}

} // namespace dapl::DAPL_TRANSPORT::core
