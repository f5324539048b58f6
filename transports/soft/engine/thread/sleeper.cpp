// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sleeper.hpp"

#include "window/rtt.hpp"

#include <utility>

namespace soft_hca {

namespace {

constexpr std::int64_t tick_ns = attendance::longest_pause_ns; ///< used while consumers come and go
constexpr std::int64_t grace_ns = 200'000; ///< a consumer that polls comes within it
constexpr std::int64_t first_timer_ns = std::int64_t{rtt_estimator::min_rto_us} * 1000;

osd::deadline at_time(std::int64_t ns)
{
    if (ns == INT64_MAX)
        return osd::deadline::never();
    const std::int64_t left = ns - osd::now_ns();
    return left <= 0 ? osd::deadline::passed()
                     : osd::deadline::after_ns(static_cast<std::uint64_t>(left));
}

} // namespace

bool sleeper::open(std::uint32_t spin_us, waitable socket, ring_paths &rings)
{
    rings_ = &rings;
    spin_ = spin_policy(std::int64_t{spin_us} * 1000);
    (void)alarm_.open();
    socket_ = socket;
    return signal_.open() && watched_.open() && watched_.add(socket_);
}

void sleeper::kick()
{
    if (wakes_ns_.load() != INT64_MIN && !kicked_.exchange(true))
        signal_.raise();
}

void sleeper::end_wait()
{
    waited_.store(true);
    {
        osd::lock_guard hold(lock_);
        if (waiters_.fetch_sub(1) != 1)
            return;
        (void)watched_.add(socket_); // add() reports datagrams that are there already, too
        tell_peers();
    }
    if (leaves_socket_.load())
        wake_by(osd::now_ns() + tick_ns);
}

void sleeper::leave_to_waiters()
{
    osd::lock_guard hold(lock_);
    if (waiters_.fetch_add(1) != 0)
        return;
    watched_.remove(socket_);
    tell_peers();
    if (sleeps_on_socket_)
        kick();
}

/// Tells peers whether to send datagrams: packets in rings wake nobody who sleeps on the socket, or
/// the set.
void sleeper::tell_peers()
{
    rings_->set_asleep(watches_ || waiters_.load() != 0);
}

void sleeper::poll_for_thread(std::int64_t now)
{
    osd::lock_guard hold(lock_);
    if (!watches_ || waiters_.load() != 0 || !alarm_.is_open())
        return;
    rings_->set_asleep(false);
    if (wakes_ns_.load() > now + tick_ns)
        set_wake(now + tick_ns);
}

waitable sleeper::socket_or_set() const
{
    if (leaves_socket_.load())
        return -1;
    return sleeps_on_socket_ ? socket_ : watched_.descriptor();
}

void sleeper::set_wake(std::int64_t due_ns)
{
    wakes_ns_.store(due_ns);
    if (!alarm_.is_open())
        return;
    alarm_.set(due_ns);
    alarm_ns_ = due_ns;
}

void sleeper::advance(std::int64_t due_ns)
{
    if (!alarm_.is_open())
        return kick();
    osd::lock_guard hold(lock_);
    if (due_ns < wakes_ns_.load())
        set_wake(due_ns);
}

/// Returns false when the thread is awake, or sleeps for as long.
bool sleeper::postpone(std::int64_t due_ns)
{
    if (!alarm_.is_open())
        return false;
    osd::lock_guard hold(lock_);
    const std::int64_t wakes = wakes_ns_.load();
    const bool later = wakes != INT64_MIN && due_ns > wakes;
    if (later)
        set_wake(due_ns);
    return later;
}

/// Sets the alarm before the thread sleeps, to this time, or to an earlier one that another thread
/// has asked for meanwhile. An alarm that is set to an earlier time stays, since timers mostly move
/// on before they expire: one spurious wake-up in place of a system call for each sleep.
void sleeper::aim(std::int64_t due_ns)
{
    osd::lock_guard hold(lock_);
    if (due_ns > wakes_ns_.load())
        return;
    if (alarm_ns_ <= due_ns && alarm_ns_ > osd::now_ns())
        wakes_ns_.store(alarm_ns_);
    else
        set_wake(due_ns);
}

bool sleeper::consumers_active()
{
    const bool active = polled_ || waiters_.load() != 0;
    attended_.store(active, std::memory_order_relaxed);
    if (active)
        spin_.stop();
    return active;
}

void sleeper::prepare()
{
    leaves_socket_.store(polled_);
    osd::lock_guard hold(lock_);
    wakes_ns_.store(INT64_MAX);
    const bool waits_came = waits_come_ || waited_.load() || waiters_.load() != 0;
    sleeps_on_socket_ = !polled_ && !waits_came;
    watches_ = !polled_;
    if (watches_)
        tell_peers();
}

std::int64_t sleeper::limit(std::int64_t due_ns, bool worked) const
{
    if (polled_ && waiters_.load() == 0)
        return std::min(due_ns, osd::now_ns() + tick_ns);
    return worked ? std::min(due_ns, osd::now_ns() + first_timer_ns) : due_ns;
}

std::uint64_t sleeper::wait_once(std::int64_t due_ns, const waitable *descriptors)
{
    std::uint64_t ready = 0;
    const std::int64_t latest_ns =
        longest_sleep_ns == INT64_MAX ? INT64_MAX : osd::now_ns() + longest_sleep_ns;
    const std::int64_t until_ns = alarm_.is_open() ? latest_ns : std::min(due_ns, latest_ns);
    const bool woken =
        wait_for(descriptors, sources + 1, at_time(until_ns), &ready) == osd::wait_result::woken;
    return woken ? ready & ((1U << sources) - 1) : 0;
}

std::uint64_t sleeper::finish(std::uint64_t ready)
{
    sleeps_.store(sleeps_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    leaves_socket_.store(false);
    watched_.clear(); // cleared before the socket is read
    {
        osd::lock_guard hold(lock_);
        wakes_ns_.store(INT64_MIN);
        sleeps_on_socket_ = false;
        if (std::exchange(watches_, false))
            tell_peers();
    }
    // A kick that is in progress may raise the signal after it is cleared here. That costs one
    // spurious wake-up.
    if (kicked_.load() || has(ready, kick_source)) {
        signal_.clear();
        kicked_.store(false);
    }
    return ready != 0 ? ready : all_sources;
}

/// Returns true when packets are waiting, and no consumer polls.
bool sleeper::neglected(waitable socket) const
{
    const std::uint32_t polls = polls_.load();
    if (!rings_->has_packets() &&
        wait_for(&socket, 1, osd::deadline::passed()) != osd::wait_result::woken)
        return false;
    (void)wait_for(nullptr, 0, osd::deadline::after_ns(grace_ns));
    return polls_.load() == polls;
}

void sleeper::judge(bool found, waitable socket)
{
    const std::uint32_t polls = polls_.load();
    waits_come_ = waited_.exchange(false);
    const bool met = waits_come_ || contended_;
    polled_ = attendance_.note(polls - polls_seen_, met, found, osd::now_ns());
    polls_seen_ = polls;
    if (polled_ && neglected(socket)) {
        attendance_.neglected();
        polled_ = false;
    }
}

} // namespace soft_hca
