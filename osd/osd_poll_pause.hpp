// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// When a consumer that polls passes the processor on: while others that poll wait for it.
//
// Nobody tells how many threads of other processes poll, but how long a yield takes does:
//
//   returns at once     nobody else wants this processor: twice as many polls until the next yield
//   takes some time     others had it, and soon passed it on. When the next yield says so, too,
//                       they poll, and yields are frequent from now on; a thread that was woken for
//                       a moment is not there again
//   takes much time     others compute, or poll without a yield, until the system stops them. They
//                       get a small part of the time: when it is used up there is no yield until
//                       the next tick of a clock that all processes share, a slower one after
//                       longer slices. So pollers that took each other for threads that compute
//                       look again at one time
//
// The system does not say whose time it was. A thread of low priority, too, keeps the processor for
// a whole slice, since the consumer has yielded; many threads poll, sleep and compute by turns. So
// only the time counts, and a short yield between two long ones excuses neither.
//
// One thread at a time uses a poll_pause, but any thread may be in yield().
#pragma once

#include "osd_annotations.hpp"
#include "osd_thread.hpp"
#include "osd_time.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace osd {

class poll_pause {
public:
    static constexpr std::uint32_t fewest_polls = 16;
    static constexpr std::uint32_t most_polls = 1024;
    static constexpr std::int64_t most_slices = 3; ///< lost at once
    static constexpr std::int64_t part_lost = 16;  ///< of the time, to threads that compute
    static constexpr std::int64_t alone_ns = 2'000;
    static constexpr std::int64_t passed_on_ns = 200'000; ///< by some ten threads that poll
    static constexpr std::int64_t slice_ns = 2'000'000;
    static constexpr std::int64_t tick_ns = 128'000'000;

    /// Counts a poll that found nothing. True when a pause is due.
    OSD_ALWAYS_INLINE bool is_due() { return --polls_left_ == 0; }
    /// Begins to count anew. Whether to yield.
    bool begin(std::int64_t now)
    {
        polls_left_ = polls_;
        return now >= silent_until_ns_;
    }
    /// Returns when that was done; it takes no claim.
    static std::int64_t yield()
    {
        osd::yield();
        return now_ns();
    }
    /// Draws the conclusions from a yield.
    void learn(std::int64_t began, std::int64_t ended)
    {
        const std::int64_t took = ended - began;
        if (took < alone_ns)
            return stay_alone();
        polls_left_ = fewest_polls;
        const bool again = std::exchange(shared_, took < passed_on_ns);
        if (!shared_)
            lose_time(took, ended);
        else if (again)
            polls_ = fewest_polls;
    }

private:
    void stay_alone()
    {
        if (!std::exchange(shared_, false))
            polls_ = std::min(2 * polls_, most_polls);
        polls_left_ = polls_;
    }
    void lose_time(std::int64_t took, std::int64_t now)
    {
        made_good_ns_ = std::max(made_good_ns_, now) + part_lost * std::min(took, tick_ns);
        const std::int64_t left = made_good_ns_ - now;
        if (left <= part_lost * (most_slices - 1) * slice_ns)
            return;
        std::int64_t tick = tick_ns;
        while (tick < left)
            tick *= 2;
        silent_until_ns_ = (now / tick + 1) * tick;
        polls_left_ = polls_ = most_polls;
    }

    std::uint32_t polls_left_ = most_polls;
    std::uint32_t polls_ = most_polls; ///< from one pause to the next
    bool shared_ = false;              ///< the last yield took some time
    std::int64_t made_good_ns_ = 0;    ///< when what was lost is a small part of the time since
    std::int64_t silent_until_ns_ = INT64_MIN;
};

} // namespace osd
