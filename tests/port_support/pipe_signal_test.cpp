// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pipe_signal.hpp"

#include <cerrno>
#include <csignal>
#include <doctest/doctest.h>

namespace {

volatile std::sig_atomic_t pipe_signals = 0;

bool is_pending(int signal)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, signal) == 1;
}

bool is_blocked(int signal)
{
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    return sigismember(&blocked, signal) == 1;
}

} // namespace

TEST_CASE("SIGPIPE that a device raises in a call does not reach the program")
{
    const auto before = std::signal(SIGPIPE, [](int) { pipe_signals = pipe_signals + 1; });
    pipe_signals = 0;
    SUBCASE("of a device in software")
    {
        {
            const dapl::port_support::pipe_signal_hold held(true);
            (void)std::raise(SIGPIPE);
            errno = EAGAIN;
        }
        CHECK(errno == EAGAIN);
        CHECK(pipe_signals == 0);
    }
    SUBCASE("inside another")
    {
        {
            const dapl::port_support::pipe_signal_hold held(true);
            {
                const dapl::port_support::pipe_signal_hold again(true);
                (void)std::raise(SIGPIPE);
            }
            CHECK(is_blocked(SIGPIPE));
        }
        CHECK(pipe_signals == 0);
    }
    SUBCASE("but that which was pending before does, when the program lets it")
    {
        sigset_t pipe;
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
        (void)std::raise(SIGPIPE);
        {
            const dapl::port_support::pipe_signal_hold held(true);
        }
        CHECK(is_pending(SIGPIPE));
        CHECK(is_blocked(SIGPIPE));
        pthread_sigmask(SIG_UNBLOCK, &pipe, nullptr);
        CHECK(pipe_signals == 1);
    }
    SUBCASE("and other devices are left alone")
    {
        const dapl::port_support::pipe_signal_hold held(false);
        (void)std::raise(SIGPIPE);
        CHECK(pipe_signals == 1);
    }
    CHECK(!is_blocked(SIGPIPE));
    CHECK(!is_pending(SIGPIPE));
    (void)std::signal(SIGPIPE, before);
}
