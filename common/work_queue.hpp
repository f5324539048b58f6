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

class shared_work_queue;
struct binding;

/// Keeps other posts out, on an adapter whose consumer did not promise to do so.
template <class Safety>
class post_guard {
public:
    explicit post_guard(osd::mutex &m) OSD_UNCHECKED : mutex_(m)
    {
        if constexpr (Safety::locks)
            mutex_.lock();
    }
    post_guard(const post_guard &) = delete;
    post_guard &operator=(const post_guard &) = delete;
    ~post_guard() OSD_UNCHECKED
    {
        if constexpr (Safety::locks)
            mutex_.unlock();
    }

private:
    osd::mutex &mutex_;
};

/// A ring of work requests in post order. It outlives its endpoint for as long as completions of
/// it may still be polled: an orphan has no owner, and its completions are dropped. The last of its
/// holders deletes it.
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
    /// For an endpoint that draws from a shared queue: what stands for it in completions.
    static work_queue *create_drawing(endpoint *owner, shared_work_queue &from);

    void hold() { holders_.fetch_add(1, std::memory_order_relaxed); }
    void let_go();

    bool idle() const
    {
        return posted.load(std::memory_order_relaxed) == retired.load(std::memory_order_acquire);
    }
    /// The request to fill, numbered and counted, or null when the queue is full. Counted before
    /// it is posted: its completion may be polled before the post returns.
    OSD_ALWAYS_INLINE transport::wr *take()
    {
        const std::uint32_t number = posted.load(std::memory_order_relaxed);
        if (number == known_end && !finds_room(number)) [[unlikely]]
            return nullptr;
        transport::wr &request = slots[number & mask];
        request.sequence = number;
        posted.store(number + 1, std::memory_order_relaxed);
        return &request;
    }
    /// The request that was taken last was not posted after all.
    void put_back()
    {
        posted.store(posted.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    }

    /// Gives back this request and those before it, whose success was suppressed.
    void retire(const work_request &done)
    {
        retired.store(done.sequence + 1, std::memory_order_release);
    }

    bool has_retired(std::uint32_t sequence) const
    {
        return static_cast<std::int32_t>(retired.load(std::memory_order_acquire) - sequence) > 0;
    }

    /// Room to note what each bind binds; false when out of memory. By the thread that posts.
    bool make_room_for_bindings();
    /// Before it is posted. What stood there has completed, its success suppressed.
    void note_binding(std::uint32_t sequence, binding *posted);
    /// Of a bind that is posted.
    binding *binding_at(std::uint32_t sequence) const { return bindings_[sequence & mask]; }
    /// Of one that completes, or was not posted after all.
    binding *take_binding(std::uint32_t sequence)
    {
        return std::exchange(bindings_[sequence & mask], nullptr);
    }

    /// While it may be named in completions it must not be deleted, though it is idle.
    bool is_named() const { return draws_from != nullptr || !idle(); }

    std::atomic<endpoint *> owner;
    const bool shared;                       ///< a shared_work_queue
    shared_work_queue *draws_from = nullptr; ///< has no requests of its own
    osd::mutex owner_lock; ///< held while somebody acts on the owner because of a failure
    work_queue *next_orphan = nullptr;
    const std::uint32_t limit;
    const std::uint32_t mask;
    const std::unique_ptr<transport::wr[]> slots;
    std::atomic<std::uint32_t> posted{0}; ///< written by the thread that posts
    std::uint32_t known_end; ///< that thread's: the first number for which it knows no room
    alignas(64) std::atomic<std::uint32_t> retired{0}; ///< written by the thread that polls

protected:
    work_queue(endpoint *ep, std::uint32_t limit_, std::unique_ptr<transport::wr[]> &&slots_,
               bool is_shared = false)
        : owner(ep), shared(is_shared), limit(limit_), mask(std::bit_ceil(limit_) - 1),
          slots(std::move(slots_)), known_end(limit_)
    {}
    ~work_queue();

private:
    /// Looks at what the other thread has retired since, which costs a cache line of its.
    bool finds_room(std::uint32_t number)
    {
        known_end = retired.load(std::memory_order_acquire) + limit;
        return number != known_end;
    }

    std::atomic<int> holders_{1};
    std::unique_ptr<binding *[]> bindings_; ///< [memory_windows] made with the first bind
};

/// The receives of an SRQ. They are taken in any order, by any endpoint, and given back by whoever
/// polls; one thread at a time posts. It lives as long as the SRQ and as completions of its
/// receives may still be polled.
class shared_work_queue : public work_queue {
    struct slot : transport::wr {
        slot *next = nullptr;
    };
    struct chunk {
        std::unique_ptr<slot[]> slots;
        chunk *next;
    };

public:
    /// Null when out of memory.
    static shared_work_queue *create(DAT_COUNT limit)
    {
        auto *queue = new (std::nothrow) shared_work_queue;
        if (queue == nullptr || queue->reserve(limit)) {
            if (queue != nullptr)
                queue->set_limit(limit);
            return queue;
        }
        queue->let_go();
        return nullptr;
    }

    /// Makes room for that many requests in all. False when out of memory.
    bool reserve(DAT_COUNT count)
    {
        const auto more = static_cast<std::int64_t>(count) - reserved_;
        if (more <= 0)
            return true;
        std::unique_ptr<slot[]> fresh(new (std::nothrow) slot[static_cast<std::size_t>(more)]());
        auto *link = fresh == nullptr ? nullptr : new (std::nothrow) chunk{nullptr, chunks_};
        if (link == nullptr)
            return false;
        for (std::int64_t i = 0; i < more; ++i) {
            fresh[static_cast<std::size_t>(i)].queue = this;
            put(fresh[static_cast<std::size_t>(i)]);
        }
        link->slots = std::move(fresh);
        chunks_ = link;
        reserved_ = count;
        return true;
    }
    void set_limit(DAT_COUNT most) { most_.store(most, std::memory_order_relaxed); }
    DAT_COUNT outstanding() const { return outstanding_.load(std::memory_order_relaxed); }

    /// A request to fill, or null when all are posted.
    transport::wr *take_any()
    {
        if (outstanding() >= most_.load(std::memory_order_relaxed))
            return nullptr;
        if (free_ == nullptr)
            free_ = returned_.exchange(nullptr, std::memory_order_acquire);
        if (free_ == nullptr)
            return nullptr;
        slot *taken = std::exchange(free_, free_->next);
        outstanding_.fetch_add(1, std::memory_order_relaxed);
        return taken;
    }
    /// Any thread.
    void give_back(work_request &done)
    {
        put(static_cast<slot &>(static_cast<transport::wr &>(done)));
        outstanding_.fetch_sub(1, std::memory_order_relaxed);
    }

private:
    friend work_queue; // lets go of it
    shared_work_queue() : work_queue(nullptr, 1, nullptr, true) {}
    ~shared_work_queue()
    {
        while (chunks_ != nullptr)
            delete std::exchange(chunks_, chunks_->next);
    }

    void put(slot &unused)
    {
        unused.next = returned_.load(std::memory_order_relaxed);
        while (!returned_.compare_exchange_weak(unused.next, &unused, std::memory_order_release,
                                                std::memory_order_relaxed)) {
        }
    }

    chunk *chunks_ = nullptr;
    slot *free_ = nullptr; ///< of the thread that posts
    DAT_COUNT reserved_ = 0;
    std::atomic<DAT_COUNT> most_{0};
    alignas(64) std::atomic<slot *> returned_{nullptr};
    std::atomic<DAT_COUNT> outstanding_{0};
};

inline work_queue *work_queue::create_drawing(endpoint *owner, shared_work_queue &from)
{
    auto *queue = new (std::nothrow) work_queue(owner, 0, nullptr);
    if (queue == nullptr)
        return nullptr;
    queue->draws_from = &from;
    from.hold();
    return queue;
}

} // namespace dapl::DAPL_TRANSPORT
