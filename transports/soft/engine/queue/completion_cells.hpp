// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The cells of a completion queue, and how producers reserve them.
//
// A producer reserves a cell, which is the tail's, and then fills it. It reserves by an exchange;
// by plain stores where one queue pair adds alone, whose lock orders them; and by plain stores
// while it has a lease, see completion_turn. The tail has two marks, with which no other producer
// finds room: that there is a lease, and that the cells are closed, because others replace them.
// Producers that find no room for a lease wait, and ask for its end.
//
// The orders of memory, in pairs:
//
//   turn   store of a producer (release)  -  load of the consumer (acquire): the completion.
//   head   store of the consumer (release)  -  load of a producer (acquire): the completion that
//   was
//          in the cell is read before another overwrites it.
//   tail   store that ends a lease (release)  -  loads and exchanges of other producers, and then
//   of
//          close() (acquire): who had the lease uses the cells no more when they are freed.
#pragma once

#include "osd_annotations.hpp"
#include "osd_thread.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace soft_hca {

/// The queue pairs that add to a completion queue. The device orders attach() to begin_alone().
template <class Threads = osd::real_threads>
class completion_producers {
public:
    void open()
    {
        alone_.store(false);
        asked_.store(false);
        number_ = 0;
    }
    /// Counts a queue pair that will add. Returns true for the second one: the first may reserve
    /// without an exchange until its lock has been cycled.
    [[nodiscard]] bool attach()
    {
        const bool was_alone = alone_.load();
        alone_.store(++number_ == 1);
        return was_alone;
    }
    /// Of two queue pairs the last one goes on by exchanges: it may be followed by others again.
    void detach()
    {
        if (--number_ == 0)
            alone_.store(false);
    }
    /// Has the only producer reserve by exchanges, as of when its lock has been cycled. Returns
    /// whether it did not before: then begin_alone() undoes it.
    bool end_alone() { return alone_.exchange(false); }
    void begin_alone() { alone_.store(true); }

    /// One queue pair adds; its lock's holder asks.
    bool are_alone() const { return alone_.load(std::memory_order_relaxed); }
    /// Whether a thread waits for the end of a lease.
    bool ask_for_lease() const { return asked_.load(std::memory_order_relaxed); }
    /// Waits while the condition holds. A thread that has a lease sees with its next packet that it
    /// is to end that, and none is taken meanwhile. One thread at a time.
    template <class Condition>
    void wait_for_lease(Condition &&condition)
    {
        asked_.store(true, std::memory_order_relaxed);
        Threads::wait_while(condition);
        asked_.store(false, std::memory_order_relaxed);
    }

private:
    template <class V>
    using atomic = typename Threads::template atomic<V>;

    atomic<bool> alone_{false};
    atomic<bool> asked_{false};
    std::uint32_t number_ = 0;
};

template <class Record, class Threads = osd::real_threads>
class completion_cells {
    template <class V>
    using atomic = typename Threads::template atomic<V>;

public:
    using producers = completion_producers<Threads>;
    using place = atomic<std::uint32_t>;
    struct cell {
        place turn; ///< the position plus one when the cell is filled for that; before, less
        Record record;
    };

    /// Its cells follow it in memory.
    completion_cells(std::uint32_t size, std::uint32_t first)
        : mask_(size - 1), tail_(first), head_(first)
    {}
    std::uint32_t size() const { return mask_ + 1; }
    cell &at(std::uint32_t position) const
    {
        auto *cells = reinterpret_cast<cell *>(const_cast<completion_cells *>(this) + 1);
        return cells[position & mask_];
    }

    // --- producers; `head` is the consumer's

    /// Whether a producer that adds one begins a lease with it.
    enum class reservation : std::uint32_t { one = 0, lease = 1u << 29 };

    /// Adds one. False when there is no room, or a mark.
    OSD_ALWAYS_INLINE bool put(const Record &done, const producers &by, const place &head,
                               reservation kind)
    {
        std::uint32_t position = tail_.load(std::memory_order_acquire);
        do {
            if (!has_room(position, head)) [[unlikely]]
                return false;
        } while (!reserve(by, position, position + 1 + static_cast<std::uint32_t>(kind)));
        fill(position, done);
        return true;
    }
    /// Adds one, by the producer that has the lease. False when there is no room.
    bool put_leased(const Record &done, const place &head)
    {
        const std::uint32_t position = tail_.load(std::memory_order_relaxed) - leased;
        if (!has_room(position, head)) [[unlikely]]
            return false;
        tail_.store(position + 1 + leased, std::memory_order_relaxed);
        fill(position, done);
        return true;
    }
    void end_lease()
    {
        tail_.store(tail_.load(std::memory_order_relaxed) - leased, std::memory_order_release);
    }
    /// The number of cells that are reserved. It is not negative: who sees a completion taken sees
    /// its cell reserved.
    std::uint32_t used(const place &head) const { return marked(head) & (leased - 1); }
    bool is_closed(const place &head) const { return (marked(head) & closed) != 0; }
    /// Waits until all cells that are reserved are filled.
    void settle(const place &head) const
    {
        const std::uint32_t first = head.load(std::memory_order_acquire);
        const std::uint32_t number = (tail_.load(std::memory_order_relaxed) - first) & (leased - 1);
        for (std::uint32_t i = 0; i < number; ++i)
            await_filled(first + i);
    }

    // --- the consumer

    /// Passes the oldest to `read`, and removes it if that returns true.
    template <class Read>
    OSD_ALWAYS_INLINE bool pop_to(place &head, Read &&read) const
    {
        const std::uint32_t position = head.load(std::memory_order_relaxed);
        const cell &from = at(position);
        if (from.turn.load(std::memory_order_acquire) != position + 1 || !read(from.record))
            return false;
        head.store(position + 1, std::memory_order_release);
        return true;
    }
    bool is_filled(std::uint32_t position) const
    {
        return static_cast<std::int32_t>(at(position).turn.load(std::memory_order_acquire) -
                                         position) > 0;
    }
    /// Counts completions from the head on, up to a limit. Those up to `counted` were counted
    /// before.
    std::uint32_t count(const place &head, std::uint32_t &counted, std::uint32_t limit) const
    {
        const std::uint32_t first = head.load(std::memory_order_relaxed);
        if (static_cast<std::int32_t>(counted - first) < 0)
            counted = first;
        while (counted - first < limit && counted - first <= mask_ &&
               at(counted).turn.load(std::memory_order_acquire) == counted + 1)
            ++counted;
        return std::min(counted - first, limit);
    }

    // --- the consumer, which replaces the cells

    /// Has producers find no room, as soon as there is no lease. Returns the number of completions.
    std::uint32_t close(producers &by, const place &head)
    {
        const std::uint32_t first = head.load(std::memory_order_relaxed);
        std::uint32_t tail = 0;
        by.wait_for_lease([&] {
            tail = tail_.load(std::memory_order_acquire);
            return ((tail - first) & leased) != 0 ||
                   !tail_.compare_exchange_weak(tail, tail + closed);
        });
        return tail - first;
    }
    void open_again() { tail_.fetch_sub(closed); }
    /// Copies so many completions from the head on, for which it waits, to cells in which no thread
    /// puts any yet.
    void copy_to(completion_cells &other, const place &head, std::uint32_t number) const
    {
        const std::uint32_t first = head.load(std::memory_order_relaxed);
        for (std::uint32_t i = 0; i < number; ++i) {
            await_filled(first + i);
            other.fill(first + i, at(first + i).record);
        }
        other.tail_.store(first + number, std::memory_order_relaxed);
    }

private:
    // Marks, added to the tail.
    static constexpr auto leased = static_cast<std::uint32_t>(reservation::lease);
    static constexpr std::uint32_t closed = 1u << 30;

    OSD_ALWAYS_INLINE bool has_room(std::uint32_t position, const place &head)
    {
        return position - head_.load(std::memory_order_acquire) <= mask_ ||
               has_room_now(position, head);
    }
    /// The consumer may be ahead of a tail that was read a while ago.
    OSD_COLD bool has_room_now(std::uint32_t position, const place &head)
    {
        const std::uint32_t now = head.load(std::memory_order_acquire);
        head_.store(now, std::memory_order_release);
        return static_cast<std::int32_t>(position - now) <= static_cast<std::int32_t>(mask_);
    }
    /// Another producer may have been faster.
    OSD_ALWAYS_INLINE bool reserve(const producers &by, std::uint32_t &position, std::uint32_t next)
    {
        if (!by.are_alone())
            return tail_.compare_exchange_weak(position, next, std::memory_order_acquire);
        tail_.store(next, std::memory_order_relaxed);
        return true;
    }
    OSD_ALWAYS_INLINE void fill(std::uint32_t position, const Record &done)
    {
        cell &to = at(position);
        to.record = done;
        to.turn.store(position + 1, std::memory_order_release);
    }
    std::uint32_t marked(const place &head) const
    {
        const std::uint32_t first = head.load(std::memory_order_acquire);
        return tail_.load(std::memory_order_relaxed) - first;
    }
    /// Its producer has reserved the cell, and may have been preempted.
    void await_filled(std::uint32_t position) const
    {
        Threads::wait_while([&] { return !is_filled(position); });
    }

    const std::uint32_t mask_;
    alignas(64) place tail_;
    place head_; ///< copy of the consumer's head from when a producer read it last
};

} // namespace soft_hca
