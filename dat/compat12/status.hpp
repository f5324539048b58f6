// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Translates return codes of DAT 2.0 to the numbers of DAT 1.2.
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

/// Translates a code that is no success. Out of line: callers on the data path stay small.
DAT_RETURN translated(DAT_RETURN two);

/// Translates a code. The words are those that DAT 1.2 documents, whatever the provider puts into
/// them: an error has the error class, and a code that is no error (an empty queue, time that is
/// up, a signal) is bare.
OSD_ALWAYS_INLINE DAT_RETURN to_one(DAT_RETURN two)
{
    return two == DAT_SUCCESS ? two : translated(two);
}

/// Adapts the code of a call that has one more parameter in DAT 2.0, at this position (counted from
/// 1): positions behind it move. The result is still a DAT 2.0 code.
DAT_RETURN without_position(DAT_RETURN two, unsigned position);

} // namespace dat12
