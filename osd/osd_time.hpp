// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Monotonic time and deadlines.
#pragma once

#include "native_clock.hpp"

#include <cstdint>
#include <ctime>

namespace osd {

/// Nanoseconds of the monotonic clock.
inline std::int64_t now_ns()
{
    return native::now_ns();
}

/// A point in monotonic time after which a wait gives up, or never.
class deadline {
public:
    static constexpr deadline never() { return deadline(INT64_MAX); }
    /// Already past: a wait with it is a poll.
    static constexpr deadline passed() { return deadline(INT64_MIN); }
    /// Times too long for the clock never come.
    static deadline after_us(std::uint64_t microseconds)
    {
        return microseconds > UINT64_MAX / 1000 ? never() : after_ns(microseconds * 1000);
    }
    static deadline after_ns(std::uint64_t nanoseconds)
    {
        const std::int64_t now = now_ns();
        const bool fits = nanoseconds < static_cast<std::uint64_t>(INT64_MAX - now);
        return fits ? deadline(now + static_cast<std::int64_t>(nanoseconds)) : never();
    }

    constexpr bool is_never() const { return at_ns_ == INT64_MAX; }
    bool has_passed() const { return at_ns_ != INT64_MAX && now_ns() >= at_ns_; }
    constexpr std::int64_t at_ns() const { return at_ns_; }
    friend constexpr bool operator<(deadline a, deadline b) { return a.at_ns_ < b.at_ns_; }

    /// The deadline on the clock of now_ns(), for system calls that take an absolute time.
    constexpr timespec as_timespec() const
    {
        const std::int64_t at = at_ns_ < 0 ? 0 : at_ns_;
        return {static_cast<std::time_t>(at / 1'000'000'000),
                static_cast<long>(at % 1'000'000'000)};
    }
    /// Time from now, for system calls that take a span: 0 when passed. There is none for never.
    timespec remaining() const
    {
        const std::int64_t left = at_ns_ < 0 ? 0 : at_ns_ - now_ns();
        return left <= 0 ? timespec{} : deadline(left).as_timespec();
    }
    /// Milliseconds from now, rounded up, for poll-like calls: -1 for never, 0 when passed.
    int remaining_ms() const
    {
        if (is_never())
            return -1;
        const std::int64_t left = at_ns_ < 0 ? 0 : at_ns_ - now_ns();
        if (left <= 0)
            return 0;
        const std::int64_t ms = (left + 999'999) / 1'000'000;
        return ms > INT32_MAX ? INT32_MAX : static_cast<int>(ms);
    }

private:
    explicit constexpr deadline(std::int64_t at_ns) : at_ns_(at_ns) {}
    std::int64_t at_ns_;
};

} // namespace osd
