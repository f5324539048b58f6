// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The events that are posted to an EVD: any number of threads post, one at a time takes. There is
// no lock, and a thread that posts waits for no other.
//
// event_word has the next place beside what the EVD counts, so that one operation reserves a place
// and counts the event:
//
//   bits 63 to 34   tail: the next place; places go up, modulo 2^30
//   bit 33          known: a waiter that has left has counted all events; a post clears it
//   bit 32          half: which of two storages the next place is in
//   bits 31 to 0    the owner's: +1 per post; how it counts otherwise is its own matter
//
//   post     reserves a place, copies the element there, and stores its turn
//   take     waits for the turn of the first place: a thread that has posted finds its element,
//            also behind a place whose thread has not filled it yet
//   resize   fills the other half and turns to it. In one operation with that, the tail goes up by
//            one place, so that a thread which looked before cannot reserve. Elements that are
//            there move up by one place with it.
//
// The orders of memory, in pairs:
//
//   word    compare-exchange of post  -  load in take: who sees the count finds the place reserved.
//           It is sequentially consistent, and so are the words of a waiter: a thread that posts
//           and then looks for a waiter finds the waiter, or is found by it.
//   word    compare-exchange of resize (release)  -  load of post (acquire): the end and the
//           storage of the other half.
//   word    compare-exchange of post (release)  -  load of post (acquire): who sees a tail sees an
//           end that is not before it.
//   turn    store of post (release)  -  load of take and resize (acquire): the element. Through it
//           whoever gives up a storage knows that no thread uses it.
//   end     store of take (release)  -  load of post (acquire): the element that was there is
//           copied before another overwrites it.
//   end     store of resize (release)  -  load of post (acquire): who finds a half full that is
//           being prepared finds the word changed, too, which has turned to the other half since.
//
// A marked element may be changed where it is. Its owner has a lock for that, which it holds while
// it changes or takes a marked element, and while it resizes.
#pragma once

#include "osd_annotations.hpp"
#include "osd_thread.hpp"

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace dapl::DAPL_TRANSPORT::core {

template <class Threads = osd::real_threads>
class event_word {
public:
    explicit event_word(std::uint32_t owners) : word_(owners) {}

    // --- the owner's bits, as of an atomic number

    std::uint32_t load() const { return static_cast<std::uint32_t>(word_.load()); }
    void fetch_add(std::uint32_t number) { word_.fetch_add(number); }
    void fetch_sub(std::uint32_t number) { word_.fetch_sub(number); }
    std::uint32_t fetch_or(std::uint32_t bits)
    {
        return static_cast<std::uint32_t>(word_.fetch_or(bits));
    }
    void fetch_and(std::uint32_t bits) { word_.fetch_and(~std::uint64_t{UINT32_MAX} | bits); }

    /// All elements that were posted before this are known.
    void set_all_known() { word_.fetch_or(known); }
    /// Whether all are. The load is ordered behind the caller's post.
    bool are_all_known() const { return (word_.load() & known) != 0; }

private:
    template <class, class>
    friend class posted_ring;

    static constexpr std::uint64_t half = std::uint64_t{1} << 32;
    static constexpr std::uint64_t known = std::uint64_t{1} << 33;
    static constexpr std::uint64_t one_place = std::uint64_t{1} << 34;
    static constexpr std::uint32_t places = (std::uint32_t{1} << 30) - 1; ///< the bits of a place

    static std::uint32_t half_in(std::uint64_t word) { return (word & half) != 0 ? 1 : 0; }
    static std::uint32_t tail_in(std::uint64_t word)
    {
        return static_cast<std::uint32_t>(word / one_place);
    }

    typename Threads::template atomic<std::uint64_t> word_;
};

template <class T, class Threads = osd::real_threads>
class posted_ring {
    template <class V>
    using atomic = typename Threads::template atomic<V>;
    using word = event_word<Threads>;

public:
    /// Room for a number of elements; none at first.
    class storage {
    public:
        /// Returns false when out of memory.
        [[nodiscard]] bool allocate(std::uint32_t length)
        {
            if (length > word::places / 2)
                return false;
            const std::uint32_t cells = std::bit_ceil(length);
            elements_.reset(new (std::nothrow) T[cells]);
            turns_.reset(new (std::nothrow) atomic<std::uint32_t>[cells] {});
            mask_ = cells - 1;
            length_ = length;
            return elements_ != nullptr && turns_ != nullptr;
        }

    private:
        friend class posted_ring;
        T &at(std::uint32_t place) const { return elements_[place & mask_]; }
        atomic<std::uint32_t> &turn(std::uint32_t place) const { return turns_[place & mask_]; }
        /// Its thread has reserved the place, and fills it. Returns whether the element is marked.
        bool wait_until_filled(std::uint32_t place) const
        {
            std::uint32_t turn = 0;
            Threads::wait_while([&] {
                turn = this->turn(place).load(std::memory_order_acquire);
                return (turn | marked) != filled(place, true);
            });
            return (turn & marked) != 0;
        }

        std::unique_ptr<T[]> elements_;
        std::unique_ptr<atomic<std::uint32_t>[]> turns_; ///< apart, so that memory for elements is
                                                         ///< not touched before it is used
        std::uint32_t mask_ = 0;
        std::uint32_t length_ = 0;
    };

    explicit posted_ring(word &counted) : word_(counted) {}

    // --- any thread

    /// Adds an element, and 1 to the word. False when there is no room.
    bool post(const T &element, bool with_mark = false)
    {
        std::uint64_t seen = word_.word_.load(std::memory_order_acquire);
        do {
            while (ends_[word::half_in(seen)].load(std::memory_order_acquire) ==
                   word::tail_in(seen))
                [[unlikely]]
                {
                    const std::uint64_t before = seen;
                    seen = word_.word_.load(std::memory_order_acquire);
                    if (word::tail_in(seen) == word::tail_in(before))
                        return false; // no resize has changed the end since
                }
        } while (
            !word_.word_.compare_exchange_weak(seen, (seen + word::one_place + 1) & ~word::known));
        const std::uint32_t place = word::tail_in(seen);
        const storage &to = halves_[word::half_in(seen)];
        to.at(place) = element;
        to.turn(place).store(filled(place, with_mark), std::memory_order_release);
        return true;
    }

    /// Passes the marked elements to `change`, the latest first, until it returns true. False when
    /// it never did. With the owner's lock.
    template <class Change>
    bool change_marked(Change &&change)
    {
        const std::uint64_t seen = word_.word_.load(std::memory_order_acquire);
        const storage &in = halves_[word::half_in(seen)];
        const std::uint32_t head = head_.load(std::memory_order_relaxed);
        for (std::uint32_t place = word::tail_in(seen); place != head;) {
            place = (place - 1) & word::places;
            // One that was taken since, or is not filled yet, has another turn.
            if (in.turn(place).load(std::memory_order_acquire) == filled(place, true) &&
                change(in.at(place)))
                return true;
        }
        return false;
    }

    // --- one thread at a time; there is an element, which was counted

    /// Returns whether the first is marked.
    bool is_front_marked() const
    {
        return halves_[now_].wait_until_filled(head_.load(std::memory_order_relaxed));
    }
    const T &front() const
    {
        const std::uint32_t head = head_.load(std::memory_order_relaxed);
        (void)halves_[now_].wait_until_filled(head);
        return halves_[now_].at(head);
    }
    /// Makes room for another. The word counts it until its owner subtracts 1.
    void drop_front() { set_head(head_.load(std::memory_order_relaxed) + 1); }

    // --- one thread at a time

    /// Goes on with the other storage, to which the elements move. `other` gets the former. False,
    /// and nothing changed, where more is there than fits. With the owner's lock.
    bool exchange_storage(storage &other)
    {
        const std::uint32_t next = now_ ^ 1;
        const std::uint32_t head = head_.load(std::memory_order_relaxed);
        std::swap(halves_[next], other);
        ends_[next].store((head + 1 + halves_[next].length_) & word::places,
                          std::memory_order_release);
        std::uint64_t seen = word_.word_.load(std::memory_order_acquire);
        do {
            if (((word::tail_in(seen) - head) & word::places) > halves_[next].length_) {
                std::swap(halves_[next], other);
                return false;
            }
        } while (!word_.word_.compare_exchange_weak(seen, (seen + word::one_place) ^ word::half));
        const storage &from = halves_[now_];
        const storage &to = halves_[next];
        for (std::uint32_t place = head; place != word::tail_in(seen);) {
            const bool with_mark = from.wait_until_filled(place);
            const T &element = from.at(place);
            place = (place + 1) & word::places;
            to.at(place) = element;
            to.turn(place).store(filled(place, with_mark), std::memory_order_relaxed);
        }
        std::swap(halves_[now_], other);
        now_ = next;
        head_.store((head + 1) & word::places, std::memory_order_relaxed);
        return true;
    }

private:
    static constexpr std::uint32_t marked = 1;
    /// The turn of a place that is filled; that of one which never was is 0.
    static constexpr std::uint32_t filled(std::uint32_t place, bool with_mark)
    {
        return place << 2 | 2 | (with_mark ? marked : 0);
    }
    void set_head(std::uint32_t head)
    {
        head_.store(head & word::places, std::memory_order_relaxed);
        ends_[now_].store((head + halves_[now_].length_) & word::places, std::memory_order_release);
    }

    word &word_;
    atomic<std::uint32_t> ends_[2] = {}; ///< of each half: the first place without room
    storage halves_[2];
    std::uint32_t now_ = 0;         ///< the half that is taken from
    atomic<std::uint32_t> head_{0}; ///< the first place that is not taken
};

} // namespace dapl::DAPL_TRANSPORT::core
