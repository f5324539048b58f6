// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Posted requests: the posting thread adds without a lock, the holder of the queue pair's lock
// takes.
#pragma once

#include "request.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace soft_hca {

class posted_ring {
public:
    /// False when out of memory.
    bool open(std::uint32_t depth);
    bool post(request &r)
    {
        const std::uint32_t at = tail_.load(std::memory_order_relaxed);
        if (at - head_.load(std::memory_order_acquire) > mask_ || slots_ == nullptr)
            return false;
        slots_[at & mask_] = &r;
        tail_.store(at + 1); // sequentially consistent: before the check whether to ring
        return true;
    }
    std::uint32_t tail() const { return tail_.load(); }
    std::uint32_t head() const { return head_.load(std::memory_order_relaxed); }
    bool empty() const { return head() == tail(); }
    std::uint32_t size() const { return tail() - head(); }
    request &at(std::uint32_t position) const { return *slots_[position & mask_]; }
    request &front() const { return at(head()); }
    void pop() { head_.store(head() + 1, std::memory_order_release); }
    void clear() { head_.store(tail(), std::memory_order_release); }

private:
    std::unique_ptr<request *[]> slots_;
    std::uint32_t mask_ = 0;
    std::atomic<std::uint32_t> head_{0};
    alignas(64) std::atomic<std::uint32_t> tail_{0};
};

/// The send queue of a queue pair, with hints for posting threads, which do not hold the lock.
struct send_queue {
    posted_ring ring;
    std::atomic<std::uint32_t> in_flight{0}; ///< packets
    std::atomic<std::uint32_t> started{0};   ///< position of the first request that was not
};

struct receive_queue {
    posted_ring ring;
    /// A post has to ring: the peer has no credit, a packet waits for a receive, or receives are to
    /// be flushed.
    std::atomic<bool> wanted{false};
};

} // namespace soft_hca
