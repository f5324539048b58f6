// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pipe_signal.hpp"

#include <cerrno>
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

namespace dapl::port_support {

namespace {

sigset_t pipe_signal()
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
}

/// sigtimedwait would be a cancellation point.
void take_pending(const sigset_t &which)
{
    constexpr std::size_t kernel_set_size = 8;
    const timespec at_once{};
    while (::syscall(SYS_rt_sigtimedwait, &which, nullptr, &at_once, kernel_set_size) < 0 &&
           errno == EINTR) {
    }
}

} // namespace

/// A signal that was not blocked cannot have been pending.
void pipe_signal_hold::begin()
{
    const sigset_t held = pipe_signal();
    pthread_sigmask(SIG_BLOCK, &held, &blocked_before_);
    if (sigismember(&blocked_before_, SIGPIPE) == 0)
        return;
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
}

void pipe_signal_hold::end()
{
    const int error = errno;
    if (!was_pending_)
        take_pending(pipe_signal());
    pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr);
    errno = error;
}

} // namespace dapl::port_support
