// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_annotations.hpp"
#include "strerror_names.hpp"

#include <cstddef>
#include <iterator>

namespace dat {
namespace {

const char *name_of_type(DAT_UINT32 type)
{
    for (const type_name &known : type_names) {
        if (known.type == type)
            return known.name;
    }
    return nullptr;
}

const char *name_of_subtype(DAT_UINT32 subtype)
{
    return subtype < std::size(subtype_names) ? subtype_names[subtype] : nullptr;
}

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
    const char *type = dat::name_of_type(DAT_GET_TYPE(value));
    const char *subtype = dat::name_of_subtype(DAT_GET_SUBTYPE(value));
    dat::store(major, type, "not a DAT return type");
    dat::store(minor, subtype, "not a DAT return subtype");
    // Bare, as programs know it.
    return type != nullptr && subtype != nullptr ? DAT_SUCCESS : DAT_INVALID_PARAMETER;
}
