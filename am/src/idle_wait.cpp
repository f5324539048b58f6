// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "idle_wait.hpp"

#include "ending.hpp"

#include <algorithm>
#include <sched.h>
#include <unistd.h>

namespace am {

namespace {

/// Leaves the core to its other hardware thread for a moment, where it has one.
void relax()
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    asm volatile("yield");
#endif
}

} // namespace

void idle_wait::pause(bool worked)
{
    end_.stand_if_begun();
    if (worked) {
        empty_ = 0;
        return;
    }
    ++empty_;
    const unsigned spins = crowded_ ? 0 : 1000;
    const unsigned yields = crowded_ ? 50 : 20'000;
    if (empty_ <= spins)
        relax();
    else if (empty_ <= spins + yields)
        sched_yield();
    else
        usleep(std::min(20 * (empty_ - spins - yields), 500U));
}

} // namespace am
