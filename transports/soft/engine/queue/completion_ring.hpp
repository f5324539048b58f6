// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The completions of a completion queue: any number of threads add, one takes. Producers know by
// the head which cells are free, so that taking one writes nothing but the head.
//
// A producer reserves a cell, and then fills it. A producer that is preempted in between hides
// completions that others have added behind it, and the queue seems empty. That is harmless but
// where the consumer takes it to mean that no completion of a connection is left: settle() comes
// before that.
//
// resize() closes the old ring (producers see it full), moves its entries and publishes the new
// one; a producer that finds the ring closed waits for the resize and retries. Producers run under
// a queue pair's lock, so the old ring is unreferenced once every such lock has been cycled.
//
// Locked operations. A single queue pair, which is the usual case, reserves cells by plain stores:
// its lock orders them. With a second one, and during a resize, producers reserve by an exchange;
// each such change waits until every lock has been cycled. A cell is filled by a plain release, so
// the consumer can take it at once; whether it sleeps or has armed the queue is asked once for all
// completions that a holder of the lock adds. That question is an operation on the word by which
// the consumer asks for news, which orders the two: either it sees what the consumer asked, or the
// consumer sees the completions when it looks, after that, before it sleeps.
#pragma once

#include "interface/request.hpp"
#include "net/net.hpp"
#include "thread/upcall_queue.hpp"

#include <atomic>
#include <memory>

namespace soft_hca {

/// How many events of the consumer's own a wait counts beside completions.
class other_events {
public:
    void add(std::int32_t change) { number_.fetch_add(change); }
    void clear() { number_.store(0); }
    std::uint32_t now() const
    {
        const std::int32_t number = number_.load();
        return number > 0 ? static_cast<std::uint32_t>(number) : 0; // taken before it was counted
    }

private:
    std::atomic<std::int32_t> number_{0};
};

/// The queue pairs that add to a completion queue. The device orders the calls but reserve().
class completion_producers {
public:
    void open()
    {
        alone_.store(false);
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

    /// Reserves the cell at `at`, the tail; another producer may have been faster. The order of the
    /// tail's stores is that of the lock where one queue pair adds alone, and needs none otherwise.
    OSD_ALWAYS_INLINE bool reserve(std::atomic<std::uint32_t> &tail, std::uint32_t &at) const
    {
        if (!alone_.load(std::memory_order_relaxed))
            return tail.compare_exchange_weak(at, at + 1, std::memory_order_relaxed);
        tail.store(at + 1, std::memory_order_relaxed);
        return true;
    }

private:
    std::atomic<bool> alone_{false}; ///< one queue pair adds; it reads this under its lock
    std::uint32_t number_ = 0;
};

class completion_ring : public upcall_source {
public:
    /// `solicited`: only completions that the sender marked so, and failures.
    enum class interest : std::uint8_t { any, solicited };
    /// What ends a wait: so many completions, or with `solicited` a single one of that kind.
    struct wait_target {
        interest kind = interest::any;
        std::uint32_t threshold = 1;
    };

    completion_ring() : upcall_source(priority::completion) {}
    ~completion_ring() { ring_deleter()(ring_.load()); }

    struct cell {
        /// The position plus one when the cell is filled for that; before, less.
        std::atomic<std::uint32_t> turn;
        completion_record record;

        /// Its producer has reserved it for that position, and is about to fill it.
        void wait_until_filled(std::uint32_t position) const;
    };
    /// Its cells follow it in memory.
    struct ring {
        ring(std::uint32_t size, std::uint32_t first) : mask(size - 1), tail(first), head(first) {}
        cell &at(std::uint32_t position) const
        {
            auto *cells = reinterpret_cast<cell *>(const_cast<ring *>(this) + 1);
            return cells[position & mask];
        }
        const std::uint32_t mask;
        alignas(64) std::atomic<std::uint32_t> tail;
        std::atomic<std::uint32_t> head; ///< copy of head_ from when a producer read it last
    };
    struct ring_deleter {
        void operator()(ring *unused) const;
    };
    using ring_owner = std::unique_ptr<ring, ring_deleter>;
    enum class outcome : std::uint8_t { done, no_memory, too_full };

    /// Makes a ring for at least `depth` completions; false when out of memory.
    bool open(void *owner, upcall_queue &upcalls, std::uint32_t depth);
    std::uint32_t depth() const { return now().mask + 1; }
    void *owner() const { return owner_; }
    /// The queue of its upcalls.
    upcall_queue &delivery() const { return *upcalls_; }
    /// Queue pairs of this shard complete here.
    void serve(std::uint32_t shard_index)
    {
        shards_.fetch_or(std::uint64_t{1} << shard_index, std::memory_order_relaxed);
    }

    // --- producers

    completion_producers producers;

    /// Completions of a holder of a queue pair's lock that are to be announced before it releases
    /// that.
    class news {
    public:
        bool any() const { return bits_ != 0; }

    private:
        friend class completion_ring;
        enum : std::uint8_t { added = 32, solicited = 64, told = 31 }; ///< told: bits of wanted_
        std::uint8_t bits_ = 0;
    };
    /// Adds one, which the consumer may take at once. Who is known to wait for it is told. When the
    /// queue is full it is lost, and the owner gets one overflow upcall.
    void add(const completion_record &done, news &of_holder);
    /// Tells who waits, or has armed the queue, since before these completions were added.
    void announce(news &of_holder);
    /// Waits until the consumer can take all that are there: none that another producer is still
    /// filling stands before them. By a thread that holds the lock of a queue pair that cycling the
    /// locks would wait for.
    void settle();

    // --- the consumer, one thread at a time

    /// Passes the oldest to `read`, and removes it if that returns true.
    template <class Read>
    OSD_ALWAYS_INLINE bool pop_to(Read &&read)
    {
        const std::uint32_t at = head_.load(std::memory_order_relaxed);
        const ring &r = now();
        const cell &from = r.at(at);
        if (from.turn.load(std::memory_order_acquire) != at + 1 ||
            !read(static_cast<const completion_record &>(from.record)))
            return false;
        head_.store(at + 1, std::memory_order_release);
        return true;
    }
    bool pop(completion_record &done)
    {
        return pop_to([&done](const completion_record &oldest) {
            done = oldest;
            return true;
        });
    }
    bool empty() const
    {
        const std::uint32_t at = head_.load(std::memory_order_relaxed);
        const std::uint32_t turn = now().at(at).turn.load(std::memory_order_acquire);
        return static_cast<std::int32_t>(turn - at) <= 0;
    }
    /// The number of completions, counted up to a limit, without taking any. Each is looked at
    /// once, however often they are counted.
    std::uint32_t count(std::uint32_t limit = UINT32_MAX) { return empty() ? 0 : count_on(limit); }
    /// `former` is to be kept until no producer can refer to it any more.
    outcome resize(std::uint32_t depth, ring_owner &former);

    /// The number of events of the consumer's for which it waits here, too, changes by this. Any
    /// thread.
    void count_others(std::int32_t change);

    /// Asks for one upcall after the next completion.
    void arm(interest what);
    /// A descriptor that becomes readable when a completion is added after arm_descriptor();
    /// negative when the system has none left.
    waitable event_descriptor();
    void arm_descriptor();
    void clear_descriptor() { signal_.clear(); }
    bool overflowed() const { return overflowed_.load(std::memory_order_acquire); }

protected:
    // What a push has to report, and to whom. While it is zero, push() does nothing more.
    enum : std::uint32_t {
        wants_any = 1,
        wants_solicited = 2,
        waiter = 4,
        wants_signal = 8,
        solicited_waiter = 16
    };

    bool open_signal();
    /// Whether the wait may end. The consumer calls it.
    bool enough(const wait_target &wanted)
    {
        const std::uint32_t others = others_.now();
        if (wanted.kind == interest::solicited)
            return others != 0 || holds_solicited();
        return others >= wanted.threshold ||
               count(wanted.threshold - others) + others >= wanted.threshold;
    }
    std::atomic<ring *> ring_{nullptr};
    void *owner_ = nullptr;
    std::atomic<std::uint64_t> shards_{0};
    upcall_queue *upcalls_ = nullptr;
    std::atomic<std::uint32_t> in_upcalls_{0}; ///< upcalls that are being made: they may poll
    alignas(64) std::atomic<std::uint32_t> head_{0};
    std::uint32_t counted_ = 0; ///< the consumer's: cells between head_ and here are filled
    alignas(64) std::atomic<std::uint32_t> wanted_{0};
    std::atomic<std::uint32_t> threshold_{1};
    std::atomic<bool> overflowed_{false};
    other_events others_;
    wake_signal signal_;

private:
    enum event : std::uint32_t { overflow_event, completion_event };
    void make_upcall(const upcalls &table, std::uint32_t event) override;
    ring &now() const { return *ring_.load(std::memory_order_acquire); }
    std::uint32_t count_on(std::uint32_t limit);
    bool holds_solicited();
    /// Whether so many completions may be there. A producer calls it after adding one. Completions
    /// that other producers are about to add count, too: the last of these producers calls it when
    /// it has added.
    bool may_hold(std::uint32_t number) const
    {
        return now().tail.load(std::memory_order_relaxed) - head_.load(std::memory_order_relaxed) +
                   others_.now() >=
               number;
    }
    bool put(const completion_record &done);
    bool has_room(ring &r, std::uint32_t at) const OSD_COLD;
    std::uint32_t tell(bool solicited, std::uint32_t wanted) OSD_COLD;

    osd::mutex signal_lock_; ///< held while it is opened
    osd::mutex resizing_;    ///< held while the ring is replaced
};

} // namespace soft_hca
