// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How a consumer sleeps in cq_wait or cno_wait: on descriptors, where it can be cancelled.
#pragma once

#include "osd_sync.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace dapl::port_support {

/// Sleeps until `fd` is readable, or `wake` if that is not negative. `wake` is an eventfd and is
/// read; `readable` says whether `fd` was. `interrupted` when a signal handler that was installed
/// without SA_RESTART ran. Where the system refuses to sleep on them, it dozes.
osd::wait_result wait_readable(int fd, int wake, osd::deadline until, bool &readable);
osd::wait_result wait_readable(int fd, osd::deadline until);
/// Sleeps until one of two descriptors is readable; the second may be negative.
osd::wait_result wait_either_readable(int fd, int other, osd::deadline until);

/// Sleeps that long, or until the deadline.
osd::wait_result doze(std::uint32_t us, osd::deadline until);

/// Detects a descriptor that stays readable without a completion, as a socket does with a message
/// that finds no receive, or with an end of file behind one. After 64 such wake-ups in a row it is
/// not to be trusted, and the wait dozes; unless data have moved, which takes some time.
class spurious_wakeups {
public:
    /// Call before each sleep. Returns 0, or how many microseconds to doze instead. `moved_so_far`
    /// returns another number whenever data have moved.
    template <class Moved>
    std::uint32_t doze_us(Moved &&moved_so_far)
    {
        const bool quick = osd::now_ns() - woke_ns_ < short_ns;
        if (in_a_row_ >= enough && quick) {
            in_a_row_ = enough - few;
            return shortest_us;
        }
        if (in_a_row_ >= enough) {
            const std::int64_t began = osd::now_ns();
            const std::uint64_t moved = moved_so_far();
            if (std::exchange(moved_, moved) == moved)
                return doze_after_look(osd::now_ns() - began);
            in_a_row_ = 0;
        }
        slept_ns_ = osd::now_ns();
        return 0;
    }
    /// Call after each sleep on the descriptor.
    void woke()
    {
        woke_ns_ = osd::now_ns();
        in_a_row_ = woke_ns_ - slept_ns_ < short_ns ? in_a_row_ + 1 : 0;
    }

private:
    static constexpr std::int64_t short_ns = 10'000;
    static constexpr unsigned enough = 64;
    static constexpr unsigned few = 8; ///< short sleeps that suffice after a doze
    static constexpr std::uint32_t shortest_us = 1000;
    static constexpr std::uint32_t longest_us = 10'000;

    /// A look at many connections takes long: of the time, a tenth.
    static std::uint32_t doze_after_look(std::int64_t took_ns)
    {
        return static_cast<std::uint32_t>(
            std::clamp<std::int64_t>(took_ns / 100, shortest_us, longest_us));
    }

    std::int64_t slept_ns_ = 0; ///< time at which the last sleep began
    std::int64_t woke_ns_ = 0;  ///< time at which it ended
    unsigned in_a_row_ = 0;
    std::uint64_t moved_ = 0;
};

} // namespace dapl::port_support
