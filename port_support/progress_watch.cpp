// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "progress_watch.hpp"

#include "dapl_debug.hpp"
#include "descriptor_wait.hpp"
#include "osd_cancellation.hpp"
#include "osd_descriptor.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utility>

namespace dapl::DAPL_TRANSPORT {

namespace {

constexpr std::uint32_t shortest_us = 100; ///< first back-off from a target whose consumer is busy
constexpr std::uint32_t longest_us = 10'000;
constexpr std::int64_t linger_ns = 10'000'000; ///< most time to linger; half of it is the least
constexpr std::int64_t long_wait_ns = 2'000'000;
constexpr std::int64_t glance_ns = 3000; ///< time in which to see whether a consumer polls just now
constexpr int rounds_per_visit = 64;
constexpr int rounds_after_pause = 8;
constexpr std::int64_t idle_round_ns = 3000;    ///< a round that took no longer moved nothing
constexpr std::int64_t trusted_ns = 10'000'000; ///< time for which a look at moved_so_far() is
                                                ///< trusted

bool is_readable(int fd, int other)
{
    pollfd look[2] = {{fd, POLLIN, 0}, {other, POLLIN, 0}};
    return poll(look, 2, 0) > 0;
}

/// Leaves a consumer that sleeps for long alone until its wait ends. `flag` says what is to happen
/// then.
bool leave_until(progress_target &target, std::uint32_t flag)
{
    std::uint32_t seen = target.sleepers.load();
    while ((seen & progress_target::waiting) != 0)
        if (target.sleepers.compare_exchange_weak(seen, seen | flag))
            return true;
    return false;
}

} // namespace

// ------------------------------------------------------------------------------ shared_descriptor

void shared_descriptor::arm(port_support::epoll_set &set, place &at)
{
    if (at.armed || at.targets == 0)
        return;
    constexpr std::uint32_t once = port_support::epoll_set::once;
    at.armed = true;
    const bool listed = std::exchange(at.listed, true);
    (void)(listed ? set.modify(fd_, once, &at) : set.add(fd_, once, &at));
}

void shared_descriptor::count_in(port_support::epoll_set &set, bool notifying)
{
    if (fd_ < 0)
        return;
    osd::lock_guard hold(lock_);
    ++places_[notifying].targets;
    arm(set, places_[notifying]);
}

void shared_descriptor::count_out(bool notifying)
{
    if (fd_ < 0)
        return;
    osd::lock_guard hold(lock_);
    --places_[notifying].targets;
}

void shared_descriptor::rest(port_support::epoll_set &set, bool notifying)
{
    if (fd_ < 0)
        return;
    osd::lock_guard hold(lock_);
    place &at = places_[notifying];
    if (at.targets == 0 && std::exchange(at.armed, false))
        (void)set.modify(fd_, 0, &at);
}

void shared_descriptor::resume(port_support::epoll_set &set, bool notifying)
{
    if (fd_ < 0)
        return;
    osd::lock_guard hold(lock_);
    arm(set, places_[notifying]);
}

bool shared_descriptor::fired(const void *tag, bool &notifying)
{
    if (fd_ < 0)
        return false;
    osd::lock_guard hold(lock_);
    for (place &at : places_) {
        if (tag != &at)
            continue;
        at.armed = false;
        notifying = &at == &places_[1];
        return true;
    }
    return false;
}

// ------------------------------------------------------------------------------------- visits

/// Returns whether the target was armed.
bool progress_target::disarm(shared_descriptor &shared)
{
    const bool was_armed = armed_.exchange(false);
    if (was_armed)
        shared.count_out(notifies_);
    return was_armed;
}

bool progress_target::has_polled()
{
    const bool polled = take_polled();
    if (polled)
        unattended_.end();
    return polled;
}

bool progress_watch::in_use(progress_target &target, progress_target *mate)
{
    const bool posted = target.posting.exchange(0, std::memory_order_relaxed) != 0;
    const bool polled = target.has_polled();
    return (mate != nullptr && mate->has_polled()) || posted || polled;
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
    target.called_back_ = true;
    target.call_back();
}

progress_watch::next_step progress_watch::serve(progress_target &target, int rounds)
{
    const std::int64_t began = osd::now_ns();
    // The flag is set before the device is polled: whoever posts a receive after that poll sees the
    // flag, and makes progress for messages that wait for a receive.
    target.sleepers.fetch_or(progress_target::resting);
    for (int round = 0; round < rounds; ++round) {
        (void)target.progress();
        answer_notify(target);
        const bool quiet = target.reset_signal();
        if (target.is_waiting()) {
            target.signal(); // wakes the waiter, in case the cleared signal was meant for it
            return next_step::back_off;
        }
        // A callback that was asked for before the reset may be for a completion whose signal the
        // reset has cleared; the device does not tell of those that the port defers.
        if (target.wants_callback() && (!quiet || target.has_completion_now()))
            continue;
        if (!is_readable(target.wait_fd, target.shared_fd))
            return next_step::arm;
    }
    const bool moved = osd::now_ns() - began > rounds * idle_round_ns;
    return moved ? next_step::revisit : next_step::back_off;
}

/// Completions that nobody takes may hold a failure, which has to end the connection.
void progress_watch::look_after_completions(progress_target &target)
{
    if (!target.puts_aside || target.has_polled() || target.is_waiting() || !target.progress())
        target.unattended_.end();
    else if (target.unattended_.go_on(osd::now_ns()))
        target.put_aside();
}

/// A round takes long without moving anything where messages wait on many connections for which no
/// receive is posted.
bool progress_watch::is_stuck(progress_target &target)
{
    const std::int64_t now = osd::now_ns();
    if (target.period_us_ == 0 && now - target.looked_ns_ < trusted_ns)
        return false;
    target.looked_ns_ = now;
    const std::uint64_t moved = target.moved_so_far();
    return std::exchange(target.moved_before_, moved) == moved;
}

/// `called`: something happened, it is not only time for a visit.
progress_watch::next_step progress_watch::attend(progress_target &target, progress_target *mate,
                                                 bool called, int rounds)
{
    target.sleepers.fetch_and(~progress_target::resting);
    if (!target.wants_callback()) {
        if (target.is_waiting() || (mate != nullptr && mate->is_waiting()))
            return next_step::back_off;
        const consumer found = observe_consumer(target, mate);
        const bool idle_before = std::exchange(target.seen_idle_, found == consumer::idle);
        if (found == consumer::busy || (found == consumer::idle && !called && !idle_before))
            return next_step::back_off;
    }
    const next_step next = serve(target, rounds);
    look_after_completions(target);
    if (mate != nullptr)
        look_after_completions(*mate);
    return next;
}

port_support::epoll_set &progress_watch::set_of(connection_service &service,
                                                const progress_target &target)
{
    return target.notifies_ ? notifying_ : service.events;
}

/// A descriptor in epoll costs a little with every packet, even when it is not armed.
void progress_watch::stop_watching(connection_service &service, progress_target &target)
{
    (void)target.disarm(shared_);
    if (std::exchange(target.listed_, false))
        set_of(service, target).remove(target.wait_fd);
}

void progress_watch::watch(connection_service &service, progress_target &target)
{
    constexpr std::uint32_t once = port_support::epoll_set::once;
    port_support::epoll_set &set = set_of(service, target);
    if (!target.armed_.exchange(true))
        shared_.count_in(set, target.notifies_);
    const bool listed = std::exchange(target.listed_, true);
    if (listed ? set.modify(target.wait_fd, once, &target) : set.add(target.wait_fd, once, &target))
        return;
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: epoll_ctl for a CQ failed: %s", service.name,
             std::strerror(errno));
}

void progress_watch::set_alarm(std::int64_t at_ns)
{
    itimerspec when{};
    if (at_ns != INT64_MAX)
        when.it_value = {static_cast<std::time_t>(at_ns / 1'000'000'000),
                         static_cast<long>(at_ns % 1'000'000'000)};
    (void)timerfd_settime(alarm_, TFD_TIMER_ABSTIME, &when, nullptr);
    alarm_ns_ = at_ns;
}

/// An alarm that is set and comes late enough is left as it is, and one for another target, too.
void progress_watch::linger(progress_target &target)
{
    if (std::exchange(target.lingering_, true))
        return;
    const std::int64_t now = osd::now_ns();
    osd::lock_guard hold(alarm_lock_);
    const bool first = lingering_++ == 0;
    if (alarm_ns_ == INT64_MAX || (first && alarm_ns_ - now < linger_ns / 2))
        set_alarm(now + linger_ns);
}

/// The next of short waits ends before the alarm comes, and puts it off.
bool progress_watch::stop_lingering(progress_target &target)
{
    if (!std::exchange(target.lingering_, false))
        return false;
    osd::lock_guard hold(alarm_lock_);
    if (--lingering_ == 0 && last_wait_ns_.load(std::memory_order_relaxed) > long_wait_ns)
        set_alarm(INT64_MAX);
    return true;
}

void progress_watch::end_lingering(connection_service &)
{
    {
        osd::lock_guard hold(alarm_lock_);
        alarm_ns_ = INT64_MAX;
    }
    for (progress_target *t = all_.front(); t != nullptr; t = all_.after(*t)) {
        osd::lock_guard hold(t->arming_);
        if (stop_lingering(*t))
            make_ready(*t);
    }
}

/// `called_back`: by the consumer itself, which polls now.
void progress_watch::arm(connection_service &service, progress_target &target, bool called_back)
{
    target.period_us_ = 0;
    target.aside_ns_ = target.unattended_.over_at_ns();
    if (target.mate_ != nullptr)
        target.aside_ns_ = std::min(target.aside_ns_, target.mate_->unattended_.over_at_ns());
    osd::lock_guard hold(target.arming_);
    if (target.wants_callback())
        watch(service, target);
    else if (target.receivers_ == 0)
        stop_watching(service, target);
    else if (leave_until(target, progress_target::left))
        return;
    else if (called_back)
        linger(target);
    else
        watch(service, target);
}

/// A callback that was asked for during the visit finds the target disarmed and arms it, or is seen
/// here.
void progress_watch::back_off(connection_service &service, progress_target &target)
{
    const bool long_enough = target.period_us_ == longest_us;
    progress_target *mate = target.mate_;
    target.period_us_ = std::clamp(2 * target.period_us_, shortest_us, longest_us);
    osd::lock_guard hold(target.arming_);
    stop_watching(service, target);
    if (long_enough && (leave_until(target, progress_target::left) ||
                        (mate != nullptr && leave_until(*mate, progress_target::report))))
        target.due_ns_ = INT64_MAX;
    else
        target.due_ns_ = osd::now_ns() + std::int64_t{target.period_us_} * 1000;
}

/// The service thread and a consumer in cno_wait may come at once: the second leaves it to the
/// first.
void progress_watch::visit(connection_service &service, progress_target &target)
{
    const bool called = std::exchange(target.due_ns_, INT64_MAX) == INT64_MAX;
    target.again_ = true;
    if (target.visited_)
        return; // a return without a due time: otherwise the service thread would not sleep, nor
                // release the lock
    bool called_back = false;
    next_step next{};
    target.visited_ = true;
    while (std::exchange(target.again_, false)) {
        target.due_ns_ = target.aside_ns_ = INT64_MAX;
        progress_target *mate = target.mate_; // outlives the queue pairs that made it the mate
        const int rounds = target.period_us_ == 0 ? rounds_per_visit : rounds_after_pause;
        service.run_upcall(&target, [&] { next = attend(target, mate, called, rounds); });
        called_back = std::exchange(target.called_back_, false);
        callbacks_ += called_back ? 1 : 0;
        if (static_cast<progress_all_link &>(target).is_unlinked())
            return; // removed meanwhile; remove() has not returned
    }
    target.visited_ = false;
    switch (next) {
    case next_step::arm:
        arm(service, target, called_back && !service.events.is_current());
        break;
    case next_step::back_off:
        back_off(service, target);
        break;
    case next_step::revisit:
        if (is_stuck(target))
            back_off(service, target);
        else
            target.due_ns_ = 0;
        break;
    }
    if (target.due_ns_ != INT64_MAX && !service.events.is_current())
        service.events.kick();
}

void progress_watch::visit_ready(connection_service &service)
{
    while (progress_target *t = ready_.front()) {
        static_cast<progress_ready_link &>(*t).unlink();
        visit(service, *t);
    }
    shared_.resume(service.events, false);
    shared_.resume(notifying_, true);
}

std::int64_t progress_watch::visit_due(connection_service &service)
{
    const std::int64_t now = osd::now_ns();
    for (progress_target *t = all_.front(); t != nullptr; t = all_.after(*t))
        if (std::min(t->due_ns_, t->aside_ns_) <= now)
            make_ready(*t);
    visit_ready(service);
    std::int64_t next = INT64_MAX;
    for (progress_target *t = all_.front(); t != nullptr; t = all_.after(*t))
        next = std::min({next, t->due_ns_, t->aside_ns_});
    return next;
}

bool progress_watch::answer_calls(connection_service &)
{
    if (!called_.exchange(false))
        return false;
    for (progress_target *t = all_.front(); t != nullptr; t = all_.after(*t)) {
        const bool left = (t->sleepers.load() & progress_target::left) != 0;
        const bool asleep = t->due_ns_ == INT64_MAX && t->receivers_ != 0 && !left;
        if (!t->armed_.load() && (t->wants_callback() || asleep))
            t->due_ns_ = 0;
    }
    return true;
}

void progress_watch::make_ready(progress_target &target)
{
    if (static_cast<progress_ready_link &>(target).is_unlinked())
        ready_.push(target);
}

/// Other targets stay armed: the visit moves their data, too, and each completion signals.
void progress_watch::make_one_ready(bool notifying)
{
    for (progress_target *t = all_.front(); t != nullptr; t = all_.after(*t)) {
        osd::lock_guard hold(t->arming_);
        if (t->notifies_ == notifying && t->disarm(shared_))
            return make_ready(*t);
    }
}

void progress_watch::set_ready(connection_service &service, void *tag)
{
    if (tag == &notifying_)
        return collect(service);
    if (tag == &alarm_)
        return end_lingering(service);
    if (bool notifying = false; shared_.fired(tag, notifying))
        return make_one_ready(notifying);
    progress_target &target = *static_cast<progress_target *>(tag);
    {
        osd::lock_guard hold(target.arming_);
        (void)target.disarm(shared_);
    }
    make_ready(target);
}

void progress_watch::collect(connection_service &service)
{
    void *tags[port_support::epoll_set::batch];
    const std::size_t count = notifying_.collect(tags);
    for (std::size_t i = 0; i < count; ++i)
        set_ready(service, tags[i]);
}

void progress_watch::call(connection_service &service)
{
    called_.store(true);
    service.events.kick();
}

/// Asks for a callback. Completions in the CQ already are left to the caller, who polls next.
/// Another thread may sleep on the signal that is cleared here.
void progress_watch::request_callback(connection_service &service, progress_target &target)
{
    target.sleepers.fetch_or(progress_target::notify);
    {
        osd::lock_guard hold(target.arming_);
        if (notifying_.is_open() && !target.notifies_) {
            stop_watching(service, target);
            target.notifies_ = true;
        }
        (void)stop_lingering(target);
        if (target.armed_.load())
            return;
        (void)target.reset_signal();
        watch(service, target);
    }
    if (target.is_waiting())
        target.signal();
}

void progress_watch::begin_wait(connection_service &service, progress_target &target)
{
    target.wait_began_ns_ = osd::now_ns();
    osd::lock_guard hold(target.arming_);
    std::uint32_t how = progress_target::waiting;
    if (stop_lingering(target)) {
        how |= progress_target::left;
    } else if (target.armed_.load() && !target.wants_callback()) {
        (void)target.disarm(shared_);
        (void)set_of(service, target).modify(target.wait_fd, 0, &target);
        shared_.rest(set_of(service, target), target.notifies_);
        how |= progress_target::left;
    }
    if ((how & progress_target::left) != 0) // a visit follows the wait
        target.sleepers.fetch_and(~progress_target::resting);
    target.sleepers.fetch_or(how);
}

void progress_watch::end_wait(connection_service &service, progress_target &target)
{
    constexpr std::uint32_t all =
        progress_target::waiting | progress_target::report | progress_target::left;
    std::uint32_t how = 0;
    last_wait_ns_.store(osd::now_ns() - target.wait_began_ns_, std::memory_order_relaxed);
    {
        osd::lock_guard hold(target.arming_);
        how = target.sleepers.fetch_and(~all);
        if ((how & progress_target::left) != 0)
            linger(target);
    }
    if ((how & progress_target::report) != 0)
        call(service);
}

// ------------------------------------------------------------------------- consumers in cno_wait

void progress_watch::leave_notifying_to_service(connection_service &service, bool leave)
{
    (void)service.events.modify(notifying_.get(), leave ? std::uint32_t{EPOLLIN} : 0, &notifying_);
}

osd::wait_result progress_watch::wait_for_callback(connection_service &service, osd::deadline until)
{
    const std::int64_t began_ns = osd::now_ns();
    leave_notifying_to_service(service, false);
    osd::wait_result how{};
    osd::undo_if_cancelled([&] { how = sleep_for_callback(service, until); },
                           [&] { leave_notifying_to_service(service, true); });
    leave_notifying_to_service(service, true);
    last_wait_ns_.store(osd::now_ns() - began_ns, std::memory_order_relaxed);
    return how;
}

/// Targets without a completion may be ready too, for progress: that does not end the wait.
osd::wait_result progress_watch::sleep_for_callback(connection_service &service,
                                                    osd::deadline until)
{
    for (;;) {
        bool readable = false;
        osd::wait_result how = osd::wait_result::woken;
        if (!woken_.load())
            how = port_support::wait_readable(notifying_.get(), wake_.get(), until, readable);
        const bool called_back = readable && serve_notifying(service);
        if (woken_.exchange(false) || called_back || !readable)
            return how;
        if (until.has_passed())
            return osd::wait_result::timed_out;
    }
}

/// Returns true when a callback was made.
bool progress_watch::serve_notifying(connection_service &service)
{
    awake_.store(true);
    bool called_back = false;
    {
        osd::lock_guard hold(service.lock);
        const std::uint32_t before = callbacks_;
        collect(service);
        visit_ready(service);
        called_back = callbacks_ != before;
    }
    awake_.store(false); // the store comes before the look at woken_
    return called_back;
}

void progress_watch::wake_waiter()
{
    woken_.store(true);
    if (!awake_.load())
        wake_.raise();
}

// ---------------------------------------------------------------------------------- coming, going

bool progress_watch::open(connection_service &service, bool notifying, int shared_fd)
{
    shared_.open(shared_fd);
    alarm_ = osd::beyond_standard(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (alarm_ < 0 || !service.events.add(alarm_, EPOLLIN | EPOLLET, &alarm_))
        return false;
    return !notifying || (notifying_.open() && wake_.open() &&
                          service.events.add(notifying_.get(), EPOLLIN, &notifying_));
}

void progress_watch::close()
{
    if (const int open = std::exchange(alarm_, -1); open >= 0)
        (void)::close(open);
    notifying_.close();
    wake_.close();
}

bool progress_watch::add(connection_service &service, progress_target &target)
{
    if (!service.events.add(target.wait_fd, 0, &target)) // tried only: the target is not armed yet
        return false;
    service.events.remove(target.wait_fd);
    target.shared_fd = shared_.get();
    all_.push(target);
    return true;
}

void progress_watch::remove(connection_service &service, progress_target &target)
{
    {
        osd::lock_guard hold(target.arming_);
        stop_watching(service, target);
        (void)stop_lingering(target);
    }
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
        arm(service, target, false);
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
