// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// When a consumer that polls passes the processor on: while others that poll wait for it.
//
// Nobody tells how many threads of other processes poll, but how long a yield takes does:
//
//   returns at once     nobody else wants this processor: twice as many polls until the next yield
//   takes some time     others had it, and soon passed it on. When the next yield says so, too,
//                       they poll, and yields are frequent from now on; a thread that was woken for
//                       a moment is not there again
//   takes long          others compute, or poll without a yield. After some such yields there is
//                       none until the next tick of a clock that all processes share, a slower one
//                       after longer slices: so pollers that took each other for threads that
//                       compute look again at one time
//
// A thread of low priority computes for less than a millisecond before the kernel looks again.
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
    static constexpr std::int64_t most_slices = 3; ///< since others polled
    static constexpr std::int64_t part_lost = 16;  ///< of the time, to threads that compute
    static constexpr std::int64_t alone_ns = 2'000;
    static constexpr std::int64_t slice_ns = 400'000;
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
        const bool again = std::exchange(shared_, took < slice_ns);
        if (!shared_)
            return lose_slice(took, ended);
        if (!again)
            return;
        slices_ = lost_ns_ = 0;
        polls_ = fewest_polls;
    }

private:
    void stay_alone()
    {
        if (!std::exchange(shared_, false))
            polls_ = std::min(2 * polls_, most_polls);
        polls_left_ = polls_;
    }
    void lose_slice(std::int64_t took, std::int64_t now)
    {
        lost_ns_ += std::min(took, tick_ns);
        if (++slices_ < most_slices)
            return;
        std::int64_t tick = tick_ns;
        while (tick < part_lost * lost_ns_)
            tick *= 2;
        slices_ = lost_ns_ = 0;
        silent_until_ns_ = (now / tick + 1) * tick;
        polls_left_ = polls_ = most_polls;
    }

    std::uint32_t polls_left_ = most_polls;
    std::uint32_t polls_ = most_polls; ///< from one pause to the next
    bool shared_ = false;              ///< the last yield took some time
    std::int64_t slices_ = 0;          ///< lost by yields since others polled
    std::int64_t lost_ns_ = 0;         ///< the time of these
    std::int64_t silent_until_ns_ = INT64_MIN;
};

} // namespace osd
