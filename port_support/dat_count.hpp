// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Limits of a device as DAT has them.
#pragma once

#include <cstdint>
#include <dat2/udat.h>
#include <utility>

namespace dapl::port_support {

/// The nearest number that a DAT_COUNT has and that is not negative.
template <class Integer>
DAT_COUNT as_count(Integer n)
{
    if (std::cmp_less(n, 0))
        return 0;
    return std::cmp_greater(n, INT32_MAX) ? INT32_MAX : static_cast<DAT_COUNT>(n);
}

} // namespace dapl::port_support
