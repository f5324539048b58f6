// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The queue pairs of a shard, found by their ids.
//
// An id is a slot and 16 random bits. Slots are read without a lock by the holder of the shard's
// poll lock, so a queue pair that was removed is unreferenced once that lock has been cycled.
#pragma once

#include "connection/queue_pair.hpp"

#include "osd_sync.hpp"

#include <atomic>

namespace soft_hca {

class pair_table {
public:
    static constexpr std::uint32_t capacity = atomic_bitmap::capacity;

    ~pair_table() { close(); }
    /// Returns false when out of memory.
    bool open();
    void close();

    /// Gives it an id. False when the table is full or there are no random numbers.
    bool add(queue_pair &pair);
    void remove(const queue_pair &pair);
    /// Adds what a queue pair has counted that was removed, and that no thread is inside any more.
    void keep_counts(const queue_pair &removed);
    /// The sum of the counts of all its queue pairs, also of removed pairs.
    pair_counts counts();
    /// Cycles the locks of all queue pairs: on return no thread is inside that was when it began.
    void cycle_locks();
    bool empty() const { return count_.load() == 0; }
    /// The consumer takes the completion of a shared receive that the pair with this id held.
    /// Returns pair_params::receiver of the pair; null when the pair is gone. Any thread.
    void *end_receive(std::uint32_t id);

    // --- the holder of the poll lock

    queue_pair *find(std::uint32_t id) const
    {
        queue_pair *pair = at(id & (capacity - 1));
        return pair != nullptr && pair->identity.id == id ? pair : nullptr;
    }
    queue_pair *at(std::uint32_t slot) const
    {
        return pairs_[slot].load(std::memory_order_acquire);
    }
    /// All slots in use are before this one.
    std::uint32_t end() const { return used_.load(std::memory_order_acquire); }

private:
    struct named_receiver {
        std::atomic<std::uint32_t> id;
        std::atomic<void *> receiver;
        held_receives shared_held;
    };
    void put(std::uint32_t slot, queue_pair &pair) OSD_REQUIRES(lock_);

    // Large and mostly unused: calloc provides memory when it is first touched.
    std::atomic<queue_pair *> *pairs_ = nullptr;
    named_receiver *receivers_ = nullptr;
    osd::mutex lock_;
    pair_counts removed_ OSD_GUARDED_BY(lock_);
    std::atomic<std::uint32_t> used_{0};
    std::atomic<std::uint32_t> count_{0};
};

} // namespace soft_hca
