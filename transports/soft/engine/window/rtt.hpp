// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Round-trip time and retransmission timeout (RFC 6298, in microseconds).
#pragma once

#include <algorithm>
#include <cstdint>

namespace soft_hca {

class rtt_estimator {
public:
    static constexpr std::uint32_t first_rto_us = 20'000;
    static constexpr std::uint32_t min_rto_us = 5'000;
    static constexpr std::uint32_t max_rto_us = 500'000;
    /// Granularity of the timers that use the estimate.
    static constexpr std::uint32_t granularity_us = 1'000;

    void sample(std::uint32_t rtt_us)
    {
        if (arrived_)
            backoff_ = 0;
        if (srtt_us_ == 0) {
            srtt_us_ = std::max(rtt_us, 1u);
            rttvar_us_ = rtt_us / 2;
        } else {
            const std::uint32_t off = rtt_us > srtt_us_ ? rtt_us - srtt_us_ : srtt_us_ - rtt_us;
            rttvar_us_ = (3 * rttvar_us_ + off) / 4;
            srtt_us_ = std::max((7 * srtt_us_ + rtt_us) / 8, 1u);
        }
        least_us_ = std::min(least_us_, rtt_us);
    }
    /// A packet has timed out. The back-off lasts until that packet is acknowledged, and a later
    /// one was timed (Karn): the old estimate has just been too short.
    void back_off()
    {
        backoff_ = std::min(backoff_ + 1, most_backoff);
        arrived_ = false;
    }
    /// The oldest packet was acknowledged.
    void progress() { arrived_ = true; }
    /// The peer answers, though it does not take the packet yet.
    void end_back_off() { backoff_ = 0; }

    std::uint32_t rto_us() const { return backed_off(backoff_); }
    /// When the loss of the latest packets is probed for, which nothing overtakes (RFC 8985, 7.2).
    /// Unlike the timeout it does not grow with the variance. `ack_delay_us`: how long the peer
    /// may wait with its acknowledgement.
    std::uint32_t probe_us(std::uint32_t ack_delay_us) const
    {
        const std::uint32_t rto = rto_us();
        return srtt_us_ == 0 ? rto : std::min(rto, 2 * srtt_us_ + ack_delay_us + granularity_us);
    }
    /// The time until a packet has timed out once more than the number of retries.
    std::uint64_t patience_us(std::uint32_t retries) const
    {
        std::uint64_t sum = 0;
        for (std::uint32_t i = 0; i <= retries; ++i)
            sum += backed_off(std::min(i, most_backoff));
        return sum;
    }
    /// Packets take clearly longer than they did at best: they wait somewhere.
    bool queues() const
    {
        return srtt_us_ != 0 && srtt_us_ > least_us_ + std::max(least_us_ / 4, least_queue_us);
    }
    std::uint32_t srtt_us() const { return srtt_us_; }
    std::uint32_t least_us() const { return least_us_; }

private:
    static constexpr std::uint32_t most_backoff = 16;
    static constexpr std::uint32_t least_queue_us = 4'000; ///< less may be delayed acknowledgements

    std::uint32_t backed_off(std::uint32_t times) const
    {
        const std::uint32_t base =
            srtt_us_ == 0 ? first_rto_us : srtt_us_ + std::max(granularity_us, 4 * rttvar_us_);
        const std::uint64_t backed = std::uint64_t{std::max(base, min_rto_us)} << times;
        return static_cast<std::uint32_t>(std::min<std::uint64_t>(backed, max_rto_us));
    }

    std::uint32_t srtt_us_ = 0; ///< 0: no sample yet
    std::uint32_t rttvar_us_ = 0;
    std::uint32_t least_us_ = UINT32_MAX;
    std::uint32_t backoff_ = 0;
    bool arrived_ = true; ///< since the last timeout
};

} // namespace soft_hca
