// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How a consumer sleeps in cq_wait or cno_wait: on descriptors, where it can be cancelled.
#pragma once

#include "osd_sync.hpp"

#include <cstdint>

namespace dapl::port_support {

/// Sleeps until `fd` is readable, or `wake` if that is not negative. `wake` is an eventfd and is
/// read; `readable` says whether `fd` was. `interrupted` when a signal handler ran. Where the
/// system refuses to sleep on them, it dozes.
osd::wait_result wait_readable(int fd, int wake, osd::deadline until, bool &readable);
osd::wait_result wait_readable(int fd, osd::deadline until);

/// Sleeps 1 ms, or until the deadline.
osd::wait_result doze(osd::deadline until);

/// Detects a descriptor that stays readable without a completion, as a socket does with a message
/// that finds no receive, or with an end of file behind one. After 64 such wake-ups in a row it is
/// not to be trusted: the wait then dozes.
class spurious_wakeups {
public:
    /// Call before each sleep.
    bool may_trust_descriptor();

private:
    static constexpr std::int64_t short_round_ns = 10'000;
    static constexpr unsigned enough = 64;
    std::int64_t last_ns_ = 0;
    unsigned in_a_row_ = 0;
};

} // namespace dapl::port_support
