// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The place where the requests of one queue of a queue pair complete.
#pragma once

#include "completion_ring.hpp"

namespace soft_hca {

class completion_target {
public:
    completion_target() = default;
    /// `ring`: null for a queue without a completion queue.
    completion_target(completion_ring *ring, std::uint32_t shard)
        : ring_(ring), shard_(static_cast<std::uint8_t>(shard))
    {}
    /// Sets the id of the queue pair, which completions carry.
    void identify(std::uint32_t pair) { pair_ = pair; }

    bool is(const completion_ring *ring) const { return ring_ == ring; }

    /// Completes a request, unless it is silent and succeeded.
    void complete(request &r, work_status status, std::uint32_t length);
    /// Completes a receive with success. `immediate` is the data, or the key that was invalidated.
    void complete_receive(request &r, std::uint32_t length, brought extra, std::uint32_t immediate,
                          bool solicited)
    {
        ring_->add({&r, length, immediate, pair_, shard_, work_status::success, extra, solicited},
                   news_);
    }
    /// Announces the completions since the lock was taken, before it is released.
    void announce()
    {
        if (news_.any())
            ring_->announce(news_);
    }
    /// Waits until the consumer can take all completions, before the end of a connection is
    /// reported, and before the queue pair is reset or freed. The lock is held, and the queue pair
    /// is in the table of its shard.
    void settle() const
    {
        if (ring_ != nullptr)
            ring_->settle();
    }

private:
    completion_ring *ring_ = nullptr;
    std::uint32_t pair_ = 0;
    std::uint8_t shard_ = 0;
    completion_ring::news news_;
};

} // namespace soft_hca
