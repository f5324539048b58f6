// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "port.hpp"

#include "osd_sync.hpp"

#include <dlfcn.h>
#include <time.h>

namespace dapl::DAPL_TRANSPORT::faults {

namespace {

struct kept_object {
    void *object;
    kept_object *next;
};
std::atomic<kept_object *> kept_objects{nullptr};

/// Service points whose listeners still listen.
constexpr int most_stopped = 64;
constinit osd::mutex stopped_lock;
const service_point *stopped[most_stopped] = {};

bool replace(const service_point *from, const service_point *by)
{
    osd::lock_guard hold(stopped_lock);
    for (const service_point *&each : stopped)
        if (each == from) {
            each = by;
            return true;
        }
    return false;
}

/// CQs that are armed late, and when they are.
struct late_arm {
    cq_object *queue;
    const evd *owner;
    std::int64_t at_ns;
};
constexpr std::size_t most_late = 64;
constinit osd::mutex late_lock;
late_arm late_arms[most_late] = {};

} // namespace

void arm_late(cq_object &queue, std::int64_t ms)
{
    osd::lock_guard hold(late_lock);
    for (late_arm &each : late_arms)
        if (each.queue == nullptr || each.owner == queue.owner) {
            each = {&queue, queue.owner, osd::now_ns() + ms * 1'000'000};
            return;
        }
}

bool comes_too_soon(const evd &owner)
{
    cq_object *queue = nullptr;
    {
        osd::lock_guard hold(late_lock);
        for (const late_arm &each : late_arms)
            if (each.owner == &owner && osd::now_ns() < each.at_ns)
                queue = each.queue;
    }
    if (queue != nullptr)
        wrapped_transport::dapls_ib_completion_notify(*queue->of, notify_on::any);
    return queue != nullptr;
}

void sleep_ms(std::int64_t ms)
{
    const timespec time{ms / 1000, static_cast<long>(ms % 1000) * 1000000};
    ::nanosleep(&time, nullptr);
}

void keep_forever(void *object)
{
    auto *const kept = new (std::nothrow) kept_object{object, kept_objects.load()};
    while (kept != nullptr && !kept_objects.compare_exchange_weak(kept->next, kept)) {
    }
}

void keep_library()
{
    Dl_info here{};
    if (::dladdr(reinterpret_cast<const void *>(&keep_library), &here) != 0)
        (void)::dlopen(here.dli_fname, RTLD_NOW | RTLD_NODELETE);
}

void stop_requests(service_point &gone)
{
    (void)replace(nullptr, &gone);
}

void allow_requests(service_point &fresh)
{
    while (replace(&fresh, nullptr)) {
    }
}

bool has_stopped(const service_point &point)
{
    osd::lock_guard hold(stopped_lock);
    for (const service_point *each : stopped)
        if (each == &point)
            return true;
    return false;
}

osd::deadline cq_object::earlier(osd::deadline until) const
{
    return keeps && due < until ? due : until;
}

// ----------------------------------------------------------------------------------- completions

namespace {

fault *fault_of(const completion &done)
{
    plan &now = the_plan();
    const opcode operation = done.wr->operation;
    const bool received = operation == opcode::receive || operation == opcode::receive_datagram;
    const subject kind = received ? subject::receive_completion : subject::request_completion;
    fault *const of_all = now.due(subject::completion);
    fault *const of_kind = now.due(kind);
    return of_all != nullptr ? of_all : of_kind;
}

void change(completion &done, const fault &due)
{
    switch (due.does) {
    case action::status:
        done.status = static_cast<DAT_DTO_COMPLETION_STATUS>(due.amount);
        break;
    case action::length:
        done.length = static_cast<DAT_UINT32>(done.length + due.amount);
        break;
    case action::cookie:
        done.wr->cookie.as_64 ^= 1;
        break;
    case action::immediate:
        done.immediate ^= 1;
        break;
    case action::invalidated:
        done.invalidated ^= 0x40000000;
        break;
    case action::receiver:
        done.receiver = nullptr;
        break;
    case action::solicited:
        done.solicited = !done.solicited;
        break;
    default:
        break;
    }
}

void keep(cq_object &queue, const completion &done, osd::deadline due)
{
    queue.kept = done;
    queue.keeps = true;
    queue.due = due;
}

bool poll(cq_object &queue, completion &done)
{
    const auto call = [](cq_object &of, completion &found) {
        return wrapped_transport::dapls_ib_completion_poll(*of.of, found);
    };
    return call_as_planned<subject::completion_poll>(call, queue, done);
}

/// Failures come as they are: the connection has ended, and the rules about it are others.
enum class next_step { deliver, hold, look_again };
next_step treat(cq_object &queue, completion &done)
{
    if (done.status != DAT_DTO_SUCCESS)
        return next_step::deliver;
    const fault *const due = fault_of(done);
    if (due == nullptr)
        return next_step::deliver;
    switch (due->does) {
    case action::never:
        return next_step::look_again;
    case action::twice:
        keep(queue, done, osd::deadline::passed());
        return next_step::deliver;
    case action::late:
        keep(queue, done, osd::deadline::after_us(static_cast<std::uint64_t>(due->amount) * 1000));
        return next_step::hold;
    case action::swap: {
        const completion first = done;
        if (poll(queue, done))
            keep(queue, first, osd::deadline::passed());
        return next_step::deliver;
    }
    default:
        change(done, *due);
        return next_step::deliver;
    }
}

} // namespace

bool poll_as_planned(cq_object &queue, completion &done)
{
    if (queue.keeps) {
        if (!queue.due.has_passed())
            return false;
        done = queue.kept;
        queue.keeps = false;
        return true;
    }
    while (poll(queue, done)) {
        const next_step then = treat(queue, done);
        if (then != next_step::look_again)
            return then == next_step::deliver;
    }
    return false;
}

} // namespace dapl::DAPL_TRANSPORT::faults
