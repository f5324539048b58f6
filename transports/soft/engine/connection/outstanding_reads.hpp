// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Reads and atomic operations that the peer has not responded to yet. Responses come in the order
// of the requests.
#pragma once

#include "queue/posted_ring.hpp"
#include "wire/serial.hpp"

namespace soft_hca {

class outstanding_reads {
public:
    outstanding_reads() = default;
    /// `position` is the place of the next request in the send queue.
    outstanding_reads(std::uint32_t first_msn, std::uint32_t first_id, std::uint32_t position)
        : oldest_(position), next_msn_(first_msn), next_id_(first_id), atomic_msn_(first_msn)
    {}
    /// The peer's limit, or ours.
    void set_limit(std::uint32_t most) { limit_ = most; }

    bool any() const { return count_ != 0; }
    bool full() const { return count_ >= limit_; }
    void start(request &r)
    {
        r.msn = next_msn_++;
        r.read_id = next_id_++;
        ++count_;
    }
    /// The operation that is responded to next, or null.
    request *oldest(const posted_ring &ring);
    /// The oldest has its response.
    void finish_oldest(const posted_ring &ring)
    {
        ring.at(oldest_++).done = true;
        --count_;
    }
    /// Whether this is the number of the next response to an atomic operation.
    bool is_next_atomic(std::uint32_t msn) const { return msn == atomic_msn_; }
    void finish_atomic() { ++atomic_msn_; }

    /// Judges progress for a slow timer. `oldest` is the operation that is responded to next, if
    /// the peer has acknowledged its request. True when there was no progress for longer than
    /// `patience_us`. `not_ready` counts segments for which we have no receive: a response waits
    /// behind them, which the peer retransmits.
    bool overdue(const request *oldest, std::uint64_t not_ready, std::uint64_t patience_us,
                 std::int64_t now);

private:
    struct progress {
        std::uint32_t read_id = 0;
        std::uint32_t moved = 0;
        std::uint64_t not_ready = 0;
        bool operator==(const progress &) const = default;
    };

    std::uint32_t count_ = 0;
    std::uint32_t limit_ = 0;
    std::uint32_t oldest_ = 0; ///< position in the send queue, or before it
    std::uint32_t next_msn_ = 0;
    std::uint32_t next_id_ = 0;
    std::uint32_t atomic_msn_ = 0;
    progress seen_;
    std::int64_t seen_ns_ = 0;
    std::int64_t stalled_ns_ = 0; ///< time for which nothing has changed
};

} // namespace soft_hca
