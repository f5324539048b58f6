// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "outstanding_reads.hpp"

#include <algorithm>

namespace soft_hca {

request *outstanding_reads::oldest(const posted_ring &ring)
{
    if (count_ == 0)
        return nullptr;
    if (before(oldest_, ring.head()))
        oldest_ = ring.head();
    while (!has_response(ring.at(oldest_)) || ring.at(oldest_).done)
        ++oldest_;
    return &ring.at(oldest_);
}

bool outstanding_reads::overdue(const request *oldest, std::uint64_t not_ready,
                                std::uint64_t patience_us, std::int64_t now)
{
    // A longer step means that this process was stopped.
    constexpr std::int64_t longest_step = 500'000'000;
    const std::int64_t passed = std::min(now - seen_ns_, longest_step);
    seen_ns_ = now;
    const progress at =
        oldest == nullptr ? progress{} : progress{oldest->read_id, oldest->moved, not_ready};
    stalled_ns_ = oldest != nullptr && at == seen_ ? stalled_ns_ + passed : 0;
    seen_ = at;
    return stalled_ns_ / 1000 > static_cast<std::int64_t>(patience_us);
}

} // namespace soft_hca
