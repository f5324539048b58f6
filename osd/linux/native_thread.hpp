// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <pthread.h>

namespace osd::native {

using thread = pthread_t;
using thread_id = pthread_t;
using thread_result = void *;

inline thread_id current_thread()
{
    return pthread_self();
}

} // namespace osd::native
