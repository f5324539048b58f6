// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How many lines of a kind are logged. A line that a peer can cause has a limit, since it could
// fill a disk otherwise.
#pragma once

#include "dapl_debug.hpp"

#include "osd_sync.hpp"
#include "osd_time.hpp"

#include <cstdint>
#include <cstdio>

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

/// What is added to a line before which others were left out; it is empty where none were.
struct left_out_text {
    explicit left_out_text(std::uint32_t lines)
    {
        if (lines != 0)
            std::snprintf(bytes, sizeof bytes, "; %u such lines were left out", lines);
    }
    char bytes[48] = "";
};

} // namespace dapl::DAPL_TRANSPORT

/// dapl_log_some(limit, DAPL_DBG_TYPE_CM, "format", …): logs as dapl_log() does, within the limit.
#define dapl_log_some(limit, type, format, ...)                                                    \
    do {                                                                                           \
        std::uint32_t dapl_left_out = 0;                                                           \
        if (::dapl::DAPL_TRANSPORT::shows(::dapl::DAPL_TRANSPORT::type) &&                         \
            (limit).allows(::osd::now_ns(), dapl_left_out)) [[unlikely]]                           \
            ::dapl::DAPL_TRANSPORT::debug_line(                                                    \
                format "%s", __VA_ARGS__,                                                          \
                ::dapl::DAPL_TRANSPORT::left_out_text(dapl_left_out).bytes);                       \
    } while (false)
