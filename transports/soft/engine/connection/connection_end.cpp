// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "connection_end.hpp"

#include "osd_time.hpp"

#include <algorithm>

namespace soft_hca {

void end_record::established(const net_address &peer, std::uint32_t id, std::uint32_t peer_id,
                             const pair_counts &so_far)
{
    *this = {};
    told_.peer = peer;
    told_.id = id;
    told_.peer_id = peer_id;
    told_.counts = so_far;
    began_ns_ = osd::now_ns();
}

void end_record::timed_out(std::uint32_t psn, std::int64_t now)
{
    if (unanswered_since_ns_ == 0 || unanswered_psn_ != psn) {
        unanswered_since_ns_ = now;
        unanswered_psn_ = psn;
        told_.retransmissions = 0;
    }
}

void end_record::note(end_cause cause, fault found, work_status status)
{
    if (told_.cause != end_cause::none)
        return;
    told_.cause = cause;
    told_.found = found;
    told_.status = status;
}

void end_record::ended(std::int64_t heard_ns, const pair_counts &so_far)
{
    const std::int64_t now = osd::now_ns();
    const pair_counts before = told_.counts;
    told_.counts = so_far;
    told_.counts -= before;
    told_.lived_ns = now - began_ns_;
    told_.silent_ns = std::min(now - heard_ns, told_.lived_ns);
    if (told_.cause != end_cause::no_acknowledgement)
        return;
    told_.unanswered_ns = now - unanswered_since_ns_;
}

} // namespace soft_hca
