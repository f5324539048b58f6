// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The place where the requests of one queue of a queue pair complete.
#pragma once

#include "completion_turn.hpp"

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
        add({&r, length, immediate, pair_, shard_, work_status::success, extra, solicited});
    }
    /// Until the lock is released its holder adds in this turn; null: in none.
    void join(completion_turn *turn) { turn_ = turn; }
    /// Announces the completions since the lock was taken, before it is released.
    void announce()
    {
        turn_ = nullptr;
        if (news_.any())
            ring_->announce(news_);
    }
    /// Waits until the consumer can take all completions, before the end of a connection is
    /// reported, and before the queue pair is reset or freed. The lock is held, and the queue pair
    /// is in the table of its shard.
    void settle() const
    {
        if (turn_ != nullptr)
            turn_->end();
        if (ring_ != nullptr)
            ring_->settle();
    }

private:
    void add(const completion_record &done)
    {
        if (turn_ != nullptr)
            turn_->add(*ring_, done, news_);
        else
            ring_->add(done, news_);
    }

    completion_ring *ring_ = nullptr;
    completion_turn *turn_ = nullptr;
    std::uint32_t pair_ = 0;
    std::uint8_t shard_ = 0;
    completion_ring::news news_;
};

} // namespace soft_hca
