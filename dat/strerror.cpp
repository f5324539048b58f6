// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "dat_names.hpp"
#include "osd_annotations.hpp"

namespace dat {
namespace {

/// Stores the name or, lacking one, a text a message can still be made of.
void store(const char **where, const char *name, const char *lacking)
{
    if (where != nullptr)
        *where = name != nullptr ? name : lacking;
}

} // namespace
} // namespace dat

extern "C" OSD_EXPORT DAT_RETURN DAT_API dat_strerror(DAT_RETURN value, const char **major,
                                                      const char **minor)
{
    const char *type = dat::return_type_name(value);
    const char *subtype = dat::return_subtype_name(value);
    dat::store(major, type, "not a DAT return type");
    dat::store(minor, subtype, "not a DAT return subtype");
    // Bare, as programs know it.
    return type != nullptr && subtype != nullptr ? DAT_SUCCESS : DAT_INVALID_PARAMETER;
}
