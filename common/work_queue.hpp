// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The posted operations of one direction of an endpoint.
#pragma once

#include "transport.hpp"

#include <atomic>
#include <bit>
#include <cstdlib>
#include <memory>
#include <new>

namespace dapl::DAPL_TRANSPORT {

/// A ring of work requests in post order. It outlives its endpoint for as long as completions of
/// it may still be polled: an orphan has no owner, and its completions are dropped.
struct work_queue {
    /// Null when out of memory.
    static work_queue *create(endpoint *owner, DAT_COUNT limit)
    {
        const std::uint32_t slots = std::bit_ceil(static_cast<std::uint32_t>(limit));
        void *memory = std::aligned_alloc(alignof(work_queue), bytes_for(slots));
        if (memory == nullptr)
            return nullptr;
        auto *queue =
            ::new (memory) work_queue(owner, static_cast<std::uint32_t>(limit), slots - 1);
        for (std::uint32_t i = 0; i < slots; ++i)
            (::new (&queue->slot(i)) transport::wr())->queue = queue;
        return queue;
    }

    static void destroy(work_queue *queue)
    {
        if (queue == nullptr)
            return;
        for (std::uint32_t i = 0; i <= queue->mask; ++i)
            std::destroy_at(&queue->slot(i));
        std::destroy_at(queue);
        std::free(queue);
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
        transport::wr &request = slot(number);
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
    std::atomic<std::uint32_t> posted{0};              ///< written by the thread that posts
    alignas(64) std::atomic<std::uint32_t> retired{0}; ///< written by the thread that polls

private:
    work_queue(endpoint *ep, std::uint32_t limit_, std::uint32_t mask_)
        : owner(ep), limit(limit_), mask(mask_)
    {}
    static constexpr std::size_t slots_at()
    {
        constexpr std::size_t align = alignof(transport::wr);
        return (sizeof(work_queue) + align - 1) / align * align;
    }
    static constexpr std::size_t bytes_for(std::uint32_t slots)
    {
        const std::size_t bytes = slots_at() + slots * sizeof(transport::wr);
        return (bytes + alignof(work_queue) - 1) / alignof(work_queue) * alignof(work_queue);
    }
    transport::wr &slot(std::uint32_t number)
    {
        auto *base = reinterpret_cast<std::byte *>(this) + slots_at();
        return *reinterpret_cast<transport::wr *>(base + (number & mask) * sizeof(transport::wr));
    }
};
static_assert(alignof(transport::wr) <= alignof(work_queue));

} // namespace dapl::DAPL_TRANSPORT
