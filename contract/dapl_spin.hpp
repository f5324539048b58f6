// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Polling for a moment before a thread sleeps, with back-off.
#pragma once

#include "osd_annotations.hpp"
#include "osd_time.hpp"

#include <cstdint>

namespace dapl::DAPL_TRANSPORT {

/// Waking a sleeping thread takes a system call and some microseconds. So a wait polls first, as
/// long as that pays: after an unsuccessful poll the next waits sleep at once, first 1 wait, then
/// 3, 7 and so on up to 63. The clock is read once per 16 polls, since that may be a system call.
/// One thread at a time uses it.
class spinner {
public:
    /// Calls `found` until it returns true, which is the result, for `us` microseconds and not
    /// longer than `until`.
    template <class Found>
    bool find(std::uint32_t us, osd::deadline until, Found found) OSD_UNCHECKED // may need a lock
    {
        if (skip_ != 0) {
            --skip_;
            return false;
        }
        if (found()) { // saves a reading of the clock
            failed_ = 0;
            return true;
        }
        const osd::deadline patience = osd::deadline::after_us(us);
        const bool hurried = until < patience;
        const osd::deadline end = hurried ? until : patience;
        while (!end.has_passed())
            for (int look = 0; look < looks_per_clock; ++look)
                if (found()) {
                    failed_ = 0;
                    return true;
                }
        if (!hurried) {
            failed_ = failed_ < most_failed ? failed_ + 1 : most_failed;
            skip_ = (1U << failed_) - 1;
        }
        return false;
    }

private:
    static constexpr int looks_per_clock = 16;
    static constexpr std::uint32_t most_failed = 6;
    std::uint32_t failed_ = 0; ///< times in a row
    std::uint32_t skip_ = 0;   ///< waits that do not poll
};

} // namespace dapl::DAPL_TRANSPORT
