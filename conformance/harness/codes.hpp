// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// DAT return codes and events: how a case names them, and comparisons that print both sides.
#pragma once

#include <doctest/doctest.h>

#include <dat2/udat.h>

#include <string>

/// Found by doctest, which would print a number.
doctest::String toString(DAT_DTO_COMPLETION_STATUS status);

namespace conformance {

constexpr DAT_RETURN error(unsigned type, unsigned subtype = DAT_NO_SUBTYPE)
{
    return DAT_CLASS_ERROR | type | subtype;
}
constexpr DAT_RETURN bad_arg(int position)
{
    return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + static_cast<unsigned>(position) - 1);
}
constexpr DAT_RETURN bad_handle(unsigned subtype)
{
    return error(DAT_INVALID_HANDLE, subtype);
}
constexpr DAT_RETURN bad_state(unsigned subtype)
{
    return error(DAT_INVALID_STATE, subtype);
}
inline constexpr DAT_RETURN success = DAT_SUCCESS;
inline constexpr DAT_RETURN not_supported = error(DAT_MODEL_NOT_SUPPORTED);

/// The names of dat_strerror; a missing error class is shown as "(bare)".
std::string code_name(DAT_RETURN code);

/// The outcome of a comparison, which prints both values.
struct comparison {
    bool same;
    std::string text;
    explicit operator bool() const { return same; }
};
doctest::String toString(const comparison &compared);

/// All of the code: class, type and subtype.
comparison same_code(DAT_RETURN actual, DAT_RETURN expected);
/// Whether an optional feature was refused; checks that the code is the proper one.
bool refused(DAT_RETURN code);
/// An error of this type, classed, whatever its subtype.
comparison same_type(DAT_RETURN actual, DAT_RETURN_TYPE expected);
/// Compares outcomes that are not errors; EVD-07 and EVD-10 test that they have no error class.
comparison same_outcome(DAT_RETURN actual, DAT_RETURN_TYPE expected);
comparison same_event(DAT_EVENT_NUMBER actual, DAT_EVENT_NUMBER expected);

// ------------------------------------------------------------------------ calls by their name

/// A call that some libdat2 do not export; null if missing.
void *find_symbol(const char *name);

template <class Function>
Function *optional_call(const char *name)
{
    return reinterpret_cast<Function *>(find_symbol(name));
}

} // namespace conformance
