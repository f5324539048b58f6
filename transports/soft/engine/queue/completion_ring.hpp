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
// Locked operations. completion_cells.hpp says how producers reserve cells: the usual ones by plain
// stores. A cell is filled by a plain release, so the consumer can take it at once; whether it
// sleeps or has armed the queue is asked once for all completions that a holder of a queue pair's
// lock, or of a lease, adds. That question is an operation on the word by which the consumer asks
// for news, which orders the two: either it sees what the consumer asked, or the consumer sees the
// completions when it looks, after that, before it sleeps.
//
// Producers that wait for the end of a lease do so under their queue pair's lock. So who has a
// lease waits for no lock under which a thread may wait for a lease: it ends its leases before.
#pragma once

#include "completion_cells.hpp"
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

    using cells = completion_cells<completion_record>;
    struct ring_deleter {
        void operator()(cells *unused) const;
    };
    using ring_owner = std::unique_ptr<cells, ring_deleter>;
    enum class outcome : std::uint8_t { done, no_memory, too_full };

    /// Makes a ring for at least `depth` completions; false when out of memory.
    bool open(void *owner, upcall_queue &upcalls, std::uint32_t depth);
    std::uint32_t depth() const { return now().size(); }
    void *owner() const { return owner_; }
    /// The queue of its upcalls.
    upcall_queue &delivery() const { return *upcalls_; }
    /// Queue pairs of this shard complete here.
    void serve(std::uint32_t shard_index)
    {
        shards_.fetch_or(std::uint64_t{1} << shard_index, std::memory_order_relaxed);
    }

    // --- producers

    cells::producers producers;

    /// Completions of a holder of a queue pair's lock, or of a lease, that are to be announced
    /// before it releases that.
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

    /// How a producer reserves: alone or beside others; so that it has a lease then; with a lease.
    enum class producer : std::uint8_t { plain, leasing, leased };
    /// Adds one under the lock of a queue pair. False, and nothing is added, where there is no
    /// room, or another thread has a lease, waits for its end, or replaces the ring.
    template <producer how>
    bool try_add(const completion_record &done, news &of_holder);
    /// Announces what was added, and ends the lease.
    void end_lease(news &of_holder);
    /// Waits until the consumer can take all that are there: none that another producer is still
    /// filling stands before them. By a thread that holds the lock of a queue pair that cycling the
    /// locks would wait for.
    void settle();

    // --- the consumer, one thread at a time

    /// Passes the oldest to `read`, and removes it if that returns true.
    template <class Read>
    OSD_ALWAYS_INLINE bool pop_to(Read &&read)
    {
        return now().pop_to(head_, read);
    }
    bool pop(completion_record &done)
    {
        return pop_to([&done](const completion_record &oldest) {
            done = oldest;
            return true;
        });
    }
    bool empty() const { return !now().is_filled(head_.load(std::memory_order_relaxed)); }
    /// The number of completions, counted up to a limit, without taking any. Each is looked at
    /// once, however often they are counted.
    std::uint32_t count(std::uint32_t limit = UINT32_MAX)
    {
        return empty() ? 0 : now().count(head_, counted_, limit);
    }
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
    std::atomic<cells *> ring_{nullptr};
    void *owner_ = nullptr;
    std::atomic<std::uint64_t> shards_{0};
    upcall_queue *upcalls_ = nullptr;
    std::atomic<std::uint32_t> in_upcalls_{0}; ///< upcalls that are being made: they may poll
    alignas(64) cells::place head_{0};
    std::uint32_t counted_ = 0; ///< the consumer's: cells between head_ and here are filled
    alignas(64) std::atomic<std::uint32_t> wanted_{0};
    std::atomic<std::uint32_t> threshold_{1};
    std::atomic<bool> overflowed_{false};
    other_events others_;
    wake_signal signal_;

private:
    enum event : std::uint32_t { overflow_event, completion_event };
    void make_upcall(const upcalls &table, std::uint32_t event) override;
    cells &now() const { return *ring_.load(std::memory_order_acquire); }
    bool holds_solicited();
    /// Whether so many completions may be there. A producer calls it after adding one. Completions
    /// that other producers are about to add count, too: the last of these producers calls it when
    /// it has added.
    bool may_hold(std::uint32_t number) const
    {
        return now().used(head_) + others_.now() >= number;
    }
    void add_patiently(const completion_record &done, news &of_holder) OSD_COLD;
    std::uint32_t tell(bool solicited, std::uint32_t wanted) OSD_COLD;

    osd::mutex signal_lock_; ///< held while it is opened
    osd::mutex resizing_;    ///< held while the ring is replaced, or the end of a lease awaited
};

} // namespace soft_hca
