// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <pthread.h>

namespace osd::native {

using thread = pthread_t;
using thread_id = pthread_t;
using thread_result = void *;

inline thread_id current_thread()
{
    return pthread_self();
}

/// The address of what the C library keeps for the calling thread.
inline std::uintptr_t thread_number()
{
    return reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
}

} // namespace osd::native
