// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The completions that a thread adds while it receives packets for the queue pairs of a shard.
//
// It leases each completion ring that these complete to, and keeps the lease from one queue pair to
// the next: so a ring costs two locked operations per turn, its lease and the announcement, however
// many completions and queue pairs there are. Its owner ends the turn before it waits for anything.
#pragma once

#include "completion_ring.hpp"

namespace soft_hca {

class completion_turn {
public:
    /// Under the lock of a queue pair. `of_pair`: takes what the pair has to announce itself, where
    /// the ring cannot be leased.
    OSD_NOINLINE void add(completion_ring &ring, const completion_record &done,
                          completion_ring::news &of_pair)
    {
        if (part *const leased = find(ring)) {
            if (ring.try_add<completion_ring::producer::leased>(done, leased->news)) [[likely]]
                return;
        } else if (lease_and_add(ring, done)) [[likely]] {
            return;
        }
        end(); // the add may wait
        ring.add(done, of_pair);
    }
    /// Announces the completions, and ends the leases.
    void end()
    {
        while (count_ != 0) {
            part &last = parts_[--count_];
            last.ring->end_lease(last.news);
        }
    }
    /// Ends the turn if another thread waits for one of the leases.
    void end_if_asked()
    {
        for (std::uint32_t i = 0; i < count_; ++i)
            if (parts_[i].ring->producers.ask_for_lease()) [[unlikely]]
                return end();
    }

private:
    struct part {
        completion_ring *ring;
        completion_ring::news news;
    };
    static constexpr std::uint32_t most = 4;

    part *find(const completion_ring &ring)
    {
        for (std::uint32_t i = 0; i < count_; ++i)
            if (parts_[i].ring == &ring)
                return &parts_[i];
        return nullptr;
    }
    bool lease_and_add(completion_ring &ring, const completion_record &done)
    {
        if (count_ == most)
            end();
        part &next = parts_[count_];
        next = {&ring, {}};
        if (!ring.try_add<completion_ring::producer::leasing>(done, next.news))
            return false;
        ++count_;
        return true;
    }

    part parts_[most];
    std::uint32_t count_ = 0;
};

} // namespace soft_hca
