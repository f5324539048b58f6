// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The operating system as the tests see it, beside the layer that they try.
#pragma once

#include <string>
#include <windows.h>

extern "C" __declspec(dllimport) HRESULT WINAPI GetThreadDescription(HANDLE, PWSTR *);

namespace host {

inline constexpr const char *device = "NUL";
inline constexpr const char *library = "kernel32.dll";
inline constexpr const char *library_symbol = "GetTickCount";
inline constexpr const char *line_end = "\r\n";

/// Null removes it.
inline void set_variable(const char *name, const char *value)
{
    SetEnvironmentVariableA(name, value);
}

inline long process_id()
{
    return static_cast<long>(GetCurrentProcessId());
}

inline long thread_id()
{
    return static_cast<long>(GetCurrentThreadId());
}

/// The name of the calling thread.
inline std::string thread_name()
{
    wchar_t *wide = nullptr;
    if (FAILED(GetThreadDescription(GetCurrentThread(), &wide)))
        return "";
    std::string name;
    for (const wchar_t *at = wide; *at != L'\0'; ++at)
        name += static_cast<char>(*at);
    LocalFree(wide);
    return name;
}

} // namespace host
