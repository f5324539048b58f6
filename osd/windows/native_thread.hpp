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

inline std::uintptr_t thread_number()
{
    return GetCurrentThreadId();
}

} // namespace osd::native
