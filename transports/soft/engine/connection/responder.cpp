// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "responder.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace soft_hca {

namespace {

/// An add in which a set bit of the mask keeps its carry (RFC 7306).
std::uint64_t add_masked(std::uint64_t a, std::uint64_t b, std::uint64_t mask)
{
    if (mask == 0)
        return a + b;
    std::uint64_t sum = 0;
    std::uint64_t carry = 0;
    for (unsigned bit = 0; bit < 64; ++bit) {
        const std::uint64_t column = (a >> bit & 1) + (b >> bit & 1) + carry;
        sum |= (column & 1) << bit;
        carry = (mask >> bit & 1) != 0 ? 0 : column >> 1;
    }
    return sum;
}

std::uint64_t changed(std::uint64_t old, const ddp_segment &s)
{
    if (s.atomic == atomic_code::fetch_add)
        return add_masked(old, s.swap_or_add, s.swap_or_add_mask);
    if ((old & s.compare_mask) != (s.compare & s.compare_mask))
        return old;
    return (old & ~s.swap_or_add_mask) | (s.swap_or_add & s.swap_or_add_mask);
}

/// Returns the old value. Atomic with respect to the processor's own instructions, too.
std::uint64_t execute(std::uint64_t *word, const ddp_segment &s)
{
    std::uint64_t old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(word, &old, changed(old, s), false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
    }
    return old;
}

} // namespace

bool responder::open(const local_memory &memory, send_window &window, std::uint32_t max_reads)
{
    max_reads = std::max(max_reads, 1u);
    std::unique_ptr<response[]> ring(new (std::nothrow) response[std::bit_ceil(max_reads)]);
    *this = responder(memory, window, std::move(ring), max_reads, 0);
    return ring_ != nullptr;
}

void responder::restart(std::uint32_t first_msn)
{
    *this = responder(*memory_, *window_, std::move(ring_), max_reads_, first_msn);
}

segment_result responder::on_read_request(const ddp_segment &s, std::uint32_t psn)
{
    if (s.msn != request_msn_)
        return segment_result::fatal(fault::invalid_msn);
    if (full())
        return segment_result::fatal(fault::stream_catastrophic);
    if (s.read_size != 0) // checked again for each packet of the response
        if (const grant access =
                memory_->access(s.source_stag, remote_read, s.source_offset, s.read_size);
            !access)
            return segment_result::fatal(fault_of(access.fault()));
    ++request_msn_;
    at(tail_++) = {rdmap::read_response,
                   s.sink_stag,
                   s.sink_offset,
                   s.source_stag,
                   s.source_offset,
                   s.read_size,
                   0,
                   psn,
                   0,
                   0};
    return {};
}

segment_result responder::on_atomic_request(const ddp_segment &s, std::uint32_t psn)
{
    if (s.msn != request_msn_)
        return segment_result::fatal(fault::invalid_msn);
    if (full())
        return segment_result::fatal(fault::stream_catastrophic);
    const grant access =
        memory_->access(s.source_stag, remote_atomic, s.source_offset, sizeof(std::uint64_t));
    if (!access)
        return segment_result::fatal(fault_of(access.fault()));
    auto *const word = reinterpret_cast<std::uint64_t *>(pointer_to(s.source_offset));
    if (s.source_offset % sizeof *word != 0 || !is_writable(word))
        return segment_result::fatal(fault::base_or_bounds);
    ++request_msn_;
    // Executed once: duplicates of the packet have been filtered. The result is kept until it is
    // acknowledged, for retransmission.
    const std::uint64_t original = execute(word, s);
    at(tail_++) = {rdmap::atomic_response, s.request_id, 0, 0, 0, 0, 0, psn,
                   atomic_msn_++,          original};
    return {};
}

std::uint32_t responder::next_packet(const peer_path &path, std::int64_t now)
{
    response &r = at(next_);
    const bool read = r.opcode == rdmap::read_response;
    const std::uint32_t psn = window_->next();
    sent_packet &packet = window_->push(now);
    packet.from = sent_packet::origin::response;
    packet.source = &r;
    packet.offset = r.sent;
    window_->set_length(packet, read ? std::min(r.size - r.sent, path.payload_room(r.opcode)) : 0);
    r.sent += packet.length;
    packet.last = r.sent == r.size || !read;
    if (packet.last)
        ++next_;
    return psn;
}

bool responder::begin_reading(const sent_packet &packet, windows_being_read &read) const
{
    const response &r = *static_cast<const response *>(packet.source);
    if (r.opcode == rdmap::atomic_response || packet.length == 0)
        return true;
    grant access =
        memory_->access(r.source_stag, remote_read, r.source_offset + packet.offset, packet.length);
    if (!access)
        return false;
    if (memory_region *window = access.keep(); window != nullptr)
        read.add(*window);
    return true;
}

void responder::build(out_packet &out, const sent_packet &packet) const
{
    const response &r = *static_cast<const response *>(packet.source);
    ddp_segment s;
    s.opcode = r.opcode;
    s.last = packet.last;
    if (r.opcode == rdmap::atomic_response) {
        s.msn = r.msn;
        s.request_id = r.sink_stag;
        s.original = r.original;
        add_segment_header(out, s);
        return;
    }
    s.stag = r.sink_stag;
    s.offset = r.sink_offset + packet.offset;
    add_segment_header(out, s);
    out.add(pointer_to(r.source_offset + packet.offset), packet.length);
}

} // namespace soft_hca
