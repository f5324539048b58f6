// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How many lines of a kind are logged.
#pragma once

#include "osd_sync.hpp"

#include <cstdint>

namespace dapl::DAPL_TRANSPORT {

/// Limits lines to a number per interval; the next line after that tells how many were left out.
class line_limit {
public:
    line_limit() = default;
    line_limit(std::uint32_t most, std::int64_t interval_ns)
        : most_(most), interval_ns_(interval_ns)
    {}

    /// Returns false where the line is to be left out. `left_out` were, before this one.
    bool allows(std::int64_t now, std::uint32_t &left_out) OSD_EXCLUDES(lock_)
    {
        osd::lock_guard hold(lock_);
        if (now - began_ns_ >= interval_ns_) {
            began_ns_ = now;
            logged_ = 0;
        }
        if (logged_ == most_) {
            ++left_out_;
            return false;
        }
        ++logged_;
        left_out = left_out_;
        left_out_ = 0;
        return true;
    }

private:
    const std::uint32_t most_ = 10;
    const std::int64_t interval_ns_ = 1'000'000'000;
    osd::mutex lock_;
    std::int64_t began_ns_ OSD_GUARDED_BY(lock_) = INT64_MIN / 2;
    std::uint32_t logged_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t left_out_ OSD_GUARDED_BY(lock_) = 0;
};

} // namespace dapl::DAPL_TRANSPORT
