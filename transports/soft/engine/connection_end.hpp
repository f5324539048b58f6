// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How a connection ended that neither consumer has closed: what the log says of it.
#pragma once

#include "packet_io.hpp"
#include "pair_counts.hpp"
#include "request.hpp"
#include "wire.hpp"

namespace soft_hca {

enum class end_cause : std::uint8_t {
    none,               ///< it lives, or a consumer has closed it
    no_acknowledgement, ///< of a packet, however often it was sent again
    no_response,        ///< to a read or an atomic operation that the peer has acknowledged
    port_closed,        ///< at the peer, says an ICMP error
    reset,              ///< the peer's host does not know the connection
    failed_at_peer,     ///< the peer has ended it, and says why
    refused_here,       ///< what the peer has sent
    request_failed,     ///< on this side
    receive_failed,
    watermark,    ///< it would hold more receives of its shared queue than it may
    access_stuck, ///< a direct access of the peer does not end
};

struct connection_end {
    end_cause cause = end_cause::none;
    fault found = fault::none; ///< by the peer, or here in what the peer has sent
    /// Of the request or receive that failed; success: it was none.
    work_status status = work_status::success;
    std::uint32_t retransmissions = 0; ///< no_acknowledgement: of the packet
    std::int64_t unanswered_ns = 0;    ///< the same: since the first timeout
    std::int64_t silent_ns = 0;        ///< since a packet of the peer's came last
    std::int64_t lived_ns = 0;
    net_address peer;
    std::uint32_t id = 0; ///< by which packets of the peer find the queue pair
    std::uint32_t peer_id = 0;
    pair_counts counts; ///< of this connection
};

/// Of one connection. Under the lock of its queue pair; only established() and what ends a
/// connection cost anything.
class end_record {
public:
    void established(const net_address &peer, std::uint32_t id, std::uint32_t peer_id,
                     const pair_counts &so_far);
    /// The oldest packet was not acknowledged in time.
    void timed_out(std::uint32_t psn, std::int64_t now);
    /// Why the connection is about to end. What was noted first stays: the rest follows from it.
    void note(end_cause cause, fault found = fault::none,
              work_status status = work_status::success);
    /// `heard_ns`: when a packet came last.
    void ended(std::int64_t heard_ns, const pair_counts &so_far);

    const connection_end &told() const { return told_; }

private:
    connection_end told_;
    std::int64_t began_ns_ = 0;
    std::int64_t unanswered_since_ns_ = 0;
    std::uint32_t unanswered_psn_ = 0;
    std::uint32_t timeouts_ = 0; ///< of that packet
};

} // namespace soft_hca
