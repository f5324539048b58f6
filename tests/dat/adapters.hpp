// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Opening and closing in a scenario.
#pragma once

#include "scenario.hpp"

#include <dat2/dat_registry.h>
#include <dat2/udat.h>

namespace scenario {

constexpr DAT_RETURN code(unsigned type, unsigned subtype = 0)
{
    return DAT_CLASS_ERROR | type | subtype;
}

inline const DAT_RETURN not_found = code(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
inline const DAT_RETURN bad_ia = code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);

inline DAT_RETURN open_as(const char *name, DAT_IA_HANDLE &ia, DAT_UINT32 major, DAT_UINT32 minor,
                          DAT_BOOLEAN safe)
{
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    return dat_ia_openv(const_cast<char *>(name), 8, &async, &ia, major, minor, safe);
}

inline DAT_RETURN open(const char *name, DAT_IA_HANDLE &ia)
{
    return open_as(name, ia, 2, 0, DAT_FALSE);
}

inline DAT_IA_HANDLE opened(const char *name)
{
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    EXPECT_EQ(open(name, ia), DAT_SUCCESS);
    return ia;
}

inline DAT_RETURN close(DAT_IA_HANDLE ia)
{
    return dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
}

} // namespace scenario
