// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/helper_thread.hpp"

#include "harness/events.hpp"
#include "harness/peer.hpp"

#include <csignal>
#include <cstdio>
#include <fstream>
#include <pthread.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace conformance {

const bool waits_are_interrupted = true;
const bool threads_are_cancelled = true;
const bool processes_are_copied = true;

namespace {

std::atomic<int> caught{0};
std::atomic<bool> in_handler{false};
std::atomic<bool> handler_returns{false};

void stay_in_handler(int)
{
    in_handler = true;
    while (!handler_returns)
        ::usleep(1000);
}

constexpr int number_of(signal_kind which)
{
    return which == signal_kind::interrupting ? SIGUSR1 : SIGUSR2;
}

} // namespace

void catch_signal(signal_kind which)
{
    struct sigaction action {};
    action.sa_handler = [](int) { ++caught; };
    action.sa_flags = which == signal_kind::restarting ? SA_RESTART : 0;
    ::sigaction(number_of(which), &action, nullptr);
}

std::intptr_t helper_thread::own_id()
{
    return ::gettid();
}

bool helper_thread::asleep() const
{
    std::ifstream file("/proc/self/task/" + std::to_string(*id_) + "/stat");
    std::string stat;
    std::getline(file, stat);
    const std::size_t name_end = stat.rfind(')');
    return name_end != std::string::npos && stat.compare(name_end, 3, ") S") == 0;
}

bool helper_thread::gone() const
{
    return *id_ != 0 && ::access(("/proc/self/task/" + std::to_string(*id_)).c_str(), F_OK) != 0;
}

void helper_thread::cancel()
{
    (void)::pthread_cancel(thread_.native_handle());
}

bool helper_thread::disturb(signal_kind which)
{
    const int before = caught;
    ::pthread_kill(thread_.native_handle(), number_of(which));
    return becomes_true([&] { return caught != before || finished(); });
}

bool helper_thread::hold_up()
{
    in_handler = handler_returns = false;
    (void)std::signal(SIGUSR2, stay_in_handler);
    (void)::pthread_kill(thread_.native_handle(), SIGUSR2);
    return becomes_true([] { return in_handler.load(); });
}

void helper_thread::let_go()
{
    handler_returns = true;
}

void accept_cancellation(cancel_type how)
{
    (void)::pthread_setcanceltype(how == cancel_type::deferred ? PTHREAD_CANCEL_DEFERRED
                                                               : PTHREAD_CANCEL_ASYNCHRONOUS,
                                  nullptr);
}

int status_of_copy(const std::function<int()> &work)
{
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0)
        ::_exit(work());
    if (child < 0)
        return -1;
    int status = 0;
    const bool ended = becomes_true([&] { return ::waitpid(child, &status, WNOHANG) != 0; });
    if (!ended) {
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
    }
    return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace conformance
