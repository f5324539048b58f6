// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completion queue: any number of threads add, one takes.
//
// What is added goes to a ring, which a resize replaces: it takes the former ring's places away
// from those who add, moves what is in it, and tells where the new one is. Who finds no place waits
// for a resize that is under way, and tries again. Nobody adds but inside a queue pair: so the
// former ring is not looked at any more when every pair was entered once.
#pragma once

#include "net.hpp"
#include "request.hpp"

#include <atomic>
#include <memory>

namespace soft_hca {

class shard;

class completion_queue {
public:
    /// `solicited` asks for those only that their sender marked, and for failures.
    enum class interest : std::uint8_t { any, solicited };

    /// For at least `depth` completions; false when out of memory. `homes` is the device's list of
    /// shards, and the one at `home` makes the upcalls.
    bool open(void *owner, shard *homes, std::uint32_t home, std::uint32_t depth);
    std::uint32_t depth() const { return now().mask + 1; }

    struct cell {
        /// Whose turn it is: of who adds at this position, or of who takes at the one before.
        std::atomic<std::uint32_t> turn;
        completion_record what;
    };
    /// Its cells follow it in memory.
    struct ring {
        explicit ring(std::uint32_t size) : mask(size - 1) {}
        cell &at(std::uint32_t position) const
        {
            auto *cells = reinterpret_cast<cell *>(const_cast<ring *>(this) + 1);
            return cells[position & mask];
        }
        const std::uint32_t mask;
        alignas(64) std::atomic<std::uint32_t> tail{0};
    };
    struct ring_deleter {
        void operator()(ring *unused) const;
    };
    using ring_owner = std::unique_ptr<ring, ring_deleter>;
    enum class outcome : std::uint8_t { done, no_memory, too_full };
    /// By the thread that takes. The former ring is to be kept until nobody adds to it any more.
    outcome resize(std::uint32_t depth, ring_owner &former);
    ~completion_queue() { ring_deleter()(ring_.load()); }

    /// Adds one. When the queue is full it is lost, and the owner is told once.
    void push(const completion_record &done);
    /// One thread at a time. `read` is given the oldest, which is gone if it returns true.
    template <class Read>
    OSD_ALWAYS_INLINE bool pop_to(Read &&read)
    {
        const std::uint32_t at = head_.load(std::memory_order_relaxed);
        ring &r = now();
        const std::uint32_t mask = r.mask;
        cell &from = r.at(at);
        if (from.turn.load(std::memory_order_acquire) != at + 1 ||
            !read(static_cast<const completion_record &>(from.what)))
            return false;
        from.turn.store(at + mask + 1, std::memory_order_release);
        head_.store(at + 1, std::memory_order_relaxed);
        return true;
    }
    bool pop(completion_record &done)
    {
        return pop_to([&done](const completion_record &oldest) {
            done = oldest;
            return true;
        });
    }
    /// By the thread that takes.
    bool empty() const
    {
        const std::uint32_t at = head_.load(std::memory_order_relaxed);
        return now().at(at).turn.load(std::memory_order_acquire) != at + 1;
    }
    /// How many there are, counted up to a limit, without taking any. By the thread that takes.
    std::uint32_t count(std::uint32_t limit = UINT32_MAX) const
    {
        const std::uint32_t at = head_.load(std::memory_order_relaxed);
        const ring &r = now();
        std::uint32_t found = 0;
        while (found < limit && found <= r.mask &&
               r.at(at + found).turn.load(std::memory_order_acquire) == at + found + 1)
            ++found;
        return found;
    }

    /// Asks for one upcall after the next completion.
    void arm(interest what);
    /// Sleeps until there are `threshold` completions, wake() was called, or the deadline passes;
    /// may return early. Moves data meanwhile. By the thread that takes.
    osd::wait_result wait(std::uint32_t threshold, osd::deadline until);
    void wake();
    /// A descriptor that becomes readable when a completion is added after arm_descriptor();
    /// negative when the system has none left.
    waitable event_descriptor();
    void arm_descriptor();
    void clear_descriptor() { signal_.clear(); }

    void *owner() const { return owner_; }
    shard &home() const;
    /// What pair_params::receiver was of the pair that this is of, or null when it is gone.
    void *receiver_of(const completion_record &done) const;
    bool overflowed() const { return overflowed_.load(std::memory_order_acquire); }
    /// Queue pairs of this shard complete here.
    void serve(std::uint32_t shard_index)
    {
        shards_.fetch_or(std::uint64_t{1} << shard_index, std::memory_order_relaxed);
    }
    /// Moves data of the queue pairs that complete here; true when some came.
    bool progress(bool sleeps_next = false) OSD_NOINLINE;

    // Of the shard that makes the upcalls, under its lock for events.
    completion_queue *next_noticed = nullptr;
    bool noticed = false;
    bool notice_completion = false;
    bool notice_overflow = false;

private:
    ring &now() const { return *ring_.load(std::memory_order_acquire); }
    bool put(const completion_record &done);
    bool put_after_resize(const completion_record &done) OSD_COLD;
    static ring *make_ring(std::uint32_t depth);
    void announce(const completion_record &done, std::uint32_t wanted);
    bool open_signal();
    void settle();
    osd::wait_result sleep_for(std::uint32_t threshold, const waitable *descriptors,
                               std::uint32_t count, osd::deadline until);
    void leave_wait(std::uint64_t shards);
    bool enough(std::uint32_t threshold) const { return count(threshold) >= threshold; }

    // Who wants to know. Zero: nobody, and push looks no further.
    enum : std::uint32_t { wants_any = 1, wants_solicited = 2, waiter = 4, wants_signal = 8 };

    std::atomic<ring *> ring_{nullptr};
    std::uint32_t home_ = 0;
    shard *homes_ = nullptr;
    void *owner_ = nullptr;
    std::atomic<std::uint64_t> shards_{0};
    alignas(64) std::atomic<std::uint32_t> head_{0};
    alignas(64) std::atomic<std::uint32_t> wanted_{0};
    std::atomic<std::uint32_t> threshold_{1};
    std::atomic<bool> woken_{false};
    std::atomic<bool> overflowed_{false};
    wake_signal signal_;
    osd::mutex signal_lock_; ///< of opening it
    osd::mutex resizing_;
};

} // namespace soft_hca
