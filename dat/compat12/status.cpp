// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "status.hpp"

#include "dat_names.hpp"

namespace dat12 {
namespace {

/// Translates a return type; a type that DAT 1.2 lacks becomes its nearest.
DAT_UINT32 type_of(DAT_UINT32 two)
{
    switch (two) {
    case DAT_RESERVED_LMR:
        return v1::DAT_INVALID_STATE;
    case DAT_PORT_IN_USE:
        return v1::DAT_CONN_QUAL_IN_USE;
    case DAT_COMM_NOT_SUPPORTED:
        return v1::DAT_MODEL_NOT_SUPPORTED;
    case DAT_NOT_IMPLEMENTED:
        return v1::DAT_NOT_IMPLEMENTED;
    default:
        return two <= DAT_CONN_QUAL_UNAVAILABLE ? two
                                                : static_cast<DAT_UINT32>(v1::DAT_INTERNAL_ERROR);
    }
}

/// Translates a subtype. DAT 1.2 lacks two subtypes, so its later numbers are lower.
DAT_UINT32 subtype_of(DAT_UINT32 two)
{
    if (two == DAT_INVALID_STATE_SRQ_SHUTDOWN)
        return v1::DAT_INVALID_STATE_SRQ_ERROR;
    if (two == DAT_INVALID_HANDLE_CSP || two > DAT_THREAD_SAFETY_NOT_FOUND)
        return v1::DAT_NO_SUBTYPE;
    return two - (two > DAT_INVALID_HANDLE_CSP) - (two > DAT_INVALID_STATE_SRQ_SHUTDOWN);
}

bool is_in(DAT_UINT32 subtype, DAT_UINT32 first, unsigned position)
{
    return subtype > first + position - 1 && subtype <= first + 9;
}

/// The DAT 2.0 code that has the name of a DAT 1.2 code, or an impossible code.
DAT_RETURN named_as(DAT_RETURN one)
{
    constexpr DAT_RETURN no_type = 0x2fff0000, no_subtype = 0xffff;
    DAT_RETURN type = DAT_GET_TYPE(one);
    if (type == v1::DAT_NOT_IMPLEMENTED)
        type = DAT_NOT_IMPLEMENTED;
    else if (type > v1::DAT_CONN_QUAL_UNAVAILABLE)
        type = no_type;
    for (DAT_RETURN subtype = 0; subtype <= DAT_THREAD_SAFETY_NOT_FOUND; ++subtype) {
        const bool of_both =
            subtype != DAT_INVALID_HANDLE_CSP && subtype != DAT_INVALID_STATE_SRQ_SHUTDOWN;
        if (of_both && subtype_of(subtype) == DAT_GET_SUBTYPE(one))
            return type | subtype;
    }
    return type | no_subtype;
}

void store(const char **where, const char *name, const char *lacking)
{
    if (where != nullptr)
        *where = name != nullptr ? name : lacking;
}

} // namespace

DAT_RETURN translated(DAT_RETURN two)
{
    const DAT_UINT32 type = DAT_GET_TYPE(two);
    if (type == DAT_QUEUE_EMPTY || type == DAT_TIMEOUT_EXPIRED || type == DAT_INTERRUPTED_CALL)
        return type;
    return DAT_CLASS_ERROR | type_of(type) | subtype_of(DAT_GET_SUBTYPE(two));
}

DAT_RETURN without_position(DAT_RETURN two, unsigned position)
{
    const DAT_UINT32 subtype = DAT_GET_SUBTYPE(two);
    const bool moves =
        is_in(subtype, DAT_INVALID_ARG1, position) || is_in(subtype, DAT_INVALID_HANDLE1, position);
    return moves ? two - 1 : two;
}

} // namespace dat12

// The text of a code. A number that is no code gives a bare error, as in libdat2.
extern "C" OSD_EXPORT DAT_RETURN dat12_strerror(DAT_RETURN value, const char **major,
                                                const char **minor) __asm__("dat_strerror");
DAT_RETURN dat12_strerror(DAT_RETURN value, const char **major, const char **minor)
{
    const DAT_RETURN two = dat12::named_as(value);
    const char *type = dat::return_type_name(two);
    const char *subtype = dat::return_subtype_name(two);
    dat12::store(major, type, "not a DAT return type");
    dat12::store(minor, subtype, "not a DAT return subtype");
    return type != nullptr && subtype != nullptr ? DAT_SUCCESS : DAT_INVALID_PARAMETER;
}
