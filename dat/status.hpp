// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How a DAT_RETURN is put together.
#pragma once

#include <dat2/udat.h>

namespace dat {

/// What the library decides to be an error always carries the error class.
constexpr DAT_RETURN error(DAT_RETURN_TYPE type, DAT_RETURN_SUBTYPE subtype = DAT_NO_SUBTYPE)
{
    return DAT_CLASS_ERROR | static_cast<DAT_UINT32>(type) | static_cast<DAT_UINT32>(subtype);
}

} // namespace dat
