// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Error messages of the programs: the call that failed, the name of its DAT code, and a remedy.
#pragma once

#include <dat2/udat.h>

#include <stdexcept>
#include <string>

namespace program {

/// Ends the program with a message that main() prints.
class failure : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The code as text: "DAT_PROVIDER_NOT_FOUND DAT_NAME_NOT_REGISTERED (0x800a0064)".
std::string code_text(DAT_RETURN code);

/// Throws a failure with the call, the code and a remedy.
[[noreturn]] void fail(const char *call, DAT_RETURN code);

inline void must(const char *call, DAT_RETURN code)
{
    if (code != DAT_SUCCESS) [[unlikely]]
        fail(call, code);
}

/// Fails because a connection attempt did not end in ESTABLISHED.
[[noreturn]] void fail_connection(DAT_EVENT_NUMBER number);

} // namespace program
