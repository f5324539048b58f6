// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_signals.hpp"

#include <atomic>
#include <csignal>
#include <sys/syscall.h>
#include <unistd.h>

namespace osd {

namespace {

constexpr int last_signal = 64;
constexpr std::size_t set_size = sizeof(signal_set);

constexpr int first_real_time = 32; ///< the kernel's; the C library keeps some for itself

/// The kernel's layout on all architectures but MIPS and Alpha: sigaction() of the C library
/// refuses the signals that it uses itself.
struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
    unsigned long rest[4];
};

struct handlers {
    signal_set restarting = 0;
    signal_set ending = 0;
    signal_set ending_once = 0;  ///< ending handlers with SA_RESETHAND
    signal_set of_c_library = 0; ///< they restart
};

std::atomic<signal_set> to_hold_back{0};
std::atomic<signal_set> seen_once{0}; ///< ending_once of the last look: they are gone when they ran
std::atomic<signal_set> gone_on{0};   ///< signals that have ended a call while the wait went on

constexpr signal_set bit(int number)
{
    return signal_set{1} << (number - 1);
}

/// Many programs report their crashes. These do not come to a thread that sleeps.
constexpr signal_set of_crashes = bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGFPE) |
                                  bit(SIGTRAP) | bit(SIGSYS) | bit(SIGABRT);

handlers look()
{
    handlers found;
    for (int number = 1; number <= last_signal; ++number) {
        kernel_action action{};
        if (syscall(SYS_rt_sigaction, number, nullptr, &action, set_size) != 0 ||
            action.handler == SIG_DFL || action.handler == SIG_IGN)
            continue;
        const bool restarts = (action.flags & SA_RESTART) != 0;
        const bool c_library = number >= first_real_time && number < SIGRTMIN;
        (c_library  ? found.of_c_library
         : restarts ? found.restarting
                    : found.ending) |= bit(number);
        if (!c_library && !restarts && (action.flags & SA_RESETHAND) != 0)
            found.ending_once |= bit(number);
    }
    found.restarting &= ~of_crashes;
    found.ending &= ~of_crashes;
    const bool both = found.restarting != 0 && found.ending != 0;
    to_hold_back.store(both ? found.restarting | found.of_c_library : 0, std::memory_order_relaxed);
    return found;
}

signal_set blocked_here()
{
    signal_set blocked = 0;
    (void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &blocked, set_size);
    return blocked;
}

} // namespace

void look_at_signal_handlers()
{
    seen_once.store(look().ending_once, std::memory_order_relaxed);
}

signal_set signals_to_hold_back()
{
    const signal_set all = to_hold_back.load(std::memory_order_relaxed);
    return all == 0 ? 0 : all & ~blocked_here();
}

bool handler_ends_wait(signal_set held_back)
{
    const handlers now = look();
    const signal_set ran_once = seen_once.exchange(now.ending_once) & ~now.restarting;
    const signal_set possible = ~(blocked_here() | held_back);
    const signal_set restarting = now.restarting & possible;
    if (((now.ending | ran_once) & possible) == 0) {
        gone_on.store(restarting, std::memory_order_relaxed);
        return ((now.restarting | now.of_c_library) & possible) == 0;
    }
    return (gone_on.load(std::memory_order_relaxed) & restarting) == 0;
}

bool held_back_ends_wait(signal_set came)
{
    return (look().ending & came) != 0;
}

} // namespace osd
