// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

/// The test program counts with it; programs that do not care lack it.
extern "C" __attribute__((weak)) void stub_saw(const char *what, const char *name);

inline void saw(const char *what, const char *name)
{
    if (stub_saw != nullptr)
        stub_saw(what, name);
}
