// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <thread>

/// Whether `met` holds within five seconds.
template <class Condition>
bool eventually(Condition met)
{
    for (int i = 0; i < 5000; ++i) {
        if (met())
            return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
}
