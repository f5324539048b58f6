// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "completion_queue.hpp"

#include "osd_cancellation.hpp"
#include "shard.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace soft_hca {

namespace {

/// Added to the tail of a ring: every place is taken.
constexpr std::uint32_t closed = 1u << 30;

constexpr std::align_val_t ring_alignment{alignof(completion_queue::ring)};

} // namespace

completion_queue::ring *completion_queue::make_ring(std::uint32_t depth)
{
    // In a ring of one cell a filled cell looks like the free one of the next position.
    const std::uint32_t size = std::bit_ceil(std::max(depth, 2u));
    void *memory = ::operator new(sizeof(ring) + size * sizeof(cell), ring_alignment, std::nothrow);
    if (memory == nullptr)
        return nullptr;
    ring *made = new (memory) ring(size);
    for (std::uint32_t i = 0; i < size; ++i)
        new (&made->at(i)) cell{i, {}};
    return made;
}

void completion_queue::ring_deleter::operator()(ring *unused) const
{
    ::operator delete(unused, ring_alignment);
}

bool completion_queue::open(void *owner, shard *homes, std::uint32_t home, std::uint32_t depth)
{
    ring *const made = make_ring(depth);
    if (made == nullptr)
        return false;
    ring_deleter()(ring_.exchange(made));
    head_.store(0);
    wanted_.store(0);
    woken_.store(false);
    overflowed_.store(false);
    shards_.store(0);
    owner_ = owner;
    homes_ = homes;
    home_ = home;
    return true;
}

shard &completion_queue::home() const
{
    return homes_[home_];
}

void *completion_queue::receiver_of(const completion_record &done) const
{
    return homes_[done.shard].receiver_of(done.pair);
}

OSD_ALWAYS_INLINE bool completion_queue::put(const completion_record &done)
{
    ring &r = now();
    std::uint32_t at = r.tail.load(std::memory_order_relaxed);
    for (;;) {
        cell &to = r.at(at);
        const auto off = static_cast<std::int32_t>(to.turn.load(std::memory_order_acquire) - at);
        if (off < 0)
            return false; // full, or closed
        if (off > 0) {
            at = r.tail.load(std::memory_order_relaxed);
        } else if (r.tail.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
            to.what = done;
            to.turn.store(at + 1); // before the look at who wants to know
            return true;
        }
    }
}

bool completion_queue::put_after_resize(const completion_record &done)
{
    osd::lock_guard hold(resizing_);
    return put(done);
}

completion_queue::outcome completion_queue::resize(std::uint32_t depth, ring_owner &former)
{
    ring *const next = make_ring(depth);
    if (next == nullptr)
        return outcome::no_memory;
    osd::lock_guard hold(resizing_);
    ring &old = now();
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    const std::uint32_t count = old.tail.fetch_add(closed) - head;
    if (count > depth) {
        old.tail.fetch_sub(closed);
        ring_deleter()(next);
        return outcome::too_full;
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        const cell &from = old.at(head + i);
        while (from.turn.load(std::memory_order_acquire) != head + i + 1)
            osd::yield(); // who has this place is about to fill it
        next->at(i).what = from.what;
        next->at(i).turn.store(i + 1, std::memory_order_relaxed);
    }
    next->tail.store(count, std::memory_order_relaxed);
    head_.store(0, std::memory_order_relaxed);
    ring_.store(next);
    former.reset(&old);
    return outcome::done;
}

void completion_queue::push(const completion_record &done)
{
    if (!put(done) && !put_after_resize(done)) [[unlikely]] {
        if (!overflowed_.exchange(true))
            home().tell_overflow(*this);
        return;
    }
    const std::uint32_t wanted = wanted_.load();
    if (wanted != 0) [[unlikely]]
        announce(done, wanted);
}

void completion_queue::announce(const completion_record &done, std::uint32_t wanted)
{
    if ((wanted & waiter) != 0 && enough(threshold_.load()))
        signal_.raise();
    const bool worth = done.solicited || done.status != work_status::success;
    const std::uint32_t upcall = worth ? wants_any | wants_solicited : wants_any;
    if ((wanted & upcall) != 0 && (wanted_.fetch_and(~(wants_any | wants_solicited)) & upcall) != 0)
        home().tell_completion(*this);
    if ((wanted & wants_signal) != 0 && (wanted_.fetch_and(~wants_signal) & wants_signal) != 0)
        signal_.raise();
}

void completion_queue::arm(interest what)
{
    wanted_.fetch_or(what == interest::any ? wants_any : wants_solicited);
}

bool completion_queue::progress(bool sleeps_next)
{
    bool moved = false;
    for (std::uint64_t left = shards_.load(std::memory_order_relaxed); left != 0; left &= left - 1)
        moved = homes_[std::countr_zero(left)].progress(sleeps_next) || moved;
    return moved;
}

/// Before sleeping: nothing is left to be taken or acknowledged, unless packets for others come
/// without end.
void completion_queue::settle()
{
    constexpr int patience = 64;
    for (int i = 0; i < patience && progress(true) && count(1) == 0; ++i) {
    }
}

bool completion_queue::open_signal()
{
    osd::lock_guard hold(signal_lock_);
    return signal_.is_open() || signal_.open();
}

waitable completion_queue::event_descriptor()
{
    return open_signal() ? signal_.descriptor() : -1;
}

void completion_queue::arm_descriptor()
{
    wanted_.fetch_or(wants_signal);
    if (count(1) != 0)
        signal_.raise();
}

void completion_queue::wake()
{
    woken_.store(true);
    if ((wanted_.load() & waiter) != 0)
        signal_.raise();
}

namespace {

constexpr std::uint32_t max_descriptors = 17; // the signal, and the shards'

/// Sockets of the shards that may bring something.
std::uint32_t sockets_of(shard *homes, std::uint64_t shards, waitable *descriptors)
{
    std::uint32_t count = 0;
    for (; shards != 0 && count < max_descriptors - 1; shards &= shards - 1)
        descriptors[count++] = homes[std::countr_zero(shards)].io().descriptor();
    return count;
}

} // namespace

osd::wait_result completion_queue::sleep_for(std::uint32_t threshold, const waitable *descriptors,
                                             std::uint32_t count, osd::deadline until)
{
    osd::wait_result result = osd::wait_result::woken;
    while (!enough(threshold) && !woken_.load()) {
        osd::cancellation_point([&] { result = wait_for(descriptors, count, until); });
        if (result != osd::wait_result::woken)
            break;
        settle();
        if (enough(threshold) || woken_.load())
            break;
        signal_.clear(); // left over from before; what raises it anew is seen by the next look
        if (until.has_passed()) // while packets of others kept us busy
            return osd::wait_result::timed_out;
    }
    return result;
}

void completion_queue::leave_wait(std::uint64_t shards)
{
    wanted_.fetch_and(~waiter);
    for (std::uint64_t left = shards; left != 0; left &= left - 1)
        homes_[std::countr_zero(left)].end_wait();
    woken_.store(false);
    signal_.clear();
}

osd::wait_result completion_queue::wait(std::uint32_t threshold, osd::deadline until)
{
    if (!open_signal())
        return osd::wait_result::woken; // the caller goes round
    settle();
    if (enough(threshold) || woken_.exchange(false))
        return osd::wait_result::woken;

    const std::uint64_t shards = shards_.load(std::memory_order_relaxed);
    waitable descriptors[max_descriptors];
    std::uint32_t count = sockets_of(homes_, shards, descriptors);
    descriptors[count++] = signal_.descriptor();
    threshold_.store(threshold);
    wanted_.fetch_or(waiter);
    for (std::uint64_t left = shards; left != 0; left &= left - 1)
        homes_[std::countr_zero(left)].begin_wait();
    osd::wait_result result{};
    osd::undo_if_cancelled([&] { result = sleep_for(threshold, descriptors, count, until); },
                           [&] { leave_wait(shards); });
    leave_wait(shards);
    return result == osd::wait_result::timed_out && enough(threshold) ? osd::wait_result::woken
                                                                      : result;
}

} // namespace soft_hca
