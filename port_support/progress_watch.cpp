// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "progress_watch.hpp"

#include "dapl_debug.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <utility>

namespace dapl::DAPL_TRANSPORT {

namespace {

constexpr std::uint32_t shortest_us = 100; ///< first back-off from a target whose consumer is busy
constexpr std::uint32_t longest_us = 10'000;
constexpr std::int64_t glance_ns = 3000; ///< to see whether a consumer is polling just now
constexpr int rounds_per_visit = 64;
constexpr std::int64_t idle_round_ns = 3000; ///< a round that took no longer moved nothing

bool is_readable(int fd)
{
    pollfd look{fd, POLLIN, 0};
    return poll(&look, 1, 0) == 1;
}

} // namespace

bool progress_watch::in_use(progress_target &target, progress_target *mate)
{
    const bool posted = target.posting.exchange(0, std::memory_order_relaxed) != 0;
    const bool polled = target.take_polled();
    return (mate != nullptr && mate->take_polled()) || posted || polled;
}

/// busy: polling or posting right now. idle: did so recently, but may now spin on memory that a
/// peer is to write, so this thread must make progress.
progress_watch::consumer progress_watch::observe_consumer(progress_target &target,
                                                          progress_target *mate)
{
    if (!in_use(target, mate))
        return consumer::absent;
    const std::int64_t until = osd::now_ns() + glance_ns;
    while (osd::now_ns() < until)
        if (in_use(target, mate))
            return consumer::busy;
    return consumer::idle;
}

void progress_watch::answer_notify(progress_target &target)
{
    if (!target.wants_callback() || !target.has_completion_now())
        return;
    target.sleepers.fetch_and(~progress_target::notify);
    target.call_back();
}

progress_watch::next_step progress_watch::serve(progress_target &target)
{
    const std::int64_t began = osd::now_ns();
    for (int round = 0; round < rounds_per_visit; ++round) {
        (void)target.progress();
        answer_notify(target);
        const bool quiet = target.reset_signal();
        if (target.is_waiting()) {
            target.signal(); // what was cleared may have been meant for the waiter
            return next_step::back_off;
        }
        if (target.wants_callback() && !quiet)
            continue;
        if (!is_readable(target.wait_fd))
            return next_step::arm;
    }
    const bool moved = osd::now_ns() - began > rounds_per_visit * idle_round_ns;
    return moved ? next_step::revisit : next_step::back_off;
}

/// `called`: something happened, it is not only time for a visit.
progress_watch::next_step progress_watch::attend(progress_target &target, progress_target *mate,
                                                 bool called)
{
    if (target.wants_callback())
        return serve(target);
    if (target.is_waiting() || (mate != nullptr && mate->is_waiting()))
        return next_step::back_off;
    const consumer found = observe_consumer(target, mate);
    const bool idle_before = std::exchange(target.seen_idle_, found == consumer::idle);
    if (found == consumer::busy || (found == consumer::idle && !called && !idle_before))
        return next_step::back_off;
    return serve(target);
}

/// A descriptor in epoll costs a little with every packet, even when it is not armed.
void progress_watch::stop_watching(connection_service &service, progress_target &target)
{
    if (std::exchange(target.listed_, false))
        service.events.remove(target.wait_fd);
}

void progress_watch::arm(connection_service &service, progress_target &target)
{
    if (target.receivers_ == 0 && !target.wants_callback()) {
        stop_watching(service, target);
        return;
    }
    target.period_us_ = 0;
    target.armed_.store(true);
    constexpr std::uint32_t once = port_support::event_thread::once;
    const bool listed = std::exchange(target.listed_, true);
    if (listed ? service.events.modify(target.wait_fd, once, &target)
               : service.events.add(target.wait_fd, once, &target))
        return;
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: epoll_ctl for a CQ failed: %s", service.name,
             std::strerror(errno));
}

/// A consumer that sleeps for long is left alone until it reports that it woke.
bool progress_watch::leave_until_report(progress_target &target)
{
    std::uint32_t seen = target.sleepers.load();
    while ((seen & progress_target::waiting) != 0)
        if (target.sleepers.compare_exchange_weak(seen, seen | progress_target::report))
            return true;
    return false;
}

void progress_watch::back_off(connection_service &service, progress_target &target)
{
    stop_watching(service, target);
    const bool long_enough = target.period_us_ == longest_us;
    progress_target *mate = target.mate_;
    target.period_us_ = std::clamp(2 * target.period_us_, shortest_us, longest_us);
    if (long_enough &&
        (leave_until_report(target) || (mate != nullptr && leave_until_report(*mate))))
        target.due_ns_ = INT64_MAX;
    else
        target.due_ns_ = osd::now_ns() + std::int64_t{target.period_us_} * 1000;
}

void progress_watch::visit(connection_service &service, progress_target &target)
{
    const bool called = target.due_ns_ == INT64_MAX;
    progress_target *mate = target.mate_; // is not freed before the queue pairs that made it one
    target.due_ns_ = INT64_MAX;
    next_step next{};
    service.run_upcall(&target, [&] { next = attend(target, mate, called); });
    if (static_cast<progress_all_link &>(target).alone())
        return; // removed meanwhile; remove() has not returned
    switch (next) {
    case next_step::arm:
        arm(service, target);
        break;
    case next_step::back_off:
        back_off(service, target);
        break;
    case next_step::revisit:
        target.due_ns_ = 0;
        break;
    }
}

std::int64_t progress_watch::visit_due(connection_service &service)
{
    const std::int64_t now = osd::now_ns();
    for (progress_target *t = all_.front(); t != nullptr; t = all_.after(*t))
        if (t->due_ns_ <= now && static_cast<progress_ready_link &>(*t).alone())
            ready_.push(*t);
    while (progress_target *t = ready_.front()) {
        static_cast<progress_ready_link &>(*t).unlink();
        visit(service, *t);
    }
    std::int64_t next = INT64_MAX;
    for (progress_target *t = all_.front(); t != nullptr; t = all_.after(*t))
        next = std::min(next, t->due_ns_);
    return next;
}

bool progress_watch::answer_calls(connection_service &)
{
    if (!called_.exchange(false))
        return false;
    for (progress_target *t = all_.front(); t != nullptr; t = all_.after(*t)) {
        const bool asleep = t->due_ns_ == INT64_MAX && t->receivers_ != 0;
        if (!t->armed_.load() && (t->wants_callback() || asleep))
            t->due_ns_ = 0;
    }
    return true;
}

void progress_watch::set_ready(connection_service &, progress_target &target)
{
    target.armed_.store(false); // before the look at target.sleepers
    if (static_cast<progress_ready_link &>(target).alone())
        ready_.push(target);
}

void progress_watch::call(connection_service &service)
{
    called_.store(true);
    service.events.kick();
}

void progress_watch::request_callback(connection_service &service, progress_target &target)
{
    target.sleepers.fetch_or(progress_target::notify);
    if (!target.armed_.load()) // after the line above; the service thread does the opposite
        call(service);
}

void progress_watch::end_wait(connection_service &service, progress_target &target)
{
    constexpr std::uint32_t both = progress_target::waiting | progress_target::report;
    if ((target.sleepers.fetch_and(~both) & progress_target::report) != 0)
        call(service);
}

void progress_watch::add(connection_service &, progress_target &target)
{
    all_.push(target);
}

void progress_watch::remove(connection_service &service, progress_target &target)
{
    stop_watching(service, target);
    static_cast<progress_all_link &>(target).unlink();
    static_cast<progress_ready_link &>(target).unlink();
    service.wait_quiet(&target);
}

void progress_watch::add_receiver(connection_service &service, progress_target &target,
                                  progress_target &sends_at)
{
    progress_target *mate = &sends_at == &target ? nullptr : &sends_at;
    if (target.receivers_++ == 0) {
        target.mate_ = mate;
        arm(service, target);
    } else if (target.mate_ != mate) {
        target.mate_ = nullptr;
    }
}

void progress_watch::remove_receiver(connection_service &service, progress_target &target)
{
    if (--target.receivers_ != 0)
        return;
    service.wait_quiet(&target); // a visit may be looking at the mate
    target.mate_ = nullptr;
}

} // namespace dapl::DAPL_TRANSPORT
