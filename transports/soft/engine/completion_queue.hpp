// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completion queue: its completions, and the shards that have to make progress for more to come.
#pragma once

#include "completion_ring.hpp"

namespace soft_hca {

class shard;

class completion_queue final : public completion_ring {
public:
    /// `homes` is the device's list of shards. Queue pairs that complete here are put on the one at
    /// `home`, and the one at `callbacks` makes the upcalls.
    bool open(void *owner, shard *homes, std::uint32_t home, std::uint32_t callbacks,
              std::uint32_t depth);
    /// Who waits makes the upcalls that are due, in place of the shards' threads.
    void let_waiter_call_back() { calls_back_ = true; }
    shard &home() const;
    /// The consumer has taken this completion of a shared receive, which its queue pair held until
    /// now. What pair_params::receiver was of that, or null when it is gone.
    void *end_receive(const completion_record &done) const;

    // --- the consumer

    /// Moves data of the queue pairs that complete here; true when some came.
    bool progress(bool sleeps_next = false) OSD_NOINLINE;
    /// Sleeps until there is what is wanted, wake() was called, or the deadline passes; may return
    /// early. Makes progress while it waits.
    osd::wait_result wait(const wait_target &wanted, osd::deadline until);
    /// Makes the present or the next wait() return. Any thread.
    void wake();

private:
    bool progress_before_sleep();
    void settle(const wait_target &wanted);
    osd::wait_result sleep_for(const wait_target &wanted, std::uint64_t &shards,
                               osd::deadline until);
    void leave_sockets(std::uint64_t &shards);
    void leave_wait(std::uint64_t &shards);

    std::uint32_t home_ = 0;
    bool calls_back_ = false;
    bool for_others_ = false; ///< nothing completes here
    shard *homes_ = nullptr;
    std::atomic<bool> woken_{false};
};

} // namespace soft_hca
