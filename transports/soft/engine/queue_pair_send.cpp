// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The sending half of a queue pair: which packet is next, what it is made of, and completions.
#include "device.hpp"
#include "queue_pair.hpp"

#include <algorithm>

namespace soft_hca {

namespace {

constexpr std::uint32_t immediate_part = UINT32_MAX; ///< offset of the packet behind a write
constexpr std::uint32_t first_probe_us = 10'000;
constexpr std::uint32_t longest_probe_us = 500'000;
constexpr std::uint32_t line = 64; ///< copies are faster that begin where a cache line does

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

/// Its success makes no completion.
bool is_silent(const request &r)
{
    return (r.flags & request_silent) != 0;
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
        out.add(reinterpret_cast<const void *>(static_cast<std::uintptr_t>(s.address + offset)),
                part);
        offset = 0;
        size -= part;
    }
}

} // namespace

// ---------------------------------------------------------------------------- what is sent next

void queue_pair::pump(std::int64_t now)
{
    if (state_ == state::dead)
        return flush();
    if (!connected())
        return;
    out_packet packets[batch];
    std::uint32_t psns[batch];
    for (;;) {
        const std::uint32_t seen = sends_.tail();
        std::uint32_t count = 0;
        while (count < batch && next_packet(now, psns[count]))
            ++count;
        if (!connected())
            return;
        // From here to transmit() nothing is bound.
        for (std::uint32_t i = 0; i < count; ++i) {
            packets[i].begin();
            if (!build(packets[i], psns[i]))
                return; // the connection is over
        }
        if (count != 0)
            transmit(packets, psns, count);
        in_flight_.store(tx_.in_flight());
        taken_.store(next_send_, std::memory_order_relaxed);
        if (!connected() || tx_.lost() != 0)
            break; // the network takes no more now
        if (count < batch && sends_.tail() == seen)
            break;
    }
    if (wants_receives_.load())
        look_for_receives();
    close_when_drained(now);
    update_due();
}

/// What was kept for want of a receive is taken, and the peer told of that and of new credit.
void queue_pair::look_for_receives()
{
    if (!connected() || (with.shared == nullptr && receives_.empty()))
        return;
    wants_receives_.store(false);
    const std::uint32_t first = rx_.next();
    not_ready_ = false;
    take_kept();
    const bool took = rx_.next() != first;
    if (!took)
        not_ready_ = false; // it was said before
    else
        doorbell.store(true); // there may be answers to give
    if (connected() && (took || told_credit_ != credit()))
        send_ack();
}

bool queue_pair::next_packet(std::int64_t now, std::uint32_t &psn)
{
    if (blocked_until_ > now)
        return false;
    if (tx_.empty())
        resend_from_ = now;
    if (tx_.lost() != 0) {
        psn = tx_.take_lost(now);
        ++counted.packets_resent;
        return true;
    }
    if (tx_.full() || tx_.bytes() >= window_bytes_)
        return false;
    // Answers and requests take turns.
    if (responses_turn_ && next_response(now, psn)) {
        responses_turn_ = false;
        return true;
    }
    if (next_request(now, psn)) {
        responses_turn_ = true;
        return true;
    }
    return connected() && next_response(now, psn);
}

bool queue_pair::next_response(std::int64_t now, std::uint32_t &psn)
{
    if (response_next_ == response_tail_)
        return false;
    response &r = responses_[response_next_ & (max_responses_ - 1)];
    const bool read = r.opcode == rdmap::read_response;
    psn = tx_.next();
    sent_packet &packet = tx_.push(now);
    packet.from = sent_packet::origin::response;
    packet.source = &r;
    packet.offset = r.sent;
    tx_.set_length(packet, read ? std::min(r.size - r.sent, payload_room(r.opcode)) : 0);
    r.sent += packet.length;
    packet.last = r.sent == r.size || !read;
    if (packet.last)
        ++response_next_;
    return true;
}

bool queue_pair::may_start(request &r)
{
    if ((r.flags & request_fence) != 0 && questions_out_ != 0)
        return false;
    if (has_response(r))
        return questions_out_ < max_questions_;
    if (is_message(r) && !before(send_msn_, peer_credit_)) {
        out_of_credit_ = true;
        return false;
    }
    return true;
}

bool queue_pair::keys_hold(const request &r, std::uint32_t rights)
{
    for (std::uint32_t i = 0; i < r.segments; ++i) {
        const local_segment &s = r.local[i];
        if (s.length != 0 && !of->memory.ask(s.key, with.domain, rights, s.address, s.length))
            return false;
    }
    return true;
}

void queue_pair::begin(request &r)
{
    r.moved = 0;
    begun_ = true;
    const bool binds = r.kind == work::bind;
    r.done = binds;
    if (binds ? !of->windows.execute(r) : !keys_hold(r, has_response(r) ? local_write : local_read)) {
        closing_ = {close_code::terminate, fault::local_catastrophic, 0};
        fail_connection(connection_event::broken, &r,
                        binds ? work_status::not_bound : work_status::local_protection);
        return;
    }
    if (is_message(r))
        r.msn = send_msn_++;
    if (has_response(r)) {
        r.msn = read_msn_++;
        r.read_id = next_token_++;
        ++questions_out_;
    }
}

bool queue_pair::next_request(std::int64_t now, std::uint32_t &psn)
{
    while (next_send_ != sends_.tail()) {
        request &r = sends_.at(next_send_);
        if (!begun_) {
            if (!may_start(r))
                return false;
            begin(r);
            if (!connected())
                return false;
        }
        if (r.kind == work::bind) {
            begun_ = false;
            ++next_send_;
            release_done();
            continue;
        }
        const bool immediate = r.kind == work::write_immediate && write_sent_;
        if (immediate && !before(send_msn_, peer_credit_)) {
            out_of_credit_ = true;
            return false;
        }
        psn = tx_.next();
        sent_packet &packet = tx_.push(now);
        packet.from = sent_packet::origin::request;
        packet.source = &r;
        bool over = true;
        if (immediate) {
            r.msn = send_msn_++;
            packet.offset = immediate_part;
        } else if (!has_response(r)) {
            packet.offset = r.moved;
            tx_.set_length(packet, std::min(r.length - r.moved, payload_room(opcode_of(r))));
            r.moved += packet.length;
            over = r.moved == r.length;
            write_sent_ = over && r.kind == work::write_immediate;
            over = over && !write_sent_;
        }
        packet.last = over;
        if (over) {
            r.last_psn = psn;
            begun_ = write_sent_ = false;
            ++next_send_;
        }
        return true;
    }
    return false;
}

// -------------------------------------------------------------------------------------- packets

std::uint32_t queue_pair::payload_room(rdmap opcode) const
{
    const std::uint32_t room =
        max_datagram_ - static_cast<std::uint32_t>(base_size + header_size(opcode));
    return room < 64 * line ? room : room / line * line;
}

/// Carries the newest acknowledgement, too.
base_header queue_pair::make_base(packet_kind kind, std::uint32_t psn)
{
    told_credit_ = credit();
    if (!rx_.holds_any() && !not_ready_) {
        ack_owed_ = ack_awaited_ = ack_now_ = false;
        ack_due_ = 0;
    }
    unacknowledged_ = unacknowledged_bytes_ = 0;
    return {kind, 0, peer_id_, peer_tag_, id, psn, rx_.next(), told_credit_};
}

bool queue_pair::build(out_packet &out, std::uint32_t psn)
{
    const sent_packet &packet = tx_.at(psn);
    const bool answers = packet.from == sent_packet::origin::response;
    if (answers && !may_be_read(packet)) {
        if (packet.again) {
            build_probe(out, tx_.oldest() - 1);
            return true;
        }
        closing_ = {close_code::terminate, fault::invalid_stag,
                    static_cast<const response *>(packet.source)->request_psn};
        end_reading();
        fail_connection(connection_event::broken, nullptr, work_status::flushed);
        return false;
    }
    if (packet.from == sent_packet::origin::none) {
        build_probe(out, psn);
        return true;
    }
    base_header base = make_base(packet_kind::data, psn);
    if (answers || is_silent(*static_cast<const request *>(packet.source)))
        base.flags = flag_late_ack;
    out.add(out.header, write_base(out.header, base));
    if (answers)
        build_response(out, packet);
    else
        build_request(out, packet);
    return true;
}

/// The peer acknowledges all that it has when it sees one that it had long ago, too.
void queue_pair::build_probe(out_packet &out, std::uint32_t psn)
{
    out.add(out.header, write_base(out.header, make_base(packet_kind::probe, psn)));
}

/// False when the peer's right to what a response carries is gone. One that was sent before may
/// have arrived, and the memory be gone for that very reason.
bool queue_pair::may_be_read(const sent_packet &packet)
{
    const response &r = *static_cast<const response *>(packet.source);
    if (r.opcode == rdmap::atomic_response || packet.length == 0)
        return true;
    grant asked = of->memory.ask(r.source_stag, with.domain, remote_read,
                                 r.source_offset + packet.offset, packet.length);
    if (!asked)
        return false;
    if (memory_region *window = asked.keep(); window != nullptr)
        windows_read_[windows_in_use_++] = window;
    return true;
}

void queue_pair::end_reading()
{
    while (windows_in_use_ != 0)
        grant::end(windows_read_[--windows_in_use_]);
}

namespace {

/// The DDP header lies behind the base header, in the same piece.
void add_segment_header(out_packet &out, const ddp_segment &s)
{
    const std::size_t size = write_segment(out.header + base_size, s);
    out.piece[0].size += size;
    out.size += static_cast<std::uint32_t>(size);
}

void describe_atomic(ddp_segment &s, const request &r)
{
    const bool add = r.kind == work::fetch_add;
    s.request_id = r.read_id;
    s.source_stag = r.remote.key;
    s.source_offset = r.remote.address;
    s.atomic = add ? atomic_code::fetch_add : atomic_code::compare_swap;
    s.swap_or_add = add ? r.compare_or_add : r.swap;
    s.swap_or_add_mask = add ? 0 : UINT64_MAX; // one number of 64 bits in both cases
    s.compare = add ? 0 : r.compare_or_add;
    s.compare_mask = add ? 0 : UINT64_MAX;
}

} // namespace

void queue_pair::build_request(out_packet &out, const sent_packet &packet)
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

void queue_pair::build_response(out_packet &out, const sent_packet &packet)
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
    out.add(reinterpret_cast<const void *>(
                static_cast<std::uintptr_t>(r.source_offset + packet.offset)),
            packet.length);
}

void queue_pair::transmit(out_packet *packets, const std::uint32_t *psns, std::uint32_t count)
{
    std::uint32_t done = 0;
    const send_result result = home->io().send(peer_, packets, count, done);
    end_reading();
    counted.packets_out += done;
    if (result == send_result::bad_memory) {
        return fail_reading(tx_.at(psns[done]));
    }
    for (; done < count; ++done)
        tx_.mark_lost(psns[done]);
}

/// The memory that a packet is made of is gone.
void queue_pair::fail_reading(const sent_packet &packet)
{
    const bool answers = packet.from == sent_packet::origin::response;
    closing_ = {close_code::terminate, fault::local_catastrophic, 0};
    if (answers)
        closing_ = {close_code::terminate, fault::base_or_bounds,
                    static_cast<const response *>(packet.source)->request_psn};
    fail_connection(connection_event::broken,
                    answers ? nullptr : static_cast<request *>(packet.source),
                    work_status::local_protection);
}

/// A packet that takes no sequence number.
void queue_pair::send_plain(packet_kind kind, const std::uint8_t *body, std::size_t size,
                            std::uint16_t flags)
{
    out_packet out;
    out.begin();
    base_header base = make_base(kind, tx_.next());
    base.flags = flags;
    out.add(out.header, write_base(out.header, base));
    out.add(body, size);
    std::uint32_t done = 0;
    // One that does not go is as good as one that is lost on the way.
    (void)home->io().send(peer_, &out, 1, done);
    counted.packets_out += done;
}

void queue_pair::send_ack()
{
    std::uint32_t words[max_sack_words];
    const std::uint32_t count = rx_.describe(words, max_sack_words);
    std::uint8_t body[4 + sizeof words];
    const std::uint16_t flags = not_ready_ ? flag_receiver_not_ready : 0;
    const std::size_t size = write_sack(body, words, count);
    send_plain(packet_kind::ack, body, size, flags);
    ack_owed_ = ack_awaited_ = ack_now_ = not_ready_ = false;
    ack_due_ = 0;
}

void queue_pair::send_probe(std::int64_t now)
{
    if (tx_.full())
        return;
    if (tx_.empty())
        resend_from_ = now;
    const std::uint32_t psn = tx_.next();
    (void)tx_.push(now);
    out_packet out;
    out.begin();
    (void)build(out, psn);
    transmit(&out, &psn, 1);
    probe_delay_us_ = std::clamp(2 * probe_delay_us_, first_probe_us, longest_probe_us);
    probe_due_ = now + std::int64_t{probe_delay_us_} * 1000;
}

// ---------------------------------------------------------------------------------- completions

void queue_pair::complete(request &r, work_status status, std::uint32_t length,
                          completion_queue *to)
{
    const bool silent = status == work_status::success && is_silent(r);
    if (silent || to == nullptr)
        return;
    to->push(
        {&r, length, 0, id, static_cast<std::uint8_t>(home->index()), status, false, false, false});
}

/// In post order: what is done waits for those before it.
void queue_pair::release_done()
{
    while (sends_.head() != next_send_) {
        request &r = sends_.at(sends_.head());
        if (!r.done)
            break;
        sends_.pop();
        complete(r, r.status, r.length, with.send_queue);
    }
}

/// What a bind did that does not count as done.
void queue_pair::take_back_bind(request &r, work_status status)
{
    if (!r.done)
        of->windows.cancel(r);
    else if (status != work_status::success && r.remote.key != 0)
        (void)of->windows.invalidate(r.remote.key, *with.domain);
}

void queue_pair::flush()
{
    // Behind the first that was not done none counts as done, though its data may have arrived.
    bool failed = false;
    while (!sends_.empty()) {
        request &r = sends_.at(sends_.head());
        const bool own_status = r.done && (!failed || r.status != work_status::success);
        const work_status status = own_status ? r.status : work_status::flushed;
        failed = failed || status != work_status::success;
        if (r.kind == work::bind)
            take_back_bind(r, status);
        sends_.pop();
        complete(r, status, r.length, with.send_queue);
    }
    next_send_ = sends_.head();
    taken_.store(next_send_, std::memory_order_relaxed);
    if (receiving_ != nullptr) {
        request &r = *receiving_;
        receiving_ = nullptr;
        complete(r, work_status::flushed, 0, with.receive_queue);
    }
    while (!receives_.empty()) {
        request &r = receives_.at(receives_.head());
        receives_.pop();
        complete(r, work_status::flushed, 0, with.receive_queue);
    }
}

} // namespace soft_hca
