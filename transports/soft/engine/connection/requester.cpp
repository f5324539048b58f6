// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "requester.hpp"

#include <algorithm>
#include <cstring>

namespace soft_hca {

namespace {

constexpr std::uint32_t immediate_part = UINT32_MAX; ///< offset of the packet behind a write

bool is_message(const request &r)
{
    return r.kind == work::send;
}

rdmap opcode_of(const request &r)
{
    const bool solicited = (r.flags & request_solicited) != 0;
    switch (r.kind) {
    case work::write:
    case work::write_immediate:
        return rdmap::write;
    case work::read:
    case work::read_to_window:
        return rdmap::read_request;
    case work::fetch_add:
    case work::compare_swap:
        return rdmap::atomic_request;
    default:
        if ((r.flags & request_invalidate) != 0)
            return solicited ? rdmap::send_solicited_invalidate : rdmap::send_invalidate;
        return solicited ? rdmap::send_solicited : rdmap::send;
    }
}

/// The right to its local memory that a request needs.
std::uint32_t needed_right(const request &r)
{
    if (!has_response(r))
        return local_read;
    return r.kind == work::read_to_window ? remote_write : local_write;
}

/// Adds [offset, offset + size) of the local memory to a packet.
void gather(out_packet &out, const request &r, std::uint32_t offset, std::uint32_t size)
{
    for (std::uint32_t i = 0; i < r.segments && size != 0; ++i) {
        const local_segment &s = r.local[i];
        if (offset >= s.length) {
            offset -= s.length;
            continue;
        }
        const std::uint32_t part = std::min(s.length - offset, size);
        out.add(pointer_to(s.address + offset), part);
        offset = 0;
        size -= part;
    }
}

void describe_atomic(ddp_segment &s, const request &r)
{
    const bool add = r.kind == work::fetch_add;
    s.request_id = r.read_id;
    s.source_stag = r.remote.key;
    s.source_offset = r.remote.address;
    s.atomic = add ? atomic_code::fetch_add : atomic_code::compare_swap;
    s.swap_or_add = add ? r.atomic.compare_or_add : r.atomic.swap;
    s.swap_or_add_mask = add ? 0 : UINT64_MAX; // one number of 64 bits in both cases
    s.compare = add ? 0 : r.atomic.compare_or_add;
    s.compare_mask = add ? 0 : UINT64_MAX;
}

} // namespace

// ----------------------------------------------------------------------------- starting requests

bool requester::has_credit()
{
    if (before(send_msn_, peer_credit_)) [[likely]]
        return true;
    out_of_credit_ = true;
    return false;
}

OSD_ALWAYS_INLINE bool requester::may_start(const request &r)
{
    if ((r.flags & request_fence) != 0 && reads_.any())
        return false;
    if (has_response(r))
        return !reads_.full();
    return !is_message(r) || has_credit();
}

/// The request is not permitted, and the connection has to end.
bool requester::refuse(request &r)
{
    failed_ = true;
    failure_ = pair_failure::terminate(fault::local_catastrophic, 0, &r,
                                       r.kind == work::bind ? work_status::not_bound
                                                            : work_status::local_protection);
    return false;
}

/// Returns false when the memory of the request does not permit it: the connection ends then.
OSD_ALWAYS_INLINE bool requester::start(request &r)
{
    r.moved = 0;
    started_ = true;
    const bool binds = r.kind == work::bind;
    r.done = binds;
    const bool permitted = binds ? memory_->bind(r) : memory_->may_use(r, needed_right(r));
    if (!permitted) [[unlikely]]
        return refuse(r);
    if (is_message(r))
        r.msn = send_msn_++;
    if (r.kind == work::write || r.kind == work::read)
        ++record_->counts.indirect;
    if (has_response(r))
        reads_.start(r);
    return true;
}

/// Decides what a packet that was just pushed carries.
OSD_ALWAYS_INLINE void requester::number(sent_packet &packet, request &r, const peer_path &path)
{
    packet.from = sent_packet::origin::request;
    packet.source = &r;
    packet.last = true;
    if (write_sent_) {
        r.msn = send_msn_++;
        packet.offset = immediate_part;
    } else if (!has_response(r)) {
        packet.offset = r.moved;
        window_->set_length(packet, std::min(r.length - r.moved, path.payload_room(opcode_of(r))));
        r.moved += packet.length;
        chose_long_ = chose_long_ || (r.length >= long_send && is_message(r));
        const bool all = r.moved == r.length;
        write_sent_ = all && r.kind == work::write_immediate;
        packet.last = all && !write_sent_;
    }
}

OSD_ALWAYS_INLINE void requester::finish(request &r, std::uint32_t psn)
{
    r.last_psn = psn;
    started_ = write_sent_ = false;
    ++next_;
}

/// Writes and reads whose turn it is: everything before them is complete, so that none overtakes.
bool requester::may_move_directly(const request &r) const
{
    return sends_->direct != nullptr && (r.kind == work::write || r.kind == work::read) &&
           next_ == sends_->ring.head();
}

/// Copies a write or read directly. False when it has to go over the network, which also finds out
/// why a wrong request is wrong.
bool requester::move_directly(request &r)
{
    if (!memory_->may_use(r, needed_right(r)) || !sends_->direct->move(r))
        return false;
    ++record_->counts.direct;
    direct_left_ -= r.length + cost_of_one;
    r.done = true;
    ++next_;
    complete_done();
    return true;
}

bool requester::next_packet(const peer_path &path, std::int64_t now, std::uint32_t &psn)
{
    awaits_turn_ = false;
    while (next_ != sends_->ring.tail()) {
        request &r = sends_->ring.at(next_);
        if (!started_) {
            const bool direct = may_move_directly(r);
            awaits_turn_ = direct && direct_left_ <= 0;
            if (awaits_turn_)
                return false;
            if (direct && move_directly(r))
                continue;
            if (!may_start(r) || !start(r))
                return false;
        }
        if (r.kind == work::bind) {
            started_ = false;
            ++next_;
            complete_done();
            continue;
        }
        if (write_sent_ && !has_credit())
            return false;
        psn = window_->next();
        sent_packet &packet = window_->push(now);
        number(packet, r, path);
        if (packet.last)
            finish(r, psn);
        return true;
    }
    return false;
}

void requester::build(out_packet &out, const sent_packet &packet) const
{
    const request &r = *static_cast<const request *>(packet.source);
    ddp_segment s;
    s.opcode = opcode_of(r);
    s.last = packet.offset + packet.length == r.length;
    s.msn = r.msn;
    if (packet.offset == immediate_part) {
        s.opcode =
            (r.flags & request_solicited) != 0 ? rdmap::immediate_solicited : rdmap::immediate;
        s.last = true;
        s.immediate = r.immediate;
    } else if (s.opcode == rdmap::read_request) {
        s.last = true;
        s.sink_stag = r.read_id;
        s.read_size = r.length;
        s.source_stag = r.remote.key;
        s.source_offset = r.remote.address;
    } else if (s.opcode == rdmap::atomic_request) {
        s.last = true;
        describe_atomic(s, r);
    } else if (s.opcode == rdmap::write) {
        s.stag = r.remote.key;
        s.offset = r.remote.address + packet.offset;
    } else {
        s.invalidate = r.remote.key;
        s.message_offset = packet.offset;
    }
    add_segment_header(out, s);
    gather(out, r, packet.offset, packet.length);
}

void requester::push_whole(request &send, std::uint32_t psn, std::int64_t now)
{
    sent_packet &packet = window_->push(now);
    packet.from = sent_packet::origin::request;
    packet.source = &send;
    packet.last = true;
    window_->set_length(packet, send.length);
    send.moved = send.length;
    send.msn = send_msn_++;
    send.last_psn = psn;
    ++next_;
}

void requester::build_whole(out_packet &out, const base_header &base, const request &send)
{
    const std::uint32_t invalidate = (send.flags & request_invalidate) != 0 ? send.remote.key : 0;
    out.add(out.header, write_whole_send(out.header, base, opcode_of(send), invalidate, send.msn));
    for (std::uint32_t i = 0; i < send.segments; ++i)
        out.add(pointer_to(send.local[i].address), send.local[i].length);
}

const request *requester::long_send_of(const sent_packet &packet)
{
    if (packet.from != sent_packet::origin::request || packet.again)
        return nullptr;
    const request &r = *static_cast<const request *>(packet.source);
    return is_message(r) && r.length >= long_send ? &r : nullptr;
}

void requester::refer(out_packet &out, const sent_packet &first, std::uint32_t size,
                      std::uint32_t numbers) const
{
    const request &r = *static_cast<const request *>(first.source);
    ddp_segment s;
    s.opcode = opcode_of(r);
    s.last = first.offset + size == r.length;
    s.msn = r.msn;
    s.invalidate = r.remote.key;
    s.message_offset = first.offset;
    out_packet memory;
    memory.begin();
    gather(memory, r, first.offset, size);
    far_payload where;
    where.numbers = numbers;
    for (; where.pieces < memory.pieces; ++where.pieces) {
        const bytes_view &each = memory.piece[where.pieces];
        where.piece[where.pieces] = {reinterpret_cast<std::uintptr_t>(each.at),
                                     static_cast<std::uint32_t>(each.size)};
    }
    add_reference(out, s, where);
}

// ----------------------------------------------------------------------------------- completions

void requester::complete_done()
{
    while (sends_->ring.head() != next_) {
        request &r = sends_->ring.front();
        if (!r.done)
            break;
        sends_->ring.pop();
        sends_->completions.complete(r, r.status, r.length);
    }
}

/// A bind that is completed as failed or flushed takes no effect.
void requester::undo_bind(request &r, work_status status)
{
    if (!r.done)
        memory_->cancel_bind(r);
    else if (status != work_status::success && r.remote.key != 0)
        (void)memory_->invalidate(r.remote.key);
}

void requester::flush()
{
    // All requests behind the first that failed are flushed, though some may have been executed.
    bool failed = false;
    while (request *const r = oldest()) {
        const bool own_status = r->done && (!failed || r->status != work_status::success);
        const work_status status = own_status ? r->status : work_status::flushed;
        failed = failed || status != work_status::success;
        if (r->kind == work::bind)
            undo_bind(*r, status);
        sends_->ring.pop();
        sends_->completions.complete(*r, status, r->length);
    }
    next_ = sends_->ring.head();
    sends_->started.store(next_, std::memory_order_relaxed);
}

void requester::discard()
{
    for (std::uint32_t i = sends_->ring.head(); i != sends_->ring.tail(); ++i)
        if (request &r = sends_->ring.at(i); r.kind == work::bind && !r.done)
            memory_->cancel_bind(r);
    sends_->ring.clear();
}

request *requester::started_with_last_psn(std::uint32_t psn) const
{
    for (std::uint32_t at = sends_->ring.head(); at != next_; ++at)
        if (request &r = sends_->ring.at(at); has_response(r) && !r.done && r.last_psn == psn)
            return &r;
    return nullptr;
}

// ------------------------------------------------------------------------------------- responses

bool requester::grant_credit(std::uint32_t credit)
{
    if (!before(peer_credit_, credit))
        return false;
    peer_credit_ = credit;
    out_of_credit_ = false;
    return true;
}

request *requester::acknowledged_read(std::uint32_t oldest_psn)
{
    request *r = reads_.oldest(sends_->ring);
    return r != nullptr && before(r->last_psn, oldest_psn) ? r : nullptr;
}

/// Stores what a response carries. On failure the request is done, with its status.
segment_result requester::store(request &r, std::uint32_t offset, const std::uint8_t *from,
                                std::uint32_t size)
{
    r.status = r.kind == work::read_to_window ? memory_->scatter_to_window(r, offset, from, size)
                                              : memory_->scatter(r, offset, from, size);
    if (r.status == work_status::success)
        return {};
    r.done = true;
    record_->ending.note(end_cause::request_failed, fault::local_catastrophic, r.status);
    return segment_result::fatal(fault::local_catastrophic);
}

segment_result requester::on_read_response(const ddp_segment &s, std::uint32_t oldest_psn)
{
    request *const r = acknowledged_read(oldest_psn);
    if (r == nullptr || !is_read(*r) || s.stag != r->read_id)
        return segment_result::fatal(fault::invalid_stag);
    const bool fits = s.offset == r->moved && s.payload_size <= r->length - r->moved &&
                      (!s.last || s.payload_size == r->length - r->moved);
    if (!fits)
        return segment_result::fatal(fault::base_or_bounds);
    const segment_result stored = store(*r, r->moved, s.payload, s.payload_size);
    if (stored.outcome != segment_result::kind::taken)
        return stored;
    r->moved += s.payload_size;
    if (s.last) {
        reads_.finish_oldest(sends_->ring);
        complete_done();
    }
    return {};
}

segment_result requester::on_atomic_response(const ddp_segment &s, std::uint32_t oldest_psn)
{
    request *const r = acknowledged_read(oldest_psn);
    if (r == nullptr || is_read(*r) || s.request_id != r->read_id)
        return segment_result::fatal(fault::invalid_stag);
    if (!reads_.is_next_atomic(s.msn))
        return segment_result::fatal(fault::invalid_msn);
    reads_.finish_atomic();
    std::uint8_t value[sizeof s.original];
    std::memcpy(value, &s.original, sizeof value);
    const segment_result stored = store(*r, 0, value, sizeof value);
    if (stored.outcome != segment_result::kind::taken)
        return stored;
    reads_.finish_oldest(sends_->ring);
    complete_done();
    return {};
}

} // namespace soft_hca
