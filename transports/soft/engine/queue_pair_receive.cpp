// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The receiving half of a queue pair: acknowledgements, and segments in order.
#include "device.hpp"
#include "queue_pair.hpp"

#include <algorithm>
#include <cstring>

namespace soft_hca {

namespace {

constexpr std::int64_t ack_delay_ns = 1'000'000;
/// A timer that is due before the system's next tick has to be programmed, which costs a virtual
/// machine microseconds; and the peer repeats after 5 ms at the earliest.
constexpr std::int64_t late_ack_delay_ns = 3'000'000;
constexpr std::int32_t farthest = 4 * receive_window::capacity;
constexpr std::uint32_t first_not_ready_us = 500;
constexpr std::uint32_t longest_not_ready_us = 20'000;

fault fault_of(access_fault what)
{
    switch (what) {
    case access_fault::other_domain:
        return fault::wrong_stream;
    case access_fault::no_right:
        return fault::access_rights;
    case access_fault::out_of_bounds:
        return fault::base_or_bounds;
    case access_fault::wraps:
        return fault::wrap;
    default:
        return fault::invalid_stag;
    }
}

std::uint8_t *pointer(std::uint64_t address)
{
    return reinterpret_cast<std::uint8_t *>(static_cast<std::uintptr_t>(address));
}

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

/// Returns the old value. Atomic for everybody, the processor's own instructions included.
std::uint64_t execute(std::uint64_t *word, const ddp_segment &s)
{
    std::uint64_t old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(word, &old, changed(old, s), false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
    }
    return old;
}

} // namespace

// -------------------------------------------------------------------------------------- packets

void queue_pair::receive(const packet &p, const net_address &from, const std::uint8_t *bytes,
                         std::size_t size, std::int64_t now)
{
    ++counted.packets_in;
    if (p.base.kind == packet_kind::accept)
        return receive_accept(p, from, now);
    if (!(from == peer_) && !(state_ == state::connecting && from.same_host(peer_))) {
        ++counted.dropped;
        return;
    }
    if (p.base.kind == packet_kind::reset)
        return receive_reset(p);
    // Nobody but the peer knows our tag, and numbers far away are not the peer's either.
    if (p.base.tag != tag_) {
        ++counted.dropped;
        return;
    }
    if (p.base.kind == packet_kind::reject)
        return receive_reject(p);
    const std::int32_t ahead = distance(rx_.next(), p.base.psn);
    if (p.base.from != peer_id_ || ahead > farthest || ahead < -farthest) {
        ++counted.dropped;
        return;
    }
    if (p.base.kind == packet_kind::close)
        return receive_close(p, now);
    if (p.base.kind == packet_kind::close_ack) {
        closes_left_ = 0;
        close_due_ = 0;
        return;
    }
    if (state_ == state::dead && p.base.kind != packet_kind::ack)
        return send_close(now); // the peer has not received any close
    if (state_ == state::accepting)
        go_live();
    if (!connected() || before(tx_.next(), p.base.ack)) {
        ++counted.dropped; // an acknowledgement of what was never sent is no peer's
        return;
    }
    heard_ns_ = now;
    take_acknowledgement(p, now);
    if (p.base.kind != packet_kind::ack && connected())
        receive_numbered(p, bytes, size);
}

void queue_pair::take_acknowledgement(const packet &p, std::int64_t now)
{
    if (before(peer_credit_, p.base.credit)) {
        peer_credit_ = p.base.credit;
        out_of_credit_ = false;
        probe_due_ = 0;
        probe_delay_us_ = 0;
    }
    if (before(p.base.ack, tx_.oldest()))
        return; // overtaken by a newer one
    bool progress = false;
    while (sent_packet *packet = tx_.acknowledged(p.base.ack)) {
        if (packet->last && packet->from == sent_packet::origin::response)
            ++response_head_;
        if (packet->last && packet->from == sent_packet::origin::request) {
            auto &r = *static_cast<request *>(packet->source);
            r.done = r.done || !has_response(r);
        }
        tx_.pop(rtt_, now);
        progress = true;
    }
    if (p.sack_words != 0)
        tx_.acknowledge_selectively(p.base.ack, p.sack, p.sack_words, rtt_, now);
    const bool not_ready = (p.base.flags & flag_receiver_not_ready) != 0 && !tx_.empty();
    if (progress || not_ready) { // the oldest has arrived, and only that counts
        resend_from_ = now;
        retries_ = 0;
        rtt_.progress();
    }
    if (progress) {
        not_ready_delay_us_ = 0;
        blocked_until_ = 0;
        // What was sent before something that has arrived by now is missing.
        tx_.suspect_overtaken(rtt_);
        release_done();
    }
    if (not_ready) {
        not_ready_delay_us_ =
            std::clamp(2 * not_ready_delay_us_, first_not_ready_us, longest_not_ready_us);
        blocked_until_ = now + std::int64_t{not_ready_delay_us_} * 1000;
        resend_from_ = blocked_until_;
        tx_.repeat_oldest();
    }
}

void queue_pair::receive_numbered(const packet &p, const std::uint8_t *bytes, std::size_t size)
{
    ack_owed_ = true;
    if ((p.base.flags & flag_late_ack) == 0)
        ack_awaited_ = true;
    switch (rx_.place_of(p.base.psn)) {
    case receive_window::place::old:
        ++counted.duplicates;
        ack_now_ = true;
        return;
    case receive_window::place::beyond:
        ++counted.dropped;
        return;
    case receive_window::place::early:
        ++counted.early;
        ack_now_ = true;
        (void)rx_.keep(p.base.psn, bytes, size); // or the peer sends it again
        return;
    case receive_window::place::in_order:
        break;
    }
    if (rx_.holds_any())
        ack_now_ = true;
    if (take_in_order(p)) {
        rx_.advance();
        take_kept();
    } else if (connected()) {
        (void)rx_.keep(p.base.psn, bytes, size); // until there is a receive for it
    }
}

/// As far as it is in order, and finds receives.
void queue_pair::take_kept()
{
    while (receive_window::kept *kept = rx_.peek_next()) {
        packet next;
        // It was parsed once before it was kept.
        if (!parse(kept->bytes(), kept->size, next) || !take_in_order(next))
            return;
        rx_.advance();
    }
}

/// False when the packet was not taken: there is no receive for it, or the connection is over.
bool queue_pair::take_in_order(const packet &p)
{
    const verdict v = p.base.kind == packet_kind::probe ? verdict::taken : take_segment(p.segment);
    switch (v) {
    case verdict::taken:
        ++unacknowledged_;
        unacknowledged_bytes_ += p.segment.payload_size;
        return true;
    case verdict::not_ready:
        ++counted.not_ready;
        not_ready_ = ack_now_ = true;
        return false;
    case verdict::fatal:
        break;
    }
    closing_ = {close_code::terminate, fault_, p.base.psn};
    fail_connection(connection_event::broken, nullptr, work_status::flushed);
    return false;
}

void queue_pair::after_receiving(std::int64_t now)
{
    pump(now);
    if (!connected())
        return;
    if (with.shared == nullptr && receives_.empty())
        wants_receives_.store(true);
    if (wants_receives_.load() && !receives_.empty() && told_credit_ != credit()) {
        wants_receives_.store(false);
        ack_owed_ = ack_now_ = true;
    }
    if (ack_owed_ &&
        (ack_now_ || unacknowledged_ >= ack_every || unacknowledged_bytes_ >= ack_every_bytes)) {
        send_ack();
    } else if (ack_owed_) {
        const std::int64_t due = now + (ack_awaited_ ? ack_delay_ns : late_ack_delay_ns);
        if (ack_due_ == 0 || due < ack_due_)
            ack_due_ = due;
        if (ack_awaited_)
            home->owe_ack(*this);
    }
    update_due();
}

void queue_pair::flush_ack(std::int64_t)
{
    if (connected() && ack_owed_)
        send_ack();
    update_due();
}

std::uint32_t queue_pair::credit() const
{
    // Nobody can promise what others may take. The sender is told when there is none.
    if (with.shared != nullptr)
        return receive_msn_ + 0x10000;
    return receive_msn_ + (receiving_ != nullptr ? 1 : 0) + (receives_.tail() - receives_.head());
}

// ------------------------------------------------------------------------------------- segments

queue_pair::verdict queue_pair::fail(fault why)
{
    fault_ = why;
    return verdict::fatal;
}

queue_pair::verdict queue_pair::take_segment(const ddp_segment &s)
{
    switch (s.opcode) {
    case rdmap::write:
        return take_write(s);
    case rdmap::read_request:
        return take_read_request(s);
    case rdmap::read_response:
        return take_read_response(s);
    case rdmap::atomic_request:
        return take_atomic_request(s);
    case rdmap::atomic_response:
        return take_atomic_response(s);
    case rdmap::immediate:
    case rdmap::immediate_solicited:
        return take_immediate(s);
    default:
        return take_send(s);
    }
}

bool queue_pair::next_receive()
{
    received_ = 0;
    if (with.shared != nullptr) {
        receiving_ = with.shared->take(*this);
    } else if (!receives_.empty()) {
        receiving_ = &receives_.at(receives_.head());
        receives_.pop();
    }
    return receiving_ != nullptr;
}

void queue_pair::finish_receive(const completion_record &done)
{
    receiving_ = nullptr;
    ++receive_msn_;
    received_ = 0;
    with.receive_queue->push(done);
}

queue_pair::verdict queue_pair::fail_receive(work_status status, fault why)
{
    request &r = *receiving_;
    receiving_ = nullptr;
    complete(r, status, 0, with.receive_queue);
    return fail(why);
}

/// Stores what came for a request at an offset of its local memory.
work_status queue_pair::scatter(const request &r, std::uint32_t offset, const std::uint8_t *from,
                                std::uint32_t size)
{
    for (std::uint32_t i = 0; i < r.segments && size != 0; ++i) {
        const local_segment &s = r.local[i];
        if (offset >= s.length) {
            offset -= s.length;
            continue;
        }
        const std::uint32_t part = std::min(s.length - offset, size);
        if (!of->memory.ask(s.key, with.domain, local_write, s.address + offset, part))
            return work_status::local_protection;
        if (!home->io().place(pointer(s.address + offset), from, part, false))
            return work_status::local_protection;
        from += part;
        size -= part;
        offset = 0;
    }
    return size == 0 ? work_status::success : work_status::local_length;
}

queue_pair::verdict queue_pair::take_send(const ddp_segment &s)
{
    if (s.msn != receive_msn_)
        return fail(fault::invalid_msn);
    if (receiving_ == nullptr && !next_receive())
        return s.message_offset == 0 ? verdict::not_ready : fail(fault::invalid_offset);
    if (s.message_offset != received_)
        return fail(fault::invalid_offset);
    if (s.payload_size > receiving_->length - received_)
        return fail_receive(work_status::local_length, fault::message_too_long);
    const work_status status = scatter(*receiving_, received_, s.payload, s.payload_size);
    if (status != work_status::success)
        return fail_receive(status, fault::local_catastrophic);
    received_ += s.payload_size;
    if (!s.last)
        return verdict::taken;
    const bool invalidates =
        s.opcode == rdmap::send_invalidate || s.opcode == rdmap::send_solicited_invalidate;
    if (invalidates && !of->windows.invalidate(s.invalidate, *with.domain))
        return fail(fault::cannot_invalidate);
    const bool solicited =
        s.opcode == rdmap::send_solicited || s.opcode == rdmap::send_solicited_invalidate;
    finish_receive({receiving_, received_, s.invalidate, id,
                    static_cast<std::uint8_t>(home->index()), work_status::success, false,
                    solicited, invalidates});
    return verdict::taken;
}

queue_pair::verdict queue_pair::take_immediate(const ddp_segment &s)
{
    if (s.msn != receive_msn_)
        return fail(fault::invalid_msn);
    if (received_ != 0 || s.immediate > UINT32_MAX)
        return fail(fault::stream_catastrophic);
    if (receiving_ == nullptr && !next_receive())
        return verdict::not_ready;
    finish_receive({receiving_, written_, static_cast<std::uint32_t>(s.immediate), id,
                    static_cast<std::uint8_t>(home->index()), work_status::success, true,
                    s.opcode == rdmap::immediate_solicited, false});
    return verdict::taken;
}

queue_pair::verdict queue_pair::take_write(const ddp_segment &s)
{
    if (write_over_)
        written_ = 0;
    write_over_ = s.last;
    written_ += s.payload_size;
    if (s.payload_size == 0)
        return verdict::taken;
    const grant asked = of->memory.ask(s.stag, with.domain, remote_write, s.offset, s.payload_size);
    if (!asked)
        return fail(fault_of(asked.fault()));
    // Consumers spin on the last byte of what is written to them.
    if (!home->io().place(pointer(s.offset), s.payload, s.payload_size, s.last))
        return fail(fault::base_or_bounds); // the memory is gone
    return verdict::taken;
}

queue_pair::verdict queue_pair::take_read_request(const ddp_segment &s)
{
    if (s.msn != read_msn_in_)
        return fail(fault::invalid_msn);
    if (response_tail_ - response_head_ == max_responses_)
        return fail(fault::stream_catastrophic);
    if (s.read_size != 0) // and once more when it is answered
        if (const grant asked = of->memory.ask(s.source_stag, with.domain, remote_read,
                                               s.source_offset, s.read_size);
            !asked)
            return fail(fault_of(asked.fault()));
    ++read_msn_in_;
    responses_[response_tail_++ & (max_responses_ - 1)] = {rdmap::read_response,
                                                           s.sink_stag,
                                                           s.sink_offset,
                                                           s.source_stag,
                                                           s.source_offset,
                                                           s.read_size,
                                                           0,
                                                           rx_.next(),
                                                           0,
                                                           0};
    return verdict::taken;
}

queue_pair::verdict queue_pair::take_atomic_request(const ddp_segment &s)
{
    if (s.msn != read_msn_in_)
        return fail(fault::invalid_msn);
    if (response_tail_ - response_head_ == max_responses_)
        return fail(fault::stream_catastrophic);
    const grant asked = of->memory.ask(s.source_stag, with.domain, remote_atomic, s.source_offset,
                                       sizeof(std::uint64_t));
    if (!asked)
        return fail(fault_of(asked.fault()));
    auto *const word = reinterpret_cast<std::uint64_t *>(pointer(s.source_offset));
    if (s.source_offset % sizeof *word != 0 || !is_writable(word))
        return fail(fault::base_or_bounds);
    ++read_msn_in_;
    // Once: what comes twice was sorted out before. The answer is kept for as long as it may have
    // to be repeated.
    const std::uint64_t original = execute(word, s);
    responses_[response_tail_++ & (max_responses_ - 1)] = {
        rdmap::atomic_response, s.request_id, 0, 0, 0, 0, 0, rx_.next(),
        atomic_msn_out_++,      original};
    return verdict::taken;
}

/// The read or atomic that is answered next: answers come in the order of the questions.
request *queue_pair::oldest_question()
{
    if (questions_out_ == 0)
        return nullptr;
    if (before(oldest_question_, sends_.head()))
        oldest_question_ = sends_.head();
    while (!has_response(sends_.at(oldest_question_)) || sends_.at(oldest_question_).done)
        ++oldest_question_;
    return &sends_.at(oldest_question_);
}

/// The same, if it may be completed. A peer that answers has taken the question, and every packet
/// of it says so from then on; one that does not is not believed, for what is not acknowledged is
/// still referred to by the send window.
request *queue_pair::answered_question()
{
    request *r = oldest_question();
    return r != nullptr && before(r->last_psn, tx_.oldest()) ? r : nullptr;
}

void queue_pair::question_answered()
{
    sends_.at(oldest_question_).done = true;
    ++oldest_question_;
    --questions_out_;
    release_done();
}

queue_pair::verdict queue_pair::take_read_response(const ddp_segment &s)
{
    request *r = answered_question();
    if (r == nullptr || r->kind != work::read || s.stag != r->read_id)
        return fail(fault::invalid_stag);
    const bool fits = s.offset == r->moved && s.payload_size <= r->length - r->moved &&
                      (!s.last || s.payload_size == r->length - r->moved);
    if (!fits)
        return fail(fault::base_or_bounds);
    r->status = scatter(*r, r->moved, s.payload, s.payload_size);
    if (r->status != work_status::success) {
        r->done = true;
        return fail(fault::local_catastrophic);
    }
    r->moved += s.payload_size;
    if (s.last)
        question_answered();
    return verdict::taken;
}

queue_pair::verdict queue_pair::take_atomic_response(const ddp_segment &s)
{
    request *r = answered_question();
    if (r == nullptr || r->kind == work::read || s.request_id != r->read_id)
        return fail(fault::invalid_stag);
    if (s.msn != atomic_msn_in_)
        return fail(fault::invalid_msn);
    ++atomic_msn_in_;
    std::uint8_t value[sizeof s.original];
    std::memcpy(value, &s.original, sizeof value);
    r->status = scatter(*r, 0, value, sizeof value);
    if (r->status != work_status::success) {
        r->done = true;
        return fail(fault::local_catastrophic);
    }
    question_answered();
    return verdict::taken;
}

} // namespace soft_hca
