// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "completion_ring.hpp"

#include "osd_thread.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace soft_hca {

namespace {

/// Added to the tail of a ring: every cell is taken.
constexpr std::uint32_t closed = 1u << 30;

constexpr std::align_val_t ring_alignment{alignof(completion_ring::ring)};

completion_ring::ring *make_ring(std::uint32_t depth, std::uint32_t first)
{
    const std::uint32_t size = std::bit_ceil(std::max(depth, 2u));
    void *memory =
        ::operator new(sizeof(completion_ring::ring) + size * sizeof(completion_ring::cell),
                       ring_alignment, std::nothrow);
    if (memory == nullptr)
        return nullptr;
    auto *made = new (memory) completion_ring::ring(size, first);
    for (std::uint32_t at = first; at != first + size; ++at)
        new (&made->at(at)) completion_ring::cell{at, {}};
    return made;
}

} // namespace

/// The producer may have been preempted.
void completion_ring::cell::wait_until_filled(std::uint32_t position) const
{
    osd::wait_while([&] {
        return static_cast<std::int32_t>(turn.load(std::memory_order_acquire) - position) <= 0;
    });
}

void completion_ring::ring_deleter::operator()(ring *unused) const
{
    ::operator delete(unused, ring_alignment);
}

bool completion_ring::open(void *owner, upcall_queue &upcalls, std::uint32_t depth)
{
    ring *const made = make_ring(depth, 0);
    if (made == nullptr)
        return false;
    ring_deleter()(ring_.exchange(made));
    head_.store(0);
    wanted_.store(0);
    overflowed_.store(false);
    others_.clear();
    shards_.store(0);
    producers.open();
    owner_ = owner;
    upcalls_ = &upcalls;
    return true;
}

namespace {

bool is_solicited(const completion_record &done)
{
    return done.solicited || done.status != work_status::success;
}

} // namespace

/// Counts on from the completion where the last count ended.
std::uint32_t completion_ring::count_on(std::uint32_t limit)
{
    const std::uint32_t at = head_.load(std::memory_order_relaxed);
    const ring &r = now();
    if (static_cast<std::int32_t>(counted_ - at) < 0)
        counted_ = at;
    while (counted_ - at < limit && counted_ - at <= r.mask &&
           r.at(counted_).turn.load(std::memory_order_acquire) == counted_ + 1)
        ++counted_;
    return std::min(counted_ - at, limit);
}

bool completion_ring::holds_solicited()
{
    const std::uint32_t first = head_.load(std::memory_order_relaxed);
    const std::uint32_t there = count();
    for (std::uint32_t i = 0; i < there; ++i)
        if (is_solicited(now().at(first + i).record))
            return true;
    return false;
}

/// The taker may be ahead of a tail that was read a while ago.
bool completion_ring::has_room(ring &r, std::uint32_t at) const
{
    const std::uint32_t head = head_.load(std::memory_order_acquire);
    r.head.store(head, std::memory_order_release);
    return static_cast<std::int32_t>(at - head) <= static_cast<std::int32_t>(r.mask);
}

OSD_ALWAYS_INLINE bool completion_ring::put(const completion_record &done)
{
    ring &r = now();
    std::uint32_t at = r.tail.load(std::memory_order_relaxed);
    do {
        if (at - r.head.load(std::memory_order_acquire) > r.mask && !has_room(r, at)) [[unlikely]]
            return false; // full, or closed
    } while (!producers.reserve(r.tail, at));
    cell &to = r.at(at);
    to.record = done;
    to.turn.store(at + 1, std::memory_order_release);
    return true;
}

void completion_ring::settle()
{
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    const ring *r = &now();
    std::uint32_t tail = r->tail.load(std::memory_order_relaxed);
    if (tail - head > r->mask + 1) { // closed
        osd::lock_guard hold(resizing_);
        r = &now();
        tail = r->tail.load(std::memory_order_relaxed);
    }
    for (std::uint32_t at = head; at != tail; ++at)
        r->at(at).wait_until_filled(at);
}

completion_ring::outcome completion_ring::resize(std::uint32_t depth, ring_owner &former)
{
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    ring *const next = make_ring(depth, head);
    if (next == nullptr)
        return outcome::no_memory;
    osd::lock_guard hold(resizing_);
    ring &old = now();
    const std::uint32_t count = old.tail.fetch_add(closed) - head;
    if (count > depth) {
        old.tail.fetch_sub(closed);
        ring_deleter()(next);
        return outcome::too_full;
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        const cell &from = old.at(head + i);
        from.wait_until_filled(head + i);
        next->at(head + i).record = from.record;
        next->at(head + i).turn.store(head + i + 1, std::memory_order_relaxed);
    }
    next->tail.store(head + count, std::memory_order_relaxed);
    ring_.store(next);
    former.reset(&old);
    return outcome::done;
}

void completion_ring::add(const completion_record &done, news &of_holder)
{
    const auto put_after_resize = [&] {
        osd::lock_guard hold(resizing_);
        return put(done);
    };
    if (!put(done) && !put_after_resize()) [[unlikely]] {
        if (!overflowed_.exchange(true))
            upcalls_->post(*this, overflow_event);
        return;
    }
    const bool solicited = is_solicited(done);
    std::uint32_t bits = (of_holder.bits_ & ~news::told) | news::added;
    if (solicited)
        bits |= news::solicited;
    const std::uint32_t wanted = wanted_.load(std::memory_order_relaxed);
    if (wanted != 0) [[unlikely]]
        bits |= tell(solicited, wanted);
    of_holder.bits_ = static_cast<std::uint8_t>(bits);
}

/// An operation that changes nothing: it comes before or after that by which the consumer asks, and
/// sees the request, or is seen with all completions before it. Who was told of the last one need
/// not be told again. Completions that are taken already are none to tell of.
void completion_ring::announce(news &of_holder)
{
    const std::uint32_t bits = std::exchange(of_holder.bits_, std::uint8_t{0});
    const std::uint32_t wanted = wanted_.fetch_add(0) & ~(bits & news::told);
    if (wanted != 0 && now().tail.load(std::memory_order_relaxed) !=
                           head_.load(std::memory_order_relaxed)) [[unlikely]]
        (void)tell((bits & news::solicited) != 0, wanted);
}

/// Does what is wanted after a completion. Returns the requests that were met.
std::uint32_t completion_ring::tell(bool solicited, std::uint32_t wanted)
{
    std::uint32_t met = 0;
    if ((wanted & solicited_waiter) != 0 ? solicited
                                         : (wanted & waiter) != 0 && may_hold(threshold_.load())) {
        signal_.raise();
        met |= waiter | solicited_waiter;
    }
    const std::uint32_t upcall = solicited ? wants_any | wants_solicited : wants_any;
    if ((wanted & upcall) != 0) {
        if ((wanted_.fetch_and(~(wants_any | wants_solicited)) & upcall) != 0)
            upcalls_->post(*this, completion_event);
        met |= wants_any | wants_solicited;
    }
    if ((wanted & wants_signal) != 0) {
        if ((wanted_.fetch_and(~wants_signal) & wants_signal) != 0)
            signal_.raise();
        met |= wants_signal;
    }
    return met;
}

/// By a thread that holds no queue pair's lock, for which a resize would wait: the waiter may have
/// left since, and the ring be replaced.
void completion_ring::count_others(std::int32_t change)
{
    others_.add(change);
    const std::uint32_t wanted = wanted_.load();
    if (change <= 0 || (wanted & waiter) == 0)
        return;
    osd::lock_guard hold(resizing_);
    if ((wanted & solicited_waiter) != 0 || may_hold(threshold_.load()))
        signal_.raise();
}

void completion_ring::make_upcall(const upcalls &table, std::uint32_t event)
{
    in_upcalls_.fetch_add(1);
    event == overflow_event ? table.overflow(owner_) : table.completion(owner_);
    in_upcalls_.fetch_sub(1);
}

void completion_ring::arm(interest what)
{
    wanted_.fetch_or(what == interest::any ? wants_any : wants_solicited);
}

bool completion_ring::open_signal()
{
    osd::lock_guard hold(signal_lock_);
    return signal_.is_open() || signal_.open();
}

waitable completion_ring::event_descriptor()
{
    return open_signal() ? signal_.descriptor() : -1;
}

void completion_ring::arm_descriptor()
{
    wanted_.fetch_or(wants_signal);
    if (!empty())
        signal_.raise();
}

} // namespace soft_hca
