// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/helper_thread.hpp"

#include "harness/events.hpp"
#include "harness/judge.hpp"

#include <doctest/doctest.h>

namespace conformance {

helper_thread::helper_thread(std::function<void()> work)
    : finished_(std::make_shared<std::atomic<bool>>(false)),
      id_(std::make_shared<std::atomic<std::intptr_t>>(0)),
      thread_([finished = finished_, id = id_, work = std::move(work)] {
          *id = own_id();
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
    waiting.cancel();
    const bool ended = becomes_true([&] { return waiting.gone(); }, patience / 2);
    if (ended)
        waiting.join();
    else
        waiting.leave_behind();
    return ended;
}

namespace {

/// Signals the thread until its work has ended. False if it goes on for so long.
bool ends_under_signals(helper_thread &waiting, signal_kind which, milliseconds pause,
                        milliseconds limit)
{
    return becomes_true(
        [&] {
            (void)waiting.disturb(which);
            std::this_thread::sleep_for(pause);
            return waiting.finished();
        },
        limit);
}

} // namespace

bool ends_by_signal(helper_thread &waiting)
{
    return ends_under_signals(waiting, signal_kind::interrupting, milliseconds(20),
                              milliseconds(3000));
}

bool ends_despite_signals(helper_thread &waiting)
{
    return ends_under_signals(waiting, signal_kind::restarting, a_while / 4, patience / 2);
}

bool outlives_signals(helper_thread &waiting)
{
    waiting.await_asleep();
    for (int i = 0; i < 5 && !waiting.finished(); ++i) {
        if (!waiting.disturb(signal_kind::restarting))
            FAIL_CHECK("a handler does not run while its thread waits");
        std::this_thread::sleep_for(milliseconds(10));
    }
    return !waiting.finished();
}

} // namespace conformance
