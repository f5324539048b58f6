// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The posted operations of one direction of an endpoint.
#pragma once

#include "concurrent_posts.hpp"
#include "dapl_status.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <utility>

namespace dapl::DAPL_TRANSPORT::core {

class shared_work_queue;
struct binding;

/// A ring of work requests, as the thread that posts sees it. One place stays unused, so that full
/// and empty differ.
struct post_ring {
    using wr = transport::wr;

    /// The request to fill, which counts as posted from now on: its completion may be polled before
    /// the post returns. False when no room is known; the slow path looks again.
    OSD_ALWAYS_INLINE bool take(wr *&request)
    {
        request = next.load(std::memory_order_relaxed);
        if (request == known_end) [[unlikely]]
            if (looks_slowly != 0 || !find_room(request))
                return false;
        advance(request);
        return true;
    }

    /// Reads what the polling thread has retired since, which costs a cache miss. Writes nothing if
    /// it finds nothing.
    OSD_ALWAYS_INLINE bool find_room(const wr *request)
    {
        wr *const last = retired.load(std::memory_order_acquire);
        if (request == last)
            return false;
        known_end = last;
        return true;
    }
    OSD_ALWAYS_INLINE void advance(const wr *taken)
    {
        next.store(static_cast<wr *>(taken->after), std::memory_order_relaxed);
    }

    std::atomic<wr *> next{nullptr}; ///< the next request to be posted
    wr *known_end = nullptr;         ///< the first for which no room is known
    enum : std::uint8_t {
        binds = 1,    ///< there are bindings to be cleared
        selective = 2 ///< some are unsignalled: all are taken slowly, which says so of each
    };
    std::uint8_t looks_slowly = 0; ///< why room is found on the slow path only
    /// [memory_windows] What each bind binds; made with the first. A place where one is noted is
    /// not taken again before that is cleared.
    std::atomic<binding *> *bindings = nullptr;
    alignas(64) std::atomic<wr *> retired{nullptr}; ///< the last; written by the thread that polls
};

/// The next request is not taken on the fast path.
inline void forget_room(post_ring &ring)
{
    ring.known_end = ring.next.load(std::memory_order_relaxed);
}

/// The operation of a request that was not used yet.
inline constexpr opcode never_posted{UINT32_MAX};

/// A ring without requests to take. It is never written to.
inline constinit post_ring closed_ring;

/// Places of a ring that were allocated together. Their numbers, ring_place, go on from the numbers
/// of the older places, among which they were put: between the request that was posted last and the
/// unused one.
struct ring_places {
    DAT_UINT32 count() const { return first + added; }
    /// Where the place stands in the order of the ring, from the place that was unused when it grew
    /// last.
    DAT_UINT32 order_of(const work_request &request) const
    {
        const DAT_UINT32 number = request.ring_place;
        return number >= first ? number : (earlier->order_of(request) + first - unused) % first;
    }
    /// How far `at` is behind the successor of `last`: 0 for the successor, and so on round the
    /// ring.
    std::uint64_t distance(const work_request &last, const work_request &request) const
    {
        return (order_of(request) + count() - order_of(last) + count() - 1) % count();
    }
    bool has(const transport::wr *request) const
    {
        const std::less<> before;
        return (!before(request, slots.get()) && before(request, slots.get() + added)) ||
               (earlier != nullptr && earlier->has(request));
    }

    std::unique_ptr<transport::wr[]> slots;
    std::unique_ptr<ring_places> earlier;
    DAT_UINT32 first = 0; ///< how many there were before
    DAT_UINT32 added = 0;
    DAT_UINT32 unused = 0; ///< the order, before, of the place that was unused
};

struct work_queue;

/// When the requests of a queue were posted, as far as somebody counts. The queue has places of its
/// own, and does not grow during a call.
class post_times {
public:
    /// A request, as it is shown to somebody who looks for what is stuck.
    struct posted {
        DAT_DTO_COOKIE cookie;
        DAT_UINT32 length;
        opcode operation;
        std::int64_t noted_ns; ///< when note() was called first after its post
    };
    /// Notes the time of the requests that no earlier call has seen. Out of memory, it notes
    /// nothing.
    void note(const work_queue &queue, std::int64_t now_ns);
    /// Copies the oldest `room` outstanding requests, oldest first, and returns how many are
    /// outstanding. Those without a note are noted. Nobody posts meanwhile.
    std::size_t copy(const work_queue &queue, std::int64_t now_ns, posted *out, std::size_t room);

private:
    std::unique_ptr<std::int64_t[]> noted_ns_; ///< of each place; made with the first note
    const work_request *last_ = nullptr;       ///< the last request that was noted
};

/// The posted operations of one direction of an endpoint. It outlives its endpoint for as long as
/// its completions may still be polled: an orphan has no owner, and its completions are dropped
/// when they are polled. The last reference deletes it.
///
/// Its ring begins with a few places, and doubles, up to the limit, when all are posted: most
/// endpoints never use their depth. A queue whose requests are taken concurrently has all from the
/// beginning.
struct work_queue : post_ring {
    /// Returns null when out of memory. With `concurrent` its requests can be taken by several
    /// threads at once, after use().
    static work_queue *create(endpoint *owner, DAT_COUNT limit, bool concurrent = false);
    /// Makes the queue of an endpoint that takes its receives from a shared queue: it represents
    /// the endpoint in completions.
    static work_queue *create_drawing(endpoint *owner, shared_work_queue &from);

    void hold() { references_.fetch_add(1, std::memory_order_relaxed); }
    void release();

    DAT_COUNT limit() const { return limit_; }
    bool is_concurrent() const { return posts_.load(std::memory_order_acquire) != nullptr; }
    /// The request that is posted next.
    const wr *upcoming() const
    {
        if constexpr (claims.threadsafe_post)
            while (const concurrent_posts *posts = posts_.load(std::memory_order_acquire)) {
                const auto place = static_cast<DAT_COUNT>(posts->next_place());
                if (is_concurrent()) // leaves() may have been called: then the place may belong to
                                     // the next queue
                    return &places_.load(std::memory_order_relaxed)
                                ->slots[static_cast<std::size_t>(place & (length_ - 1))];
            }
        return next.load(std::memory_order_acquire);
    }
    /// Takes requests through `posts` from now on, beginning with the next place, or with place 0.
    /// Nothing is outstanding, and posting threads are kept out meanwhile.
    void use(concurrent_posts &posts, bool from_zero);
    /// Nothing is posted any more.
    void leave_posts();
    /// A consistent view of the outstanding requests.
    struct view {
        const wr *last; ///< the request that was retired last
        std::uint64_t outstanding;
    };
    view snapshot() const
    {
        for (;;) {
            const ring_places &now = *places_.load(std::memory_order_acquire);
            const wr *last = retired.load(std::memory_order_acquire);
            const wr *first_free = upcoming();
            if (!now.has(last) || !now.has(first_free))
                continue; // the ring has grown since
            const std::uint64_t count = now.distance(*last, *first_free);
            if (retired.load(std::memory_order_relaxed) == last)
                return {last, count};
        }
    }
    /// How many are outstanding: posted and not retired.
    std::uint64_t outstanding() const { return length_ == 0 ? 0 : snapshot().outstanding; }
    /// Whether a request is outstanding that the calling thread has seen posted.
    bool is_outstanding(const work_request &request) const
    {
        const view seen = snapshot();
        const ring_places &now = *places_.load(std::memory_order_acquire);
        return now.distance(*seen.last, request) < seen.outstanding;
    }
    /// Places there are now, one of which is unused; 0 where it draws from a shared queue.
    DAT_COUNT places() const
    {
        const ring_places *now = places_.load(std::memory_order_acquire);
        return now == nullptr ? 0 : static_cast<DAT_COUNT>(now->count());
    }
    bool idle() const { return outstanding() == 0; }

    /// The slow path of take(), by a thread that has entered, or while others are kept out. Null
    /// when there is no room.
    wr *take_slowly();
    /// The request that was taken last, while others are kept out, was not posted after all.
    void put_back()
    {
        if (is_concurrent())
            return posts_.load(std::memory_order_relaxed)->put_back();
        const wr *taken = next.load(std::memory_order_relaxed);
        next.store(static_cast<wr *>(taken->before), std::memory_order_relaxed);
        if ((looks_slowly & selective) != 0)
            forget_room(*this);
    }

    /// Says of the request that was taken last whether its success notifies.
    void set_unsignalled(work_request &request, bool unsignalled)
    {
        request.unsignalled = unsignalled;
        if (is_concurrent())
            return; // the fast path says so of each
        if (unsignalled)
            looks_slowly |= selective;
        if ((looks_slowly & selective) != 0)
            forget_room(*this);
    }

    /// Gives back this request and those before it, whose success was suppressed.
    void retire(work_request &done)
    {
        retired.store(static_cast<wr *>(&done), std::memory_order_release);
    }

    /// Allocates a place for the binding of each request. False when out of memory. Called by the
    /// posting thread.
    bool make_room_for_bindings();
    /// Notes what a bind request binds, before it is posted.
    void note_binding(const wr &request, binding *posted)
    {
        bindings[request.ring_place].store(posted);
    }
    /// What a posted bind request binds.
    binding *binding_at(const work_request &request) { return bindings[request.ring_place].load(); }
    /// Takes the binding out: the request completes, or its post failed.
    binding *take_binding(const work_request &request)
    {
        return bindings[request.ring_place].exchange(nullptr);
    }
    /// Whether a bind has completed; its success may have been suppressed.
    bool has_finished(const wr &request, const binding *posted)
    {
        return !is_outstanding(request) || binding_at(request) != posted;
    }

    /// Completions may still refer to it, so that it must not be deleted yet.
    bool is_named() const { return draws_from != nullptr || !idle(); }

    std::atomic<endpoint *> owner;
    /// The completion flags of the endpoint for this queue.
    std::atomic<DAT_COMPLETION_FLAGS> completion_flags{DAT_COMPLETION_DEFAULT_FLAG};
    const bool shared;                       ///< a shared_work_queue
    shared_work_queue *draws_from = nullptr; ///< has no requests of its own
    osd::mutex owner_lock;                   ///< held while the owner is used from below
    post_times times;
    work_queue *next_orphan = nullptr;

protected:
    explicit work_queue(endpoint *ep, bool is_shared = false) : owner(ep), shared(is_shared) {}
    ~work_queue();

private:
    bool grow_by(std::size_t count);
    void forget_binding(const wr &request);

    std::atomic<int> references_{1};
    std::atomic<ring_places *> places_{nullptr};
    DAT_COUNT length_ = 0; ///< places at most; a power of two if requests are taken concurrently
    DAT_COUNT limit_ = 0;
    std::atomic<concurrent_posts *> posts_{nullptr};
};

/// The receives of an SRQ. They are consumed in any order, by any endpoint, and released by the
/// thread that polls; one thread at a time posts. It lives as long as the SRQ and as completions of
/// its receives may still be polled.
class shared_work_queue : public work_queue {
    struct slot : transport::wr {
        slot *next = nullptr;
    };
    struct chunk {
        std::unique_ptr<slot[]> slots;
        chunk *next;
    };

public:
    /// Returns null when out of memory.
    static shared_work_queue *create(DAT_COUNT limit)
    {
        auto *queue = new (std::nothrow) shared_work_queue;
        if (queue == nullptr || queue->reserve(limit)) {
            if (queue != nullptr)
                queue->set_limit(limit);
            return queue;
        }
        queue->release();
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
    /// Gives a receive back. Any thread.
    void give_back(work_request &done)
    {
        put(static_cast<slot &>(static_cast<transport::wr &>(done)));
        outstanding_.fetch_sub(1, std::memory_order_relaxed);
    }

private:
    friend work_queue; // deletes it
    shared_work_queue() : work_queue(nullptr, true) {}
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
    slot *free_ = nullptr; ///< belongs to the thread that posts
    DAT_COUNT reserved_ = 0;
    std::atomic<DAT_COUNT> most_{0};
    alignas(64) std::atomic<slot *> returned_{nullptr};
    std::atomic<DAT_COUNT> outstanding_{0};
};

inline work_queue *work_queue::create_drawing(endpoint *owner, shared_work_queue &from)
{
    auto *queue = new (std::nothrow) work_queue(owner);
    if (queue == nullptr)
        return nullptr;
    queue->draws_from = &from;
    from.hold();
    return queue;
}

/// A post, and the queue that does not take it.
struct refused_post {
    const char *kind;   ///< "EP" or "SRQ"
    const void *object; ///< its handle
    const char *state;  ///< state of the endpoint; null for an SRQ, which has none
    opcode operation;
    std::uint64_t outstanding;
    DAT_COUNT limit; ///< 0 if there is no queue
    bool by_port;
};

/// Logs the refusal and passes its reason on. A program may try again and again, so there are so
/// many lines in a second.
status refuse(const refused_post &post, status why) OSD_COLD;

} // namespace dapl::DAPL_TRANSPORT::core
