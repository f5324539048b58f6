// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The pauses between polls that find nothing.
#pragma once

#include "osd_time.hpp"

#include <cstdint>

namespace am {

class ending;

/// Returns microseconds of a clock that never goes back.
inline std::int64_t now_us()
{
    return osd::now_ns() / 1000;
}

/// Pauses longer and longer while polls find nothing, and stands still once the job ends.
class idle_wait {
public:
    /// `crowded`: the awaited rank needs the processor on which this thread runs.
    idle_wait(const ending &end, bool crowded) : end_(end), crowded_(crowded) {}

    void pause(bool worked);

private:
    const ending &end_;
    const bool crowded_;
    unsigned empty_ = 0;
};

} // namespace am
