// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/codes.hpp"

#include "dat_names.hpp"
#include "program/system.hpp"

#include <cstdio>

doctest::String toString(DAT_DTO_COMPLETION_STATUS status)
{
    return dat::dto_status_name(status);
}

namespace conformance {

std::string code_name(DAT_RETURN code)
{
    const char *major = nullptr;
    const char *minor = nullptr;
    char number[16];
    std::snprintf(number, sizeof number, "0x%08x", code);
    if (dat_strerror(code, &major, &minor) != DAT_SUCCESS || major == nullptr)
        return number;
    std::string name = major;
    if (minor != nullptr && *minor != '\0')
        name += std::string("/") + minor;
    if (code != DAT_SUCCESS && (code & DAT_CLASS_ERROR) == 0)
        name += " (bare)";
    return name;
}

doctest::String toString(const comparison &compared)
{
    return compared.text.c_str();
}

comparison same_code(DAT_RETURN actual, DAT_RETURN expected)
{
    return {actual == expected, "got " + code_name(actual) + ", want " + code_name(expected)};
}

bool refused(DAT_RETURN code)
{
    if (code == DAT_SUCCESS)
        return false;
    const bool proper = code == not_supported || code == error(DAT_NOT_IMPLEMENTED);
    CHECK_MESSAGE(proper, "refused with ", code_name(code), ", want ", code_name(not_supported));
    return true;
}

comparison same_type(DAT_RETURN actual, DAT_RETURN_TYPE expected)
{
    const bool same = (actual & DAT_CLASS_ERROR) != 0 && DAT_GET_TYPE(actual) == expected;
    return {same, "got " + code_name(actual) + ", want any " + code_name(error(expected))};
}

comparison same_outcome(DAT_RETURN actual, DAT_RETURN_TYPE expected)
{
    return {DAT_GET_TYPE(actual) == expected,
            "got " + code_name(actual) + ", want " + code_name(expected)};
}

comparison same_event(DAT_EVENT_NUMBER actual, DAT_EVENT_NUMBER expected)
{
    return {actual == expected,
            std::string("got ") + dat::event_name(actual) + ", want " + dat::event_name(expected)};
}

void *find_symbol(const char *name)
{
    return program::find_symbol(name);
}

} // namespace conformance
