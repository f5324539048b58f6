// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How many packets may be on the way, and how fast they are sent: slow start and congestion
// avoidance as in RFC 9002, in packets, with the factors of CUBIC where it is as fast as Reno (RFC
// 9438).
//
// Losses of one round trip count once. A timeout by itself is no sign of congestion, since the host
// may have been busy; a second one in a row is.
#pragma once

#include "rtt.hpp"
#include "wire/serial.hpp"

#include <algorithm>
#include <cstdint>

namespace soft_hca {

class congestion_control {
public:
    static constexpr std::uint32_t first_window = 32; ///< two acknowledgements
    static constexpr std::uint32_t least_window = 2;

    congestion_control() = default;
    /// `largest` is what the window grows to.
    congestion_control(std::uint32_t largest, std::uint32_t first_psn)
        : largest_(largest), threshold_(largest), recovered_(first_psn)
    {}

    std::uint32_t window() const { return window_; }
    /// For one more packet, when `on_the_way` are.
    bool has_room(std::uint32_t on_the_way) const { return on_the_way < window_; }
    /// `on_the_way` packets were, when an acknowledgement said that some have arrived. `queues`:
    /// they wait somewhere, so that slow start had better approach the limit in smaller steps (RFC
    /// 9406).
    void arrived(std::uint32_t packets, std::uint32_t on_the_way, bool queues)
    {
        if (window_ >= largest_ || 2 * on_the_way < window_)
            return; // the window was not what held the sender back
        if (in_slow_start()) {
            const std::uint32_t step = queues ? std::max(packets / 4, 1u) : packets;
            window_ = std::min(window_ + step, largest_);
            return;
        }
        progress_ += packets;
        if (progress_ >= 2 * window_) {
            progress_ = 0;
            ++window_;
        }
    }
    /// Reacts to a lost packet; `next` is the number of the next packet that is sent. The present
    /// round trip ends with the acknowledgement of the packets that are on the way now.
    void lost(std::uint32_t psn, std::uint32_t next)
    {
        if (before(psn, recovered_))
            return;
        recovered_ = next;
        shrink_to(window_ * 7 / 10);
    }
    /// Slow start leads back to half of what the window was before the first of these timeouts (RFC
    /// 5681, 3.1), however long the path was dead.
    void timed_out_again(std::uint32_t next)
    {
        recovered_ = next;
        if (window_ > least_window)
            threshold_ = std::max(window_ / 2, least_window);
        window_ = least_window;
        progress_ = 0;
    }

    bool in_slow_start() const { return window_ < threshold_; }

private:
    void shrink_to(std::uint32_t packets)
    {
        window_ = threshold_ = std::max(packets, least_window);
        progress_ = 0;
    }

    std::uint32_t largest_ = first_window;
    std::uint32_t window_ = first_window;
    std::uint32_t threshold_ = first_window;
    std::uint32_t progress_ = 0;  ///< packets that arrived since the window grew
    std::uint32_t recovered_ = 0; ///< losses before this one were counted
};

/// Spreads a window over a long round trip: a queue on the way may be shorter than the window.
class pacer {
public:
    bool holds(std::int64_t now) const { return next_ns_ > now; }
    std::int64_t next_ns() const { return next_ns_; }
    /// A packet is sent. Faster than a window in a round-trip time, so that the window can grow.
    void sent(std::int64_t now, const congestion_control &control, const rtt_estimator &rtt)
    {
        if (rtt.least_us() < long_us || rtt.srtt_us() == 0)
            return;
        const std::uint32_t quarters = control.in_slow_start() ? 8 : 5;
        const std::int64_t interval =
            std::int64_t{rtt.srtt_us()} * 4000 / (quarters * control.window());
        next_ns_ = std::max(next_ns_, now - burst_ns) + interval;
    }

private:
    /// Limit of the best round trip: a busy host is no long path.
    static constexpr std::uint32_t long_us = 2'000;
    static constexpr std::int64_t burst_ns = 1'000'000; ///< a timer's resolution
    std::int64_t next_ns_ = 0;
};

} // namespace soft_hca
