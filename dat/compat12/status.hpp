// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Return codes: those of DAT 2.0 in the numbers of DAT 1.2.
#pragma once

#include "dat12_types.hpp"
#include "osd_annotations.hpp"

namespace dat12 {

/// What libdat decides to be an error always carries the error class.
constexpr DAT_RETURN fail(v1::DAT_RETURN_TYPE type,
                          v1::DAT_RETURN_SUBTYPE subtype = v1::DAT_NO_SUBTYPE)
{
    return DAT_CLASS_ERROR | static_cast<DAT_UINT32>(type) | static_cast<DAT_UINT32>(subtype);
}

DAT_RETURN translated(DAT_RETURN two);
/// to_one() out of line: callers on the data path stay small.
OSD_NOINLINE DAT_RETURN answered(DAT_RETURN two);

/// Most codes have the same number in both generations, and so has success.
OSD_ALWAYS_INLINE DAT_RETURN to_one(DAT_RETURN two)
{
    if (DAT_GET_SUBTYPE(two) <= DAT_INVALID_HANDLE_SRQ &&
        DAT_GET_TYPE(two) <= static_cast<DAT_UINT32>(DAT_CONN_QUAL_UNAVAILABLE)) [[likely]]
        return two;
    return translated(two);
}

/// For a call of which DAT 2.0 has one more parameter, at this position (counted from 1): positions
/// behind it move. The code is still one of DAT 2.0.
DAT_RETURN without_position(DAT_RETURN two, unsigned position);

} // namespace dat12
