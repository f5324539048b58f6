// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "receiver.hpp"

namespace soft_hca {

// --------------------------------------------------------------------------------------- packets

bool receiver::receive(const packet &p, const std::uint8_t *bytes, std::size_t size,
                       std::uint32_t oldest_psn)
{
    ack_.owe((p.base.flags & flag_late_ack) == 0);
    switch (window_.place_of(p.base.psn)) {
    case receive_window::place::old:
        ++context_->counted.duplicates;
        ack_.hurry();
        return true;
    case receive_window::place::beyond:
        ++context_->counted.dropped;
        return true;
    case receive_window::place::early:
        ++context_->counted.early;
        ack_.hurry_for_a_while();
        (void)window_.keep(p.base.psn, bytes, size); // if it cannot be kept, it counts as lost
        return true;
    case receive_window::place::in_order:
        break;
    }
    if (window_.holds_any())
        ack_.hurry();
    switch (take(p, oldest_psn)) {
    case outcome::taken:
        window_.advance();
        return take_kept(oldest_psn);
    case outcome::not_ready:
        (void)window_.keep(p.base.psn, bytes, size); // until a receive is posted for it
        break;
    case outcome::failed:
        return false;
    }
    return true;
}

receiver::outcome receiver::take(const packet &p, std::uint32_t oldest_psn)
{
    const segment_result result =
        p.base.kind == packet_kind::probe ? segment_result{} : on_segment(p.segment, oldest_psn);
    switch (result.what) {
    case segment_result::kind::taken:
        ack_.count(p.segment.payload_size);
        return outcome::taken;
    case segment_result::kind::not_ready:
        ++context_->counted.not_ready;
        not_ready_ = true;
        ack_.hurry();
        return outcome::not_ready;
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
            (void)window_.keep(kept->psn, kept->bytes(), kept->size);
        if (result != outcome::taken)
            return result != outcome::failed;
        window_.advance();
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
    if (context_->with.shared != nullptr)
        return msn_ + 0x10000;
    return msn_ + (receiving_ != nullptr ? 1 : 0) + context_->receives.ring.size();
}

void receiver::piggyback(base_header &base)
{
    base.ack = window_.next();
    base.credit = promise();
    if (!window_.holds_any() && !not_ready_)
        ack_.settle();
    ack_.restart_count();
}

void receiver::acknowledged()
{
    ack_.settle();
    not_ready_ = false;
}

void receiver::watch_credit()
{
    if (lacks_receives())
        context_->receives.wanted.store(true);
    if (context_->receives.wanted.load() && !context_->receives.ring.empty() && has_news()) {
        context_->receives.wanted.store(false);
        ack_.owe_now();
    }
}

// --------------------------------------------------------------------------------------- receives

bool receiver::begin_receive()
{
    received_ = 0;
    if (context_->with.shared != nullptr) {
        receiving_ = take_shared();
    } else if (!context_->receives.ring.empty()) {
        receiving_ = &context_->receives.ring.front();
        context_->receives.ring.pop();
    }
    return receiving_ != nullptr;
}

/// Null when there is none, or this queue pair may not hold more.
request *receiver::take_shared()
{
    if (context_->held->count() >= context_->watermarks.hard)
        return nullptr;
    request *const taken = context_->with.shared->take(*context_->waiter);
    if (taken != nullptr && context_->held->add() > context_->watermarks.soft)
        (void)keep_watermarks();
    return taken;
}

/// Why a message finds none.
segment_result receiver::no_receive() const
{
    const bool shared = context_->with.shared != nullptr;
    if (!shared || context_->held->count() < context_->watermarks.hard)
        return segment_result::not_ready();
    context_->ending.note(end_cause::watermark);
    return segment_result::fatal(fault::local_catastrophic);
}

bool receiver::keep_watermarks()
{
    high_watermarks &limits = context_->watermarks;
    const std::uint32_t holds = context_->held->count();
    if (holds > limits.soft) {
        limits.soft = high_watermarks::none;
        context_->home->upcalls.post(*context_->events, watermark_event);
    }
    return holds <= limits.hard;
}

void receiver::finish_receive(const completion_record &done)
{
    receiving_ = nullptr;
    ++msn_;
    received_ = 0;
    context_->receive_completions->push(done);
}

segment_result receiver::fail_receive(work_status status, fault why)
{
    request &r = *receiving_;
    receiving_ = nullptr;
    context_->complete(r, status, 0, context_->receive_completions);
    context_->ending.note(end_cause::receive_failed, why, status);
    return segment_result::fatal(why);
}

void receiver::flush()
{
    if (request *const r = receiving_; r != nullptr) {
        receiving_ = nullptr;
        context_->complete(*r, work_status::flushed, 0, context_->receive_completions);
    }
    while (!context_->receives.ring.empty()) {
        request &r = context_->receives.ring.front();
        context_->receives.ring.pop();
        context_->complete(r, work_status::flushed, 0, context_->receive_completions);
    }
}

void receiver::discard()
{
    context_->receives.ring.clear();
    if (context_->with.shared != nullptr && receiving_ != nullptr)
        context_->with.shared->give_back(*receiving_);
    receiving_ = nullptr;
}

// --------------------------------------------------------------------------------------- segments

segment_result receiver::on_segment(const ddp_segment &s, std::uint32_t oldest_psn)
{
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
        return on_send(s);
    }
}

segment_result receiver::on_send(const ddp_segment &s)
{
    if (s.msn != msn_)
        return segment_result::fatal(fault::invalid_msn);
    if (receiving_ == nullptr && !begin_receive())
        return s.message_offset == 0 ? no_receive() : segment_result::fatal(fault::invalid_offset);
    if (s.message_offset != received_)
        return segment_result::fatal(fault::invalid_offset);
    if (s.payload_size > receiving_->length - received_)
        return fail_receive(work_status::local_length, fault::message_too_long);
    const work_status status = context_->scatter(*receiving_, received_, s.payload, s.payload_size);
    if (status != work_status::success)
        return fail_receive(status, fault::local_catastrophic);
    received_ += s.payload_size;
    if (!s.last)
        return {};
    const bool invalidates =
        s.opcode == rdmap::send_invalidate || s.opcode == rdmap::send_solicited_invalidate;
    if (invalidates &&
        !context_->of->windows.invalidate(s.invalidate, *context_->with.domain, context_->serial))
        return segment_result::fatal(fault::cannot_invalidate);
    const bool solicited =
        s.opcode == rdmap::send_solicited || s.opcode == rdmap::send_solicited_invalidate;
    finish_receive({receiving_, received_, s.invalidate, context_->id,
                    static_cast<std::uint8_t>(context_->home->index), work_status::success,
                    invalidates ? brought::invalidation : brought::nothing, solicited});
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
    finish_receive({receiving_, written_, static_cast<std::uint32_t>(s.immediate), context_->id,
                    static_cast<std::uint8_t>(context_->home->index), work_status::success,
                    brought::immediate, s.opcode == rdmap::immediate_solicited});
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
    const grant access = context_->access(s.stag, remote_write, s.offset, s.payload_size);
    if (!access)
        return segment_result::fatal(fault_of(access.fault()));
    // Consumers spin on the last byte of a write.
    if (!context_->home->io().place(pointer_to(s.offset), s.payload, s.payload_size, s.last))
        return segment_result::fatal(fault::base_or_bounds); // the memory is not mapped any more
    return {};
}

} // namespace soft_hca
