// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sleeper.hpp"

#include "rtt.hpp"

namespace soft_hca {

namespace {

constexpr std::int64_t tick_ns = attendance::longest_pause_ns; ///< while consumers come and go
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

bool sleeper::open(std::uint32_t spin_us)
{
    spin_ = spin_policy(std::int64_t{spin_us} * 1000);
    return signal_.open();
}

void sleeper::kick()
{
    if (wakes_ns_.load() != INT64_MIN && !kicked_.exchange(true))
        signal_.raise();
}

void sleeper::end_wait()
{
    waited_.store(true);
    if (waiters_.fetch_sub(1) == 1 && leaves_socket_.load())
        kick();
}

bool sleeper::consumers_active()
{
    const bool active = polled_ || waiters_.load() != 0;
    attended_.store(active, std::memory_order_relaxed);
    if (active)
        spin_.stop();
    return active;
}

void sleeper::prepare(bool consumers_active)
{
    leaves_socket_.store(consumers_active && !polled_);
    wakes_ns_.store(INT64_MAX);
}

std::int64_t sleeper::limit(std::int64_t due_ns, bool worked) const
{
    if (polled_)
        return std::min(due_ns, osd::now_ns() + tick_ns);
    return worked ? std::min(due_ns, osd::now_ns() + first_timer_ns) : due_ns;
}

std::uint64_t sleeper::wait_once(std::int64_t due_ns, const waitable *descriptors)
{
    std::uint64_t ready = 0;
    const bool woken =
        wait_for(descriptors, sources, at_time(due_ns), &ready) == osd::wait_result::woken;
    return woken ? ready : 0;
}

std::uint64_t sleeper::finish(std::uint64_t ready)
{
    leaves_socket_.store(false);
    wakes_ns_.store(INT64_MIN);
    // A kick that is in progress may raise the signal after it is cleared here. That costs one
    // spurious wake-up.
    if (kicked_.load() || has(ready, kick_source)) {
        signal_.clear();
        kicked_.store(false);
    }
    return ready != 0 ? ready : all_sources;
}

/// True when packets are waiting, and no consumer polls.
bool sleeper::neglected(waitable socket) const
{
    const std::uint32_t polls = polls_.load();
    if (wait_for(&socket, 1, osd::deadline::passed()) != osd::wait_result::woken)
        return false;
    (void)wait_for(nullptr, 0, osd::deadline::after_ns(grace_ns));
    return polls_.load() == polls;
}

void sleeper::judge(bool found, waitable socket)
{
    const std::uint32_t polls = polls_.load();
    const bool met = waited_.exchange(false) || contended_;
    polled_ = attendance_.note(polls - polls_seen_, met, found, osd::now_ns());
    polls_seen_ = polls;
    if (polled_ && neglected(socket)) {
        attendance_.neglected();
        polled_ = false;
    }
}

} // namespace soft_hca
