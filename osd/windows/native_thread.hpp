// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <windows.h>

namespace osd::native {

using thread = HANDLE;
using thread_id = DWORD;
using thread_result = unsigned;

inline thread_id current_thread()
{
    return GetCurrentThreadId();
}

/// The address of what the system keeps for the calling thread.
inline std::uintptr_t thread_pointer()
{
    return reinterpret_cast<std::uintptr_t>(NtCurrentTeb());
}

} // namespace osd::native
