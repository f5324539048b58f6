// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "end_line.hpp"

#include "dapl_line_limit.hpp"
#include "osd_address.hpp"

#include <cinttypes>
#include <cstdio>

namespace dapl::soft {

using soft_hca::connection_end;
using soft_hca::end_cause;
using soft_hca::fault;
using soft_hca::work_status;

namespace {

line_limit limit; // all adapters share it

const char *text_of(fault what)
{
    switch (what) {
    case fault::local_catastrophic:
        return "a failure of its own";
    case fault::invalid_stag:
        return "no such key";
    case fault::base_or_bounds:
        return "beyond its region, or not mapped";
    case fault::access_rights:
        return "no right to do that";
    case fault::wrong_stream:
        return "of another protection zone";
    case fault::wrap:
        return "beyond the end of the address space";
    case fault::cannot_invalidate:
        return "a key that may not be invalidated";
    case fault::invalid_msn:
        return "a message out of order";
    case fault::invalid_offset:
        return "a piece of a message out of order";
    case fault::message_too_long:
        return "a message that is longer than its receive";
    case fault::unexpected_opcode:
    case fault::stream_catastrophic:
        return "an operation that is not allowed there";
    default:
        return "unspecific";
    }
}

/// The status of the completion, as DAT names it.
const char *text_of(work_status status)
{
    switch (status) {
    case work_status::local_length:
        return "LOCAL_LENGTH";
    case work_status::local_protection:
        return "LOCAL_PROTECTION";
    case work_status::not_bound:
        return "RMR_OPERATION_FAILED";
    case work_status::remote_access:
        return "REMOTE_ACCESS";
    case work_status::remote_operation:
        return "REMOTE_RESPONDER";
    case work_status::transport:
        return "TRANSPORT";
    default:
        return "FLUSHED";
    }
}

bool is_access(fault what)
{
    return (static_cast<unsigned>(what) & 0xff00) == 0x0100 || what == fault::cannot_invalidate;
}

/// Whether the network or the peer is at fault. Ends that a program brings about, and learns of by
/// its events, are no warnings.
bool is_warning(const connection_end &how)
{
    switch (how.cause) {
    case end_cause::no_acknowledgement:
    case end_cause::no_response:
    case end_cause::access_stuck:
        return true;
    case end_cause::refused_here:
        return !is_access(how.found);
    default:
        return false;
    }
}

double seconds(std::int64_t ns)
{
    return static_cast<double>(ns) / 1e9;
}

struct text {
    char bytes[160];
};

text cause_of(const connection_end &how)
{
    text out;
    const auto say = [&](const char *format, auto... values) {
        std::snprintf(out.bytes, sizeof out.bytes, format, values...);
    };
    const bool failed = how.status != work_status::success;
    switch (how.cause) {
    case end_cause::no_acknowledgement:
        say("no acknowledgement in %.3f s, after %u retransmissions", seconds(how.unanswered_ns),
            how.retransmissions);
        break;
    case end_cause::no_response:
        say("%s", "no response to an RDMA read or atomic operation that was acknowledged");
        break;
    case end_cause::port_closed:
        say("%s", "the peer's port is closed (ICMP)");
        break;
    case end_cause::reset:
        say("%s", "the peer does not know the connection (reset)");
        break;
    case end_cause::failed_at_peer:
        say("the peer ended it: %s%s%s", text_of(how.found), failed ? "; completion " : "",
            failed ? text_of(how.status) : "");
        break;
    case end_cause::refused_here:
        say("%s of the peer was refused: %s", is_access(how.found) ? "an access" : "a packet",
            text_of(how.found));
        break;
    case end_cause::request_failed:
    case end_cause::receive_failed:
        say("a %s failed here; completion %s",
            how.cause == end_cause::receive_failed ? "receive" : "request", text_of(how.status));
        break;
    case end_cause::watermark:
        say("%s", "it holds receives of its SRQ up to the hard high watermark");
        break;
    case end_cause::access_stuck:
        say("%s", "a direct access of the peer does not end: is it stopped?");
        break;
    case end_cause::device_failed:
        say("%s", "the adapter failed");
        break;
    case end_cause::none:
        say("%s", "closed");
        break;
    }
    return out;
}

text name_of(const soft_hca::net_address &peer)
{
    char host[INET6_ADDRSTRLEN] = "?";
    std::uint8_t bytes[sizeof(in6_addr)];
    peer.copy_host(bytes);
    (void)::inet_ntop(peer.family(), bytes, host, sizeof host);
    text out;
    std::snprintf(out.bytes, sizeof out.bytes, peer.family() == AF_INET6 ? "[%s]:%u" : "%s:%u",
                  host, peer.port());
    return out;
}

text counts_of(const soft_hca::pair_counts &of)
{
    text out;
    std::snprintf(out.bytes, sizeof out.bytes,
                  "packets out %" PRIu64 " (again %" PRIu64 ", by ring %" PRIu64 "), in %" PRIu64
                  " (twice %" PRIu64 ", early %" PRIu64 ", dropped %" PRIu64 "); direct %" PRIu64
                  ", indirect %" PRIu64,
                  of.packets_out, of.packets_resent, of.by_ring, of.packets_in, of.duplicates,
                  of.early, of.dropped + of.corrupt, of.direct, of.indirect);
    return out;
}

} // namespace

void log_end(void *owner, const connection_end &how)
{
    std::uint32_t left_out = 0;
    if (!shows(is_warning(how) ? DAPL_DBG_TYPE_WARN : DAPL_DBG_TYPE_CM) ||
        !limit.allows(osd::now_ns(), left_out))
        return;
    debug_line(
        "EP %p: the connection with %s, id 0x%x, peer's id 0x%x, ended: %s. It lived %.3f s, the "
        "last packet of the peer came %.3f s before; %s%s",
        owner, name_of(how.peer).bytes, how.id, how.peer_id, cause_of(how).bytes,
        seconds(how.lived_ns), seconds(how.silent_ns), counts_of(how.counts).bytes,
        left_out_text(left_out).bytes);
}

} // namespace dapl::soft
