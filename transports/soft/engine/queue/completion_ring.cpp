// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "completion_ring.hpp"

#include "osd_thread.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace soft_hca {

namespace {

constexpr std::align_val_t ring_alignment{alignof(completion_ring::cells)};

completion_ring::cells *make_ring(std::uint32_t depth, std::uint32_t first)
{
    using cells = completion_ring::cells;
    const std::uint32_t size = std::bit_ceil(std::max(depth, 2u));
    void *memory =
        ::operator new(sizeof(cells) + size * sizeof(cells::cell), ring_alignment, std::nothrow);
    if (memory == nullptr)
        return nullptr;
    auto *made = new (memory) cells(size, first);
    for (std::uint32_t at = first; at != first + size; ++at)
        new (&made->at(at)) cells::cell{cells::place(at), {}};
    return made;
}

} // namespace

void completion_ring::ring_deleter::operator()(cells *unused) const
{
    ::operator delete(unused, ring_alignment);
}

bool completion_ring::open(void *owner, upcall_queue &upcalls, std::uint32_t depth)
{
    cells *const made = make_ring(depth, 0);
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

bool completion_ring::holds_solicited()
{
    const std::uint32_t first = head_.load(std::memory_order_relaxed);
    const std::uint32_t there = count();
    for (std::uint32_t i = 0; i < there; ++i)
        if (is_solicited(now().at(first + i).record))
            return true;
    return false;
}

/// A resize waits for the lock, and then opens the ring again or replaces it.
void completion_ring::settle()
{
    if (now().is_closed(head_)) {
        osd::lock_guard hold(resizing_);
        return now().settle(head_);
    }
    now().settle(head_);
}

completion_ring::outcome completion_ring::resize(std::uint32_t depth, ring_owner &former)
{
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    cells *const next = make_ring(depth, head);
    if (next == nullptr)
        return outcome::no_memory;
    osd::lock_guard hold(resizing_);
    cells &old = now();
    const std::uint32_t count = old.close(producers, head_);
    if (count > depth) {
        old.open_again();
        ring_deleter()(next);
        return outcome::too_full;
    }
    old.copy_to(*next, head_, count);
    ring_.store(next);
    former.reset(&old);
    return outcome::done;
}

/// The consumer may have taken the completion before it is told of it, where it is known to ask.
template <completion_ring::producer how>
OSD_ALWAYS_INLINE bool completion_ring::try_add(const completion_record &done, news &of_holder)
{
    constexpr auto kind =
        how == producer::leasing ? cells::reservation::lease : cells::reservation::one;
    if (how == producer::leasing && producers.ask_for_lease()) [[unlikely]]
        return false;
    if (how == producer::leased ? !now().put_leased(done, head_)
                                : !now().put(done, producers, head_, kind)) [[unlikely]]
        return false;
    const bool solicited = is_solicited(done);
    std::uint32_t bits = (of_holder.bits_ & ~news::told) | news::added;
    if (solicited)
        bits |= news::solicited;
    const std::uint32_t wanted = wanted_.load(std::memory_order_relaxed);
    if (wanted != 0) [[unlikely]]
        bits |= tell(solicited, wanted);
    of_holder.bits_ = static_cast<std::uint8_t>(bits);
    return true;
}

template bool
completion_ring::try_add<completion_ring::producer::leasing>(const completion_record &, news &);
template bool completion_ring::try_add<completion_ring::producer::leased>(const completion_record &,
                                                                          news &);

void completion_ring::add(const completion_record &done, news &of_holder)
{
    if (!try_add<producer::plain>(done, of_holder)) [[unlikely]]
        add_patiently(done, of_holder);
}

/// Waits until the ring is neither replaced nor leased, or has no room: then the completion is
/// lost.
void completion_ring::add_patiently(const completion_record &done, news &of_holder)
{
    bool added = false;
    {
        osd::lock_guard hold(resizing_);
        cells &r = now();
        producers.wait_for_lease([&] {
            added = try_add<producer::plain>(done, of_holder);
            return !added && r.used(head_) < r.size();
        });
    }
    if (!added && !overflowed_.exchange(true))
        upcalls_->post(*this, overflow_event);
}

/// An operation that changes nothing: it comes before or after that by which the consumer asks, and
/// sees the request, or is seen with all completions before it. Who was told of the last one need
/// not be told again. Completions that are taken already are none to tell of.
void completion_ring::announce(news &of_holder)
{
    const std::uint32_t bits = std::exchange(of_holder.bits_, std::uint8_t{0});
    const std::uint32_t wanted = wanted_.fetch_add(0) & ~(bits & news::told);
    if (wanted != 0 && now().used(head_) != 0) [[unlikely]]
        (void)tell((bits & news::solicited) != 0, wanted);
}

/// Announces first: until the lease ends the ring cannot be replaced.
void completion_ring::end_lease(news &of_holder)
{
    announce(of_holder);
    now().end_lease();
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
