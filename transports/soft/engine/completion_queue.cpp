// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "completion_queue.hpp"

#include "osd_cancellation.hpp"
#include "shard.hpp"

#include <bit>

namespace soft_hca {

bool completion_queue::open(void *owner, shard *homes, std::uint32_t home, std::uint32_t callbacks,
                            std::uint32_t depth)
{
    homes_ = homes;
    home_ = home;
    calls_back_ = false;
    for_others_ = depth == 0;
    woken_.store(false);
    return completion_ring::open(owner, homes[callbacks].upcalls(), depth);
}

shard &completion_queue::home() const
{
    return homes_[home_];
}

void *completion_queue::end_receive(const completion_record &done) const
{
    return homes_[done.shard].end_receive(done.pair);
}

bool completion_queue::progress(bool sleeps_next)
{
    bool moved = false;
    for (std::uint64_t left = shards_.load(std::memory_order_relaxed); left != 0; left &= left - 1)
        moved = homes_[std::countr_zero(left)].progress(sleeps_next) || moved;
    return moved;
}

bool completion_queue::progress_before_sleep()
{
    if (!calls_back_)
        return progress(true);
    bool moved = false;
    for (std::uint64_t left = shards_.load(std::memory_order_relaxed); left != 0; left &= left - 1)
        moved = homes_[std::countr_zero(left)].progress_and_call_back() || moved;
    return moved;
}

/// Before sleeping: receives and acknowledges what has arrived. Gives up after a while where
/// packets of other queues keep coming.
void completion_queue::settle(const wait_target &wanted)
{
    constexpr int patience = 64;
    for (int i = 0; i < patience && progress_before_sleep() && !enough(wanted); ++i) {
    }
}

void completion_queue::wake()
{
    woken_.store(true);
    if ((wanted_.load() & waiter) != 0)
        signal_.raise();
}

namespace {

constexpr std::uint32_t max_descriptors = 17; // the signal, and the shards'

/// Sockets of the shards whose queue pairs complete here.
std::uint32_t sockets_of(shard *homes, std::uint64_t shards, waitable *descriptors)
{
    std::uint32_t count = 0;
    for (; shards != 0 && count < max_descriptors - 1; shards &= shards - 1)
        descriptors[count++] = homes[std::countr_zero(shards)].io().descriptor();
    return count;
}

} // namespace

/// A queue to which nothing completes leaves the sockets when what comes there is for others: their
/// own waiters, or the shards' threads, which spin for more.
osd::wait_result completion_queue::sleep_for(const wait_target &wanted, std::uint64_t &shards,
                                             osd::deadline until)
{
    int patience = 4;
    osd::wait_result result = osd::wait_result::woken;
    while (!enough(wanted) && !woken_.load()) {
        waitable descriptors[max_descriptors];
        std::uint32_t count = sockets_of(homes_, shards, descriptors);
        descriptors[count++] = signal_.descriptor();
        osd::cancellation_point([&] { result = wait_for(descriptors, count, until); });
        if (result != osd::wait_result::woken)
            break;
        if (shards != 0)
            settle(wanted);
        if (enough(wanted) || woken_.load())
            break;
        if (for_others_ && --patience == 0)
            leave_sockets(shards);
        signal_.clear();        // it may be stale; what raises it again is seen by the next check
        if (until.has_passed()) // while packets of other queues came
            return osd::wait_result::timed_out;
    }
    return result;
}

void completion_queue::leave_sockets(std::uint64_t &shards)
{
    for (; shards != 0; shards &= shards - 1)
        homes_[std::countr_zero(shards)].end_wait();
}

void completion_queue::leave_wait(std::uint64_t &shards)
{
    wanted_.fetch_and(~(waiter | solicited_waiter));
    leave_sockets(shards);
    woken_.store(false);
    signal_.clear();
}

osd::wait_result completion_queue::wait(const wait_target &wanted, osd::deadline until)
{
    if (!open_signal())
        return osd::wait_result::woken; // the caller polls again
    settle(wanted);
    if (enough(wanted) || woken_.exchange(false))
        return osd::wait_result::woken;

    std::uint64_t shards = shards_.load(std::memory_order_relaxed);
    threshold_.store(wanted.threshold);
    wanted_.fetch_or(wanted.what == interest::solicited ? waiter | solicited_waiter : waiter);
    for (std::uint64_t left = shards; left != 0; left &= left - 1)
        homes_[std::countr_zero(left)].begin_wait();
    osd::wait_result result{};
    osd::undo_if_cancelled([&] { result = sleep_for(wanted, shards, until); },
                           [&] { leave_wait(shards); });
    leave_wait(shards);
    return result == osd::wait_result::timed_out && enough(wanted) ? osd::wait_result::woken
                                                                   : result;
}

} // namespace soft_hca
