// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Posted requests: posting threads store without a lock, the holder of the queue pair's lock takes.
//
// A posting thread stores its request in a slot that is null; the holder takes the requests that
// are there without a gap, and clears their slots. One thread at a time posts to the slots in turn.
// Where posts are concurrent, each has its place in the ring: places count up by one, modulo a
// power of two that is at least the depth, and requests are taken in their order. A thread that
// closes a gap rings the doorbell behind its store, as every post does.
#pragma once

#include "interface/request.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace soft_hca {

class posted_ring {
public:
    /// Returns false when out of memory.
    bool open(std::uint32_t depth, bool concurrent = false);
    /// Returns false when it is full, which it is not where posts are concurrent. Stores the
    /// position, which has a meaning for is_near().
    bool post(request &r, std::uint32_t &at)
    {
        if (slots_ == nullptr)
            return false;
        if (concurrent_) {
            at = *r.place;
        } else {
            at = next_;
            if (slots_[at & mask_].load(std::memory_order_acquire) != nullptr)
                return false;
            next_ = at + 1;
        }
        slots_[at & mask_].store(&r); // sequentially consistent: before the check whether to ring
        return true;
    }
    bool post(request &r)
    {
        std::uint32_t at;
        return post(r, at);
    }
    /// Whether less than `most` requests lie between the position `from` and this one.
    bool is_near(std::uint32_t at, std::uint32_t from, std::uint32_t most) const
    {
        return ((at - from) & mask_) < most;
    }

    // --- for the holder of the lock. Positions count up for ever.

    std::uint32_t head() const { return head_; }
    /// The position behind the last request that can be taken.
    std::uint32_t tail()
    {
        while (tail_ - head_ <= mask_ && slots_ != nullptr &&
               slots_[tail_ & mask_].load() != nullptr)
            ++tail_;
        return tail_;
    }
    /// Whether this request, at this position, is the last that can be taken.
    bool is_last(std::uint32_t position, const request &r)
    {
        return tail() == position + 1 && &at(position) == &r;
    }
    /// As the latest call of tail() found it.
    std::uint32_t known_tail() const { return tail_; }
    bool empty() { return head() == tail(); }
    std::uint32_t size() { return tail() - head(); }
    request &at(std::uint32_t position) const
    {
        return *slots_[position & mask_].load(std::memory_order_relaxed);
    }
    request &front() const { return at(head()); }
    /// Whether there is a first one, for certain: the ring may not be empty where there is none.
    bool has_front() const
    {
        return slots_ != nullptr &&
               slots_[head_ & mask_].load(std::memory_order_acquire) != nullptr;
    }
    /// It is not empty.
    void pop()
    {
        slots_[head_ & mask_].store(nullptr, std::memory_order_release);
        ++head_;
    }
    void clear()
    {
        while (!empty())
            pop();
    }

private:
    std::unique_ptr<std::atomic<request *>[]> slots_;
    std::uint32_t mask_ = 0;
    bool concurrent_ = false;
    std::uint32_t next_ = 0; ///< next position of the posting thread, if there is one such thread
    alignas(64) std::uint32_t head_ = 0;
    std::uint32_t tail_ = 0; ///< known so far
};

} // namespace soft_hca
