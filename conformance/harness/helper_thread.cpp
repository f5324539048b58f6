// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/helper_thread.hpp"

#include "harness/events.hpp"
#include "harness/judge.hpp"

#include <csignal>
#include <doctest/doctest.h>
#include <fstream>
#include <string>
#include <unistd.h>

namespace conformance {

namespace {

std::atomic<int> caught{0};

} // namespace

void catch_signal(int number, int flags)
{
    struct sigaction action {};
    action.sa_handler = [](int) { ++caught; };
    action.sa_flags = flags;
    ::sigaction(number, &action, nullptr);
}

helper_thread::helper_thread(std::function<void()> work)
    : finished_(std::make_shared<std::atomic<bool>>(false)),
      id_(std::make_shared<std::atomic<long>>(0)),
      thread_([finished = finished_, id = id_, work = std::move(work)] {
          *id = ::gettid();
          work();
          *finished = true;
      })
{}

helper_thread::~helper_thread()
{
    join();
}

void helper_thread::join()
{
    if (thread_.joinable())
        thread_.join();
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

bool helper_thread::sleeps() const
{
    if (*id_ == 0 || !asleep())
        return false;
    std::this_thread::sleep_for(milliseconds(10));
    return asleep();
}

void helper_thread::await_asleep() const
{
    if (!becomes_true([this] { return sleeps(); }))
        GIVE_UP("a thread that was to wait does not sleep");
}

bool ends_by_cancel(helper_thread &waiting)
{
    (void)::pthread_cancel(waiting.native());
    const bool ended = becomes_true([&] { return waiting.gone(); }, patience / 2);
    if (ended)
        waiting.join();
    else
        waiting.leave_behind();
    return ended;
}

namespace {

/// Signals the thread until its work has ended. False if it goes on for so long.
bool ends_under_signals(helper_thread &waiting, int number, milliseconds pause, milliseconds limit)
{
    return becomes_true(
        [&] {
            ::pthread_kill(waiting.native(), number);
            std::this_thread::sleep_for(pause);
            return waiting.finished();
        },
        limit);
}

} // namespace

bool ends_by_signal(helper_thread &waiting)
{
    return ends_under_signals(waiting, SIGUSR1, milliseconds(20), milliseconds(3000));
}

bool ends_despite_signals(helper_thread &waiting, int number)
{
    return ends_under_signals(waiting, number, a_while / 4, patience / 2);
}

bool outlives_signals(helper_thread &waiting, int number)
{
    waiting.await_asleep();
    for (int i = 0; i < 5 && !waiting.finished(); ++i) {
        const int before = caught;
        ::pthread_kill(waiting.native(), number);
        if (!becomes_true([&] { return caught != before || waiting.finished(); }))
            FAIL_CHECK("a handler does not run while its thread waits");
        std::this_thread::sleep_for(milliseconds(10));
    }
    return !waiting.finished();
}

} // namespace conformance
