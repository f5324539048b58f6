// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <windows.h>

/// The test program counts with its stub_saw; programs that do not care lack it.
inline void saw(const char *what, const char *name)
{
    using function = void (*)(const char *, const char *);
    const auto stub_saw = reinterpret_cast<function>(
        reinterpret_cast<void *>(GetProcAddress(GetModuleHandleA(nullptr), "stub_saw")));
    if (stub_saw != nullptr)
        stub_saw(what, name);
}
