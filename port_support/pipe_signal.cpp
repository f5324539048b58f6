// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pipe_signal.hpp"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

namespace dapl::port_support {

namespace {

constexpr std::uint64_t pipe_signal = std::uint64_t{1} << (SIGPIPE - 1);
constexpr std::size_t set_size = sizeof pipe_signal; ///< size of the kernel's set; the C library's
                                                     ///< set has 128 bytes

/// sigtimedwait would be a cancellation point.
void take_pending()
{
    constexpr timespec at_once{};
    while (::syscall(SYS_rt_sigtimedwait, &pipe_signal, nullptr, &at_once, set_size) < 0 &&
           errno == EINTR) {
    }
}

bool is_pending()
{
    std::uint64_t pending = 0;
    (void)::syscall(SYS_rt_sigpending, &pending, set_size);
    return (pending & pipe_signal) != 0;
}

} // namespace

/// A signal that was not blocked cannot have been pending.
void pipe_signal_hold::begin()
{
    (void)::syscall(SYS_rt_sigprocmask, SIG_BLOCK, &pipe_signal, &blocked_before_, set_size);
    was_pending_ = (blocked_before_ & pipe_signal) != 0 && is_pending();
}

void pipe_signal_hold::end()
{
    const int error = errno;
    if (!was_pending_)
        take_pending();
    (void)::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked_before_, nullptr, set_size);
    errno = error;
}

} // namespace dapl::port_support
