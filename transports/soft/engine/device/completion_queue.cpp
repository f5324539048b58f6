// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "completion_queue.hpp"

#include "osd_cancellation.hpp"
#include "shard.hpp"

#include <bit>

namespace soft_hca {

namespace {

constexpr std::uint32_t max_descriptors = 17; // the signal, and the shards'

/// Sockets of the shards whose queue pairs complete here.
std::uint32_t sockets_of(shard *all, std::uint64_t shards, waitable *descriptors)
{
    std::uint32_t count = 0;
    for (; shards != 0 && count < max_descriptors - 1; shards &= shards - 1)
        descriptors[count++] = all[std::countr_zero(shards)].io().descriptor();
    return count;
}

bool progress_and_call_back(shard *all, std::uint64_t shards)
{
    bool moved = false;
    for (; shards != 0; shards &= shards - 1)
        moved = all[std::countr_zero(shards)].progress_and_call_back() || moved;
    return moved;
}

void leave_sockets(shard *all, std::uint64_t &shards)
{
    for (; shards != 0; shards &= shards - 1)
        all[std::countr_zero(shards)].end_wait();
}

} // namespace

bool completion_queue::open(void *owner, const queue_service &served, std::uint32_t depth)
{
    served_ = served;
    for_others_ = depth == 0;
    woken_.store(false);
    return completion_ring::open(owner, served.shards[served.callbacks].upcalls(), depth);
}

shard &completion_queue::nearest() const
{
    return served_.shards[served_.nearest];
}

void *completion_queue::end_receive(const completion_record &done) const
{
    return served_.shards[done.shard].end_receive(done.pair);
}

bool completion_queue::progress(bool sleeps_next)
{
    const bool copies = served_.consumers_copy && in_upcalls_.load() == 0;
    const completion_ring *const polled = copies ? this : nullptr;
    bool moved = false;
    for (std::uint64_t left = shards_.load(std::memory_order_relaxed); left != 0; left &= left - 1)
        moved = served_.shards[std::countr_zero(left)].progress(sleeps_next, polled) || moved;
    return moved;
}

/// Receives and acknowledges arrived packets before a sleep. Gives up after a while where packets
/// of other queues keep coming.
void completion_queue::settle(const wait_target &wanted)
{
    const auto move = [this] {
        return served_.waiter_calls_back
                   ? progress_and_call_back(served_.shards, shards_.load(std::memory_order_relaxed))
                   : progress(true);
    };
    constexpr int patience = 64;
    for (int i = 0; i < patience && move() && !enough(wanted); ++i) {
    }
}

void completion_queue::wake()
{
    woken_.store(true);
    if ((wanted_.load() & waiter) != 0)
        signal_.raise();
}

/// A queue to which nothing completes leaves the sockets when packets come there for other queues:
/// their own waiters, or the shards' threads, which spin for more.
osd::wait_result completion_queue::sleep_for(const wait_target &wanted, std::uint64_t &shards,
                                             osd::deadline until)
{
    int patience = 4;
    osd::wait_result result = osd::wait_result::woken;
    while (!enough(wanted) && !woken_.load()) {
        waitable descriptors[max_descriptors];
        std::uint32_t count = sockets_of(served_.shards, shards, descriptors);
        descriptors[count++] = signal_.descriptor();
        osd::cancellation_point([&] { result = wait_for(descriptors, count, until); });
        if (result != osd::wait_result::woken)
            break;
        if (shards != 0)
            settle(wanted);
        if (enough(wanted) || woken_.load())
            break;
        if (for_others_ && --patience == 0)
            leave_sockets(served_.shards, shards);
        signal_.clear();        // it may be stale; what raises it again is seen by the next check
        if (until.has_passed()) // packets of other queues came meanwhile
            return osd::wait_result::timed_out;
    }
    return result;
}

void completion_queue::leave_wait(std::uint64_t &shards)
{
    wanted_.fetch_and(~(waiter | solicited_waiter));
    leave_sockets(served_.shards, shards);
    woken_.store(false);
    signal_.clear();
}

osd::wait_result completion_queue::wait(const wait_target &wanted, osd::deadline until)
{
    if (!open_signal()) { // out of descriptors: the caller polls, now and then
        osd::cancellation_point([] { (void)wait_for(nullptr, 0, osd::deadline::after_us(1000)); });
        return osd::wait_result::woken;
    }
    settle(wanted);
    if (enough(wanted) || woken_.exchange(false))
        return osd::wait_result::woken;

    std::uint64_t shards = shards_.load(std::memory_order_relaxed);
    threshold_.store(wanted.threshold);
    wanted_.fetch_or(wanted.kind == interest::solicited ? waiter | solicited_waiter : waiter);
    for (std::uint64_t left = shards; left != 0; left &= left - 1)
        served_.shards[std::countr_zero(left)].begin_wait();
    osd::wait_result result{};
    osd::undo_if_cancelled([&] { result = sleep_for(wanted, shards, until); },
                           [&] { leave_wait(shards); });
    leave_wait(shards);
    return result == osd::wait_result::timed_out && enough(wanted) ? osd::wait_result::woken
                                                                   : result;
}

} // namespace soft_hca
