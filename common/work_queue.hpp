// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The posted operations of one direction of an endpoint.
#pragma once

#include "transport.hpp"

#include <atomic>
#include <bit>
#include <memory>
#include <new>
#include <utility>

namespace dapl::DAPL_TRANSPORT {

/// A ring of work requests in post order. It outlives its endpoint for as long as completions of
/// it may still be polled: an orphan has no owner, and its completions are dropped.
struct work_queue {
    /// Null when out of memory.
    static work_queue *create(endpoint *owner, DAT_COUNT limit)
    {
        const auto wanted = static_cast<std::uint32_t>(limit);
        std::unique_ptr<transport::wr[]> slots(new (std::nothrow)
                                                   transport::wr[std::bit_ceil(wanted)]());
        if (slots == nullptr)
            return nullptr;
        auto *queue = new (std::nothrow) work_queue(owner, wanted, std::move(slots));
        for (std::uint32_t i = 0; queue != nullptr && i <= queue->mask; ++i)
            queue->slots[i].queue = queue;
        return queue;
    }

    bool idle() const
    {
        return posted.load(std::memory_order_relaxed) == retired.load(std::memory_order_acquire);
    }
    /// The request to fill, numbered and counted, or null when the queue is full. Counted before
    /// it is posted: its completion may be polled before the post returns.
    OSD_ALWAYS_INLINE transport::wr *take()
    {
        const std::uint32_t number = posted.load(std::memory_order_relaxed);
        if (number - retired.load(std::memory_order_acquire) >= limit) [[unlikely]]
            return nullptr;
        transport::wr &request = slots[number & mask];
        request.sequence = number;
        posted.store(number + 1, std::memory_order_relaxed);
        return &request;
    }
    /// The request was not posted after all.
    void put_back(const work_request &unused)
    {
        posted.store(unused.sequence, std::memory_order_relaxed);
    }

    /// Gives back this request and those before it, whose success was suppressed.
    void retire(const work_request &done)
    {
        retired.store(done.sequence + 1, std::memory_order_release);
    }

    std::atomic<endpoint *> owner;
    osd::mutex owner_lock; ///< held while somebody acts on the owner because of a failure
    work_queue *next_orphan = nullptr;
    const std::uint32_t limit;
    const std::uint32_t mask;
    const std::unique_ptr<transport::wr[]> slots;
    std::atomic<std::uint32_t> posted{0};              ///< written by the thread that posts
    alignas(64) std::atomic<std::uint32_t> retired{0}; ///< written by the thread that polls

private:
    work_queue(endpoint *ep, std::uint32_t limit_, std::unique_ptr<transport::wr[]> &&slots_)
        : owner(ep), limit(limit_), mask(std::bit_ceil(limit_) - 1), slots(std::move(slots_))
    {}
};

} // namespace dapl::DAPL_TRANSPORT
