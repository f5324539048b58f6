// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Looking for something for a moment before going to sleep for it.
#pragma once

#include "osd_time.hpp"

#include <cstdint>

namespace dapl::DAPL_TRANSPORT {

/// A thread that sleeps costs whoever wakes it a system call, and is back later than one that looks
/// all the time. So a wait looks first, as long as that pays: after looking in vain the next waits
/// sleep at once, one of them, then 3, 7 and so on up to 63. The clock is read now and then only:
/// where the kernel has to be asked for it, that takes longer than a look. For one thread at a
/// time.
class spinner {
public:
    /// True when `found` said so. Looks for `us` microseconds at most, not longer than `until`.
    template <class Found>
    bool find(std::uint32_t us, osd::deadline until, Found found)
    {
        if (skip_ != 0) {
            --skip_;
            return false;
        }
        if (found()) { // before the clock is read
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
    std::uint32_t skip_ = 0;   ///< waits that do not look
};

} // namespace dapl::DAPL_TRANSPORT
