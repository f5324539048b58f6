// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "receiver.hpp"

#include <utility>

namespace soft_hca {

// --------------------------------------------------------------------------------------- packets

bool receiver::receive(const packet &p, const std::uint8_t *bytes, std::size_t size,
                       std::uint32_t oldest_psn)
{
    ack_.owe((p.base.flags & flag_late_ack) == 0);
    switch (window_.place_of(p.base.psn)) {
    case receive_window::place::old:
        ++record_->counts.duplicates;
        ack_.hurry();
        return true;
    case receive_window::place::beyond:
        ++record_->counts.dropped;
        return true;
    case receive_window::place::early:
        ++record_->counts.early;
        ack_.hurry_for_a_while();
        // If it cannot be kept, it counts as lost.
        (void)window_.keep(p.base.psn, bytes, size, p.numbers());
        return true;
    case receive_window::place::in_order:
        break;
    }
    if (window_.holds_any()) {
        ack_.hurry();
        // A reference that was kept takes more numbers than this packet, which is sent again.
        if (!take_kept(oldest_psn))
            return false;
        if (window_.next() != p.base.psn)
            return true;
    }
    switch (take(p, oldest_psn)) {
    case outcome::taken:
        window_.advance(p.numbers());
        return take_kept(oldest_psn);
    case outcome::not_ready:
        // Kept until a receive is posted for it.
        (void)window_.keep(p.base.psn, bytes, size, p.numbers());
        break;
    case outcome::dropped:
        break;
    case outcome::failed:
        return false;
    }
    return true;
}

bool receiver::receive_expected(const whole_send &p)
{
    ack_.owe((p.base.flags & flag_late_ack) == 0);
    (void)begin_receive();
    const bool copies = receives_->polled && p.payload_size <= most_copied;
    const work_status status = copies ? memory_->copy_in(*receiving_, p.payload, p.payload_size)
                                      : memory_->scatter(*receiving_, 0, p.payload, p.payload_size);
    if (status != work_status::success) {
        failure_ = pair_failure::terminate(fail_receive(status, fault::local_catastrophic).why,
                                           p.base.psn);
        return false;
    }
    finish_receive(p.payload_size, brought::nothing, 0, p.opcode == rdmap::send_solicited);
    ack_.count(p.payload_size);
    window_.advance();
    return true;
}

receiver::outcome receiver::take(const packet &p, std::uint32_t oldest_psn)
{
    const segment_result result =
        p.base.kind == packet_kind::probe ? segment_result{} : on_segment(p, oldest_psn);
    switch (result.outcome) {
    case segment_result::kind::taken:
        ack_.count(p.segment.payload_size);
        return outcome::taken;
    case segment_result::kind::not_ready:
        ++record_->counts.not_ready;
        not_ready_ = true;
        ack_.hurry();
        return outcome::not_ready;
    case segment_result::kind::not_fetched:
        not_fetched_ = true;
        ack_.owe_now();
        return outcome::dropped;
    case segment_result::kind::fatal:
        break;
    }
    failure_ = pair_failure::terminate(result.why, p.base.psn);
    return outcome::failed;
}

/// Takes kept packets that are in order now, as long as there are receives for them.
bool receiver::take_kept(std::uint32_t oldest_psn)
{
    while (const early_packets::owned_copy kept = window_.take_next()) {
        packet next;
        // Does not fail: it was parsed before it was kept.
        if (!parse_again(kept->bytes(), kept->size, next))
            return true;
        const outcome result = take(next, oldest_psn);
        if (result == outcome::not_ready)
            (void)window_.keep(kept->psn, kept->bytes(), kept->size, kept->numbers);
        if (result != outcome::taken)
            return result != outcome::failed;
        window_.advance(next.numbers());
    }
    return true;
}

bool receiver::resume(std::uint32_t oldest_psn, bool &took)
{
    const std::uint32_t first = window_.next();
    not_ready_ = false;
    const bool good = take_kept(oldest_psn);
    took = window_.next() != first;
    if (!took)
        not_ready_ = false; // the peer knows already
    return good;
}

// ----------------------------------------------------------------- acknowledgements and credit

std::uint32_t receiver::credit() const
{
    // Receives of a shared queue may go to other queue pairs, so they cannot be promised. The
    // sender gets a receiver-not-ready when there is none.
    if (receives_->shared != nullptr)
        return msn_ + 0x10000;
    return msn_ + (receiving_ != nullptr ? 1 : 0) + receives_->ring.size();
}

void receiver::piggyback(base_header &base)
{
    base.ack = window_.next();
    base.credit = promise();
    if (!window_.holds_any() && !not_ready_ && !not_fetched_)
        ack_.settle();
    ack_.restart_count();
}

void receiver::acknowledged()
{
    ack_.settle();
    not_ready_ = not_fetched_ = false;
}

void receiver::watch_credit()
{
    if (lacks_receives())
        receives_->wanted.store(true);
    if (receives_->wanted.load() && !receives_->ring.empty() && has_news()) {
        receives_->wanted.store(false);
        ack_.owe_now();
    }
}

// --------------------------------------------------------------------------------------- receives

bool receiver::begin_receive()
{
    received_ = 0;
    if (receives_->shared != nullptr) {
        receiving_ = take_shared();
    } else if (!receives_->ring.empty()) {
        receiving_ = &receives_->ring.front();
        receives_->ring.pop();
    }
    return receiving_ != nullptr;
}

/// Returns null when there is none, or this queue pair may not hold more.
request *receiver::take_shared()
{
    if (receives_->shared_held->count() >= receives_->watermarks.hard)
        return nullptr;
    request *const taken = receives_->shared->take(*receives_->waiter);
    if (taken != nullptr && receives_->shared_held->add() > receives_->watermarks.soft)
        (void)keep_watermarks();
    return taken;
}

/// Why a message finds none.
segment_result receiver::no_receive() const
{
    const bool shared = receives_->shared != nullptr;
    if (!shared || receives_->shared_held->count() < receives_->watermarks.hard)
        return segment_result::not_ready();
    record_->ending.note(end_cause::watermark);
    return segment_result::fatal(fault::local_catastrophic);
}

bool receiver::keep_watermarks()
{
    high_watermarks &limits = receives_->watermarks;
    const std::uint32_t holds = receives_->shared_held->count();
    if (holds > limits.soft) {
        limits.soft = high_watermarks::none;
        events_->post(watermark_event);
    }
    return holds <= limits.hard;
}

void receiver::finish_receive(std::uint32_t length, brought extra, std::uint32_t immediate,
                              bool solicited)
{
    request &done = *std::exchange(receiving_, nullptr);
    ++msn_;
    received_ = 0;
    receives_->completions.complete_receive(done, length, extra, immediate, solicited);
}

segment_result receiver::fail_receive(work_status status, fault why)
{
    request &r = *receiving_;
    receiving_ = nullptr;
    receives_->completions.complete(r, status, 0);
    record_->ending.note(end_cause::receive_failed, why, status);
    return segment_result::fatal(why);
}

void receiver::flush()
{
    if (request *const r = receiving_; r != nullptr) {
        receiving_ = nullptr;
        receives_->completions.complete(*r, work_status::flushed, 0);
    }
    while (!receives_->ring.empty()) {
        request &r = receives_->ring.front();
        receives_->ring.pop();
        receives_->completions.complete(r, work_status::flushed, 0);
    }
}

void receiver::discard()
{
    receives_->ring.clear();
    if (receives_->shared != nullptr && receiving_ != nullptr)
        receives_->shared->give_back(*receiving_);
    receiving_ = nullptr;
}

// --------------------------------------------------------------------------------------- segments

segment_result receiver::on_segment(const packet &p, std::uint32_t oldest_psn)
{
    const ddp_segment &s = p.segment;
    switch (s.opcode) {
    case rdmap::write:
        return on_write(s);
    case rdmap::read_request:
        return responses_->on_read_request(s, window_.next());
    case rdmap::read_response:
        return requests_->on_read_response(s, oldest_psn);
    case rdmap::atomic_request:
        return responses_->on_atomic_request(s, window_.next());
    case rdmap::atomic_response:
        return requests_->on_atomic_response(s, oldest_psn);
    case rdmap::immediate:
    case rdmap::immediate_solicited:
        return on_immediate(s);
    default:
        return on_send(p);
    }
}

/// Copies the payload of a reference out of the peer's memory. `fetched`: it could be; a segment
/// of its own then says why it could not, if that is the fault of either side's memory.
work_status receiver::fetch(const packet &p, bool &fetched)
{
    bytes_view to[max_segments];
    std::uint32_t pieces = 0;
    const work_status status =
        memory_->list(*receiving_, received_, p.segment.payload_size, to, pieces);
    fetched = status != work_status::success;
    if (fetched || *direct_ == nullptr)
        return status;
    bytes_view from[far_payload::max_pieces];
    for (std::uint32_t i = 0; i < p.where.pieces; ++i)
        from[i] = {pointer_to(p.where.piece[i].address), p.where.piece[i].length};
    fetched = (*direct_)->fetch(from, p.where.pieces, to, pieces, p.segment.payload_size);
    record_->counts.fetched += fetched ? 1 : 0;
    return status;
}

segment_result receiver::on_send(const packet &p)
{
    const ddp_segment &s = p.segment;
    if (s.msn != msn_)
        return segment_result::fatal(fault::invalid_msn);
    if (receiving_ == nullptr && !begin_receive())
        return s.message_offset == 0 ? no_receive() : segment_result::fatal(fault::invalid_offset);
    if (s.message_offset != received_)
        return segment_result::fatal(fault::invalid_offset);
    if (s.payload_size > receiving_->length - received_)
        return fail_receive(work_status::local_length, fault::message_too_long);
    bool there = true;
    work_status status;
    if (p.base.kind == packet_kind::reference)
        status = fetch(p, there);
    else if (receives_->polled && received_ == 0 && s.last && s.payload_size <= most_copied)
        status = memory_->copy_in(*receiving_, s.payload, s.payload_size);
    else
        status = memory_->scatter(*receiving_, received_, s.payload, s.payload_size);
    if (!there)
        return segment_result::not_fetched();
    if (status != work_status::success)
        return fail_receive(status, fault::local_catastrophic);
    received_ += s.payload_size;
    if (!s.last)
        return {};
    const bool invalidates =
        s.opcode == rdmap::send_invalidate || s.opcode == rdmap::send_solicited_invalidate;
    if (invalidates && !memory_->invalidate(s.invalidate))
        return segment_result::fatal(fault::cannot_invalidate);
    const bool solicited =
        s.opcode == rdmap::send_solicited || s.opcode == rdmap::send_solicited_invalidate;
    finish_receive(received_, invalidates ? brought::invalidation : brought::nothing, s.invalidate,
                   solicited);
    return {};
}

segment_result receiver::on_immediate(const ddp_segment &s)
{
    if (s.msn != msn_)
        return segment_result::fatal(fault::invalid_msn);
    if (received_ != 0 || s.immediate > UINT32_MAX)
        return segment_result::fatal(fault::stream_catastrophic);
    if (receiving_ == nullptr && !begin_receive())
        return no_receive();
    finish_receive(written_, brought::immediate, static_cast<std::uint32_t>(s.immediate),
                   s.opcode == rdmap::immediate_solicited);
    return {};
}

segment_result receiver::on_write(const ddp_segment &s)
{
    if (write_over_)
        written_ = 0;
    write_over_ = s.last;
    written_ += s.payload_size;
    if (s.payload_size == 0)
        return {};
    const grant access = memory_->access(s.stag, remote_write, s.offset, s.payload_size);
    if (!access)
        return segment_result::fatal(fault_of(access.fault()));
    // Consumers spin on the last byte of a write.
    if (!memory_->place(s.offset, s.payload, s.payload_size, s.last))
        return segment_result::fatal(fault::base_or_bounds); // the memory is not mapped any more
    return {};
}

} // namespace soft_hca
