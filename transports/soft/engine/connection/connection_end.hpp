// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Why a connection ended that neither consumer has closed, for the log.
#pragma once

#include "interface/request.hpp"
#include "net/packet_io.hpp"
#include "pair_counts.hpp"
#include "wire/wire.hpp"

namespace soft_hca {

enum class end_cause : std::uint8_t {
    none,               ///< the connection lives, or a consumer has closed it
    no_acknowledgement, ///< a packet got none, after all its retransmissions
    no_response,        ///< a read or an atomic operation that the peer has acknowledged got none
    port_closed,        ///< an ICMP error says so of the peer's port
    reset,              ///< the peer's host does not know the connection
    failed_at_peer,     ///< the peer has ended the connection, and sent the reason
    refused_here,       ///< an access or a packet of the peer
    request_failed,     ///< a request on this side
    receive_failed,
    watermark,    ///< the endpoint holds too many receives of its SRQ
    access_stuck, ///< a direct access of the peer does not end
    device_failed,
};

struct connection_end {
    end_cause cause = end_cause::none;
    fault found = fault::none; ///< reported by the peer, or found in its packet
    /// Status of the request or receive that failed; success if none has.
    work_status status = work_status::success;
    /// Number of times that the unacknowledged packet was sent again.
    std::uint32_t retransmissions = 0;
    std::int64_t unanswered_ns = 0; ///< time since its first timeout
    std::int64_t silent_ns = 0;     ///< time since the last packet of the peer
    std::int64_t lived_ns = 0;
    net_address peer;
    std::uint32_t id = 0; ///< names our queue pair in packets of the peer
    std::uint32_t peer_id = 0;
    pair_counts counts; ///< counts of this connection alone
};

/// Collects this for one connection, under the lock of its queue pair. No packet that is sent or
/// received costs anything here.
class end_record {
public:
    void established(const net_address &peer, std::uint32_t id, std::uint32_t peer_id,
                     const pair_counts &so_far);
    /// The timer of the oldest unacknowledged packet has expired.
    void timed_out(std::uint32_t psn, std::int64_t now);
    /// Counts a retransmission of that packet; probes of the tail do not count.
    void retransmits() { ++told_.retransmissions; }
    /// Notes why the connection is about to end. The first cause is kept: later causes follow from
    /// the first.
    void note(end_cause cause, fault found = fault::none,
              work_status status = work_status::success);
    /// `heard_ns`: when the last packet of the peer came.
    void ended(std::int64_t heard_ns, const pair_counts &so_far);

    /// Takes the report about the end; it has no cause if there is nothing to report, or if it was
    /// taken before.
    connection_end take()
    {
        const connection_end end = told_;
        told_.cause = end_cause::none;
        return end;
    }

private:
    connection_end told_;
    std::int64_t began_ns_ = 0;
    std::int64_t unanswered_since_ns_ = 0;
    std::uint32_t unanswered_psn_ = 0;
};

} // namespace soft_hca
