// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completion queue: its completions, and the shards that have to make progress for more to come.
#pragma once

#include "queue/completion_ring.hpp"

namespace soft_hca {

class shard;

/// What of the device serves a completion queue.
struct queue_service {
    shard *shards;           ///< the device's list of shards
    std::uint32_t nearest;   ///< number of the shard for queue pairs that complete here
    std::uint32_t callbacks; ///< number of the shard that makes the upcalls
    /// A waiting thread makes the upcalls that are due, in place of the shards' threads.
    bool waiter_calls_back;
    /// A consumer that polls a queue copies short messages into its receives itself.
    bool consumers_copy;
};

class completion_queue final : public completion_ring {
public:
    bool open(void *owner, const queue_service &served, std::uint32_t depth);
    /// The shard on which queue pairs that complete here are put.
    shard &nearest() const;
    /// The consumer has taken this completion of a shared receive, which its queue pair held until
    /// now. Returns pair_params::receiver of that queue pair, or null when the pair is gone.
    void *end_receive(const completion_record &done) const;

    // --- the consumer

    /// Moves data of the queue pairs that complete here; true when some came.
    bool progress(bool sleeps_next = false) OSD_NOINLINE;
    /// Sleeps until `wanted` is there, wake() was called, or the deadline passes; may return early.
    /// Makes progress while it waits.
    osd::wait_result wait(const wait_target &wanted, osd::deadline until);
    /// Makes the present or the next wait() return. Any thread.
    void wake();

private:
    void settle(const wait_target &wanted);
    osd::wait_result sleep_for(const wait_target &wanted, std::uint64_t &shards,
                               osd::deadline until);
    void leave_wait(std::uint64_t &shards);

    queue_service served_{};
    bool for_others_ = false; ///< nothing completes here
    std::atomic<bool> woken_{false};
};

} // namespace soft_hca
