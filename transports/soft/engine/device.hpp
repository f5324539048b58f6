// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The software HCA: what a card would be. It knows nothing of DAT.
#pragma once

#include "connections.hpp"
#include "memory_table.hpp"
#include "memory_windows.hpp"
#include "settings.hpp"
#include "shard.hpp"
#include "shared_receives.hpp"
#include "upcalls.hpp"

#include <atomic>
#include <memory>

namespace soft_hca {

struct protection_domain {};

class device {
public:
    static constexpr std::uint32_t max_threads = 16;

    /// Zero, or an error number of the system's.
    int open(const settings &how, const upcalls &tell);
    /// All that was made on it was freed before.
    void close();

    // Slow operations, from any thread. What they are given stays in place until it is freed.

    bool make_queue(completion_queue &queue, void *owner, std::uint32_t depth);
    void free_queue(completion_queue &queue);
    /// By the thread that takes. Completions may be added meanwhile.
    completion_queue::outcome resize_queue(completion_queue &queue, std::uint32_t depth);
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
    /// On return nobody reaches the memory by this key. False while windows are bound to it.
    bool remove_region(memory_region &region);
    /// A window that is bound to nothing; null when out of memory. Its owner must not be in it.
    memory_region *make_window(const protection_domain &domain)
    {
        return memory_windows::make(domain);
    }
    /// On return nobody reaches memory by its key. Binds that are posted will fail.
    void free_window(memory_region *window);

    const settings &how() const { return how_; }
    const upcalls &tell() const { return tell_; }
    /// The largest that is sent and received.
    std::uint32_t datagram() const { return datagram_; }
    shard &shard_at(std::uint32_t index) { return shards_[index]; }
    std::uint32_t shards() const { return how_.threads; }
    shard *shard_list() { return shards_.get(); }

    memory_table memory;
    memory_windows windows{memory};
    connections listening;

private:
    /// Whoever was inside a queue pair, and used a key that was found before or added to the former
    /// ring of a completion queue, has finished.
    void pass_all_pairs();

    settings how_;
    upcalls tell_{};
    std::uint32_t datagram_ = 0;
    std::unique_ptr<shard[]> shards_;
    std::atomic<std::uint32_t> next_shard_{0};
};

} // namespace soft_hca
