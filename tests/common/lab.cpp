// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lab.hpp"

#include <mutex>

namespace lab {

namespace {

std::array<plan, static_cast<std::size_t>(op::count)> plans;
spin_lock text_lock;
std::string text;

} // namespace

std::atomic<bool> loopback{false};
std::function<void()> on_progress;
std::atomic<latch *> poll_gate{nullptr};
std::atomic<int> live_objects{0};
thread_local int upcall::depth = 0;

plan &plan_of(op which)
{
    return plans[static_cast<std::size_t>(which)];
}

void fail(op which, DAT_RETURN failure, int skip)
{
    plan_of(which).failure = failure;
    plan_of(which).fail_after = skip;
}

DAT_RETURN enter(op which)
{
    plan &p = plan_of(which);
    p.calls.fetch_add(1);
    if (latch *gate = p.gate.load(); gate != nullptr)
        gate->wait();
    if (p.fail_after.load() < 0 || p.fail_after.fetch_sub(1) != 0)
        return DAT_SUCCESS;
    return p.failure.load();
}

void violation(const std::string &what)
{
    const std::lock_guard hold(text_lock);
    if (text.find(what) == std::string::npos)
        text += what + "\n";
}

std::string violations()
{
    const std::lock_guard hold(text_lock);
    return text;
}

void reset()
{
    loopback = false;
    on_progress = nullptr;
    poll_gate = nullptr;
    live_objects = 0;
    for (plan &p : plans) {
        p.calls = 0;
        p.fail_after = -1;
        p.gate = nullptr;
    }
    const std::lock_guard hold(text_lock);
    text.clear();
}

} // namespace lab
