// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The operating system as the tests see it, beside the layer that they try.
#pragma once

#include <cstdlib>
#include <pthread.h>
#include <string>
#include <unistd.h>

namespace host {

inline constexpr const char *device = "/dev/zero";
inline constexpr const char *library = "libc.so.6";
inline constexpr const char *library_symbol = "malloc";
inline constexpr const char *line_end = "\n";

/// Null removes it.
inline void set_variable(const char *name, const char *value)
{
    if (value != nullptr)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

inline long process_id()
{
    return getpid();
}

inline long thread_id()
{
    return gettid();
}

/// The name of the calling thread.
inline std::string thread_name()
{
    char name[16] = {};
    pthread_getname_np(pthread_self(), name, sizeof name);
    return name;
}

} // namespace host
