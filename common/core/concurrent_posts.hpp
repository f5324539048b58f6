// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// [threadsafe_post] Posting to one work queue by several threads at once, without a lock.
//
// One atomic word has how many threads are inside, the number of the next place, and why posts may
// not take the fast path. One operation enters and takes the place. Modulo the length of the ring,
// a power of two, it is the place in the ring. The port executes work requests in the order of
// their places, so that a completion still retires what was posted before it.
//
//   enter          the fast path: enters and takes a place for which room is known
//   enter_finding_room
//                  enters, and takes a place if there is room now
//   try_enter, take
//                  the two halves of the slow path, which looks at no reason but `closed`
//   close, reopen  keep all posting threads out while the queue is replaced
//
// Places only go up, also where the queue is replaced: a thread that read the word before that and
// still finds it unchanged takes the first place of the new queue, where there is room.
//
// It lies beside the endpoint and is never destroyed before the adapter is: a thread may still
// enter and leave when the endpoint has been freed. What it refers to is read inside only.
#pragma once

#include "osd_thread.hpp"
#include "transport.hpp"

#include <atomic>
#include <cstdint>

namespace dapl::DAPL_TRANSPORT::core {

class concurrent_posts {
public:
    using wr = transport::wr;

    /// Why posts take the slow path.
    enum reason : std::uint64_t {
        closed = std::uint64_t{1} << 63,       ///< they wait until it is open again
        unready = std::uint64_t{1} << 62,      ///< there is no queue, or no connection
        binding_there = std::uint64_t{1} << 61 ///< a place may have a binding to be cleared
    };

    /// Returns false where no room is known. The thread leaves after the port's post has returned.
    OSD_ALWAYS_INLINE bool enter(wr *&request)
    {
        std::uint64_t seen = word_.load(std::memory_order_acquire);
        do {
            if (seen >= known_end_.load(std::memory_order_acquire)) [[unlikely]]
                return false; // no room is known, or a reason is set, which is above every place
        } while (!word_.compare_exchange_weak(seen, seen + one_place + one_inside,
                                              std::memory_order_acquire));
        request = fresh(seen);
        return true;
    }
    /// Takes a place if there is room. False when the post has to take the slow path. With
    /// `remember` later posts can enter() as far as there is room now.
    template <bool remember>
    OSD_ALWAYS_INLINE bool enter_finding_room(wr *&request)
    {
        const std::uint64_t seen = word_.fetch_add(one_inside, std::memory_order_acquire);
        if ((seen & reasons) != 0) [[unlikely]] {
            leave();
            return false;
        }
        request = take_next<remember>(seen + one_inside);
        if (request == nullptr) [[unlikely]] {
            leave();
            return false;
        }
        return true;
    }
    void leave() { word_.fetch_sub(one_inside, std::memory_order_release); }

    /// Returns false while it is closed.
    bool try_enter()
    {
        if ((word_.fetch_add(one_inside, std::memory_order_acquire) & closed) == 0)
            return true;
        leave();
        return false;
    }
    /// The next place, for a thread that has entered, or while others are kept out. Null when the
    /// queue is full.
    wr *take() { return take_next<true>(word_.load(std::memory_order_relaxed)); }
    /// The request that was taken last was not posted; all other threads are kept out.
    void put_back() { word_.fetch_sub(one_place, std::memory_order_relaxed); }

    void set(reason why) { word_.fetch_or(why); }
    void clear(reason why) { word_.fetch_and(~std::uint64_t{why}, std::memory_order_release); }
    void set_ready(bool ready) { ready ? clear(unready) : set(unready); }
    /// Keeps posting threads out, and returns when all have left. One thread at a time.
    void close()
    {
        set(closed);
        osd::wait_while(
            [this] { return (word_.load(std::memory_order_acquire) & inside_mask) != 0; });
    }
    void reopen() { clear(closed); }

    /// Requests are taken from these places, a power of two, from the next one on; at most `limit`
    /// are outstanding behind `retired`. Nothing is outstanding, and it is closed.
    void use(wr *slots, std::uint64_t length, DAT_COUNT limit, const std::atomic<wr *> &retired)
    {
        slots_ = slots;
        mask_ = static_cast<std::uint32_t>(length - 1);
        limit_ = static_cast<std::uint32_t>(limit);
        retired_ = &retired;
        known_end_.store(0, std::memory_order_relaxed);
        clear(binding_there);
    }
    /// The next place is 0, modulo that length. While it is closed.
    void begin_at_zero(std::uint64_t length)
    {
        word_.fetch_add((length - (next_place() & (length - 1))) * one_place);
    }
    /// The number of the next place, modulo 2^32.
    std::uint32_t next_place() const { return place_in(word_.load(std::memory_order_acquire)); }

private:
    static constexpr int inside_bits = 14; ///< lets the number of the place wrap after 160 days at
                                           ///< 10^7 posts per second
    static constexpr std::uint64_t one_inside = 1;
    static constexpr std::uint64_t one_place = std::uint64_t{1} << inside_bits;
    static constexpr std::uint64_t inside_mask = one_place - 1;
    static constexpr std::uint64_t reasons = closed | unready | binding_there;

    static std::uint32_t place_in(std::uint64_t word)
    {
        return static_cast<std::uint32_t>(word >> inside_bits);
    }
    OSD_ALWAYS_INLINE wr *fresh(std::uint64_t word) const
    {
        wr *request = &slots_[place_in(word) & mask_];
        request->unsignalled = false;
        return request;
    }
    template <bool remember>
    OSD_ALWAYS_INLINE wr *take_next(std::uint64_t seen)
    {
        for (;;) {
            const std::uint32_t place = place_in(seen);
            // Too many when others have posted and completed since that was the next place.
            const std::uint32_t outstanding =
                (place - 1 - retired_->load(std::memory_order_acquire)->ring_place) & mask_;
            if (outstanding < limit_) {
                if (!word_.compare_exchange_weak(seen, seen + one_place, std::memory_order_acquire))
                    [[unlikely]]
                    continue;
                if constexpr (remember)
                    known_end_.store((seen & ~(inside_mask | reasons)) +
                                         (limit_ - outstanding) * one_place,
                                     std::memory_order_release);
                return fresh(seen);
            }
            seen = word_.load(std::memory_order_acquire);
            if (place_in(seen) == place)
                return nullptr;
        }
    }

    std::atomic<std::uint64_t> word_{unready};
    std::atomic<std::uint64_t> known_end_{0}; ///< the first place for which no room is known
    wr *slots_ = nullptr;
    const std::atomic<wr *> *retired_ = nullptr;
    std::uint32_t mask_ = 0;
    std::uint32_t limit_ = 0;
};

} // namespace dapl::DAPL_TRANSPORT::core
