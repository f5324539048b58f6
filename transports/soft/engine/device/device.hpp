// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The software HCA: what a card would be. It knows nothing of DAT.
#pragma once

#include "completion_queue.hpp"
#include "connection/device_context.hpp"
#include "queue/shared_receives.hpp"
#include "shard.hpp"

#include <atomic>
#include <memory>

namespace soft_hca {

/// Counts since the device was opened.
struct device_counts {
    pair_counts pairs;
    stray_counts strays;
    early_packets::counts early;
};

class device : public device_context {
public:
    static constexpr std::uint32_t max_threads = 16;

    /// Returns zero, or an error number of the system's.
    int open(const soft_hca::settings &settings, const soft_hca::upcalls &upcalls);
    /// All its objects were freed before.
    void close();
    /// Lets the device fail, for good: what has begun ends, posted requests and receives come back
    /// flushed, no connection begins any more. Objects can be made and freed as before. Any thread
    /// but in an upcall for a queue pair.
    void fail();

    // Slow operations, from any thread. The memory of an object stays in place until it is freed.

    bool make_queue(completion_queue &queue, void *owner, std::uint32_t depth);
    void free_queue(completion_queue &queue);
    /// Resizes a queue. The consumer of the queue calls it. Completions may be added concurrently.
    completion_queue::outcome resize_queue(completion_queue &queue, std::uint32_t depth);
    /// Sleeps until an armed completion queue has a completion, waiter.wake() was called, or the
    /// deadline passes; makes the completion upcalls that are due on this thread. One thread at a
    /// time. Makes progress while it waits.
    osd::wait_result wait_for_callbacks(osd::deadline until);
    bool make_pair(queue_pair &pair, const pair_params &params);
    void free_pair(queue_pair &pair);
    /// Back to what make_pair left.
    bool reset_pair(queue_pair &pair);
    bool make_shared(shared_receives &queue, void *owner, protection_domain &domain,
                     std::uint32_t depth);
    void free_shared(shared_receives &queue);

    /// Gives the region a key; 0 when there is none left.
    std::uint32_t add_region(memory_region &region, const protection_domain &domain,
                             const void *address, std::uint64_t length, std::uint32_t rights);
    /// Removes the key of a region: on return no memory is accessed by the key any more. False
    /// while windows are bound to the region.
    bool remove_region(memory_region &region);
    /// A window that is bound to nothing; null when out of memory.
    memory_region *make_window(const protection_domain &domain)
    {
        return memory_windows::make(domain);
    }
    /// Frees a window: on return no memory is accessed by its key any more. Posted binds of the
    /// window will fail.
    void free_window(memory_region *window);

    /// Takes the lock of each queue pair in turn.
    device_counts counts();
    /// Why it has no direct access to the memory of peers, though settings ask for it.
    local_obstacle without_direct() const { return without_direct_; }

    shard &shard_at(std::uint32_t index) { return shards_[index]; }

private:
    int open_seals(const key_settings &key);
    /// Waits for all threads that are inside a queue pair, and may use a key that they have found
    /// before or add to the former ring of a completion queue.
    void cycle_pair_locks();
    /// Puts a queue pair among those of its shard, and of its completion queues.
    bool add(queue_pair &pair);
    /// A new queue pair, or the old one anew, is added; it is of no use if the device has failed.
    bool begin(queue_pair &pair);
    void detach(const queue_pair &pair);
    void settle();
    bool has_callbacks();
    bool deliver_callbacks();
    osd::wait_result sleep_for_callbacks(osd::deadline until);
    void leave_wait_for_callbacks();
    shard &shard_of(const queue_pair &pair) { return shards_[pair.shard->index]; }

    std::unique_ptr<shard[]> shards_;
    osd::mutex producers_; ///< held while the producers of a completion queue change, or its ring
    std::atomic<std::uint32_t> next_shard_{0};
    local_obstacle without_direct_ = local_obstacle::none;
};

} // namespace soft_hca
