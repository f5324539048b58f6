// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "transmitter.hpp"

#include <algorithm>

namespace soft_hca {

namespace {

constexpr std::uint32_t first_probe_us = 10'000;
constexpr std::uint32_t longest_probe_us = 500'000;
constexpr std::uint32_t first_pause_us = 500;
constexpr std::uint32_t longest_pause_us = 20'000;
/// After a reference that the peer could not read. Its reason may last, or have been that the peer
/// had not seen our process yet.
constexpr std::int64_t no_references_ns = 100'000'000;
constexpr std::int64_t busy_retry_ns = 1'000'000; ///< used after the network accepted no more
/// busy_retry_ns doubles with each timeout, so many times.
constexpr std::uint32_t most_doublings = 6;

std::int64_t ns_of_us(std::uint32_t us)
{
    return std::int64_t{us} * 1000;
}

/// No completion depends on it.
bool may_be_acknowledged_late(const sent_packet &packet)
{
    return packet.from == sent_packet::origin::response ||
           (packet.from == sent_packet::origin::request &&
            is_silent(*static_cast<const request *>(packet.source)));
}

/// The memory that a packet is made of is not mapped any more.
pair_failure unreadable(const sent_packet &packet)
{
    if (packet.from == sent_packet::origin::response)
        return pair_failure::terminate(fault::base_or_bounds,
                                       static_cast<const response *>(packet.source)->request_psn,
                                       nullptr, work_status::local_protection);
    return pair_failure::terminate(fault::local_catastrophic, 0,
                                   static_cast<request *>(packet.source),
                                   work_status::local_protection);
}

} // namespace

void transmitter::limit_to(std::uint32_t receive_room)
{
    window_bytes_ = std::clamp(receive_room, 2 * owed_ack::every_bytes, most_bytes);
}

// ---------------------------------------------------------------------------- choosing packets

OSD_ALWAYS_INLINE bool transmitter::next_new_packet(std::int64_t now, std::uint32_t &psn)
{
    const auto next_response = [&] {
        const bool any = responses_->pending();
        if (any)
            psn = responses_->next_packet(*path_, now);
        return any;
    };
    if (responses_turn_ && next_response()) {
        responses_turn_ = false;
        return true;
    }
    if (requests_->next_packet(*path_, now, psn)) {
        responses_turn_ = true;
        return true;
    }
    return !requests_->failed() && next_response();
}

bool transmitter::next_packet(std::int64_t now, std::uint32_t &psn)
{
    pacer_holds_ = false;
    if (paused_until_ > now)
        return false;
    if (idle())
        resend_from_ = now;
    if (stuck()) {
        if (!may_resend())
            return false;
        psn = window_->take_lost(now);
        ++record_->counts.packets_resent;
        return true;
    }
    if (window_is_full() || !congestion_.has_room(window_->on_the_way()))
        return false;
    pacer_holds_ = pacer_.holds(now);
    if (pacer_holds_ || !next_new_packet(now, psn))
        return false;
    pacer_.sent(now, congestion_, rtt_);
    return true;
}

// ---------------------------------------------------------------------------- building packets

base_header transmitter::make_header(packet_kind kind, std::uint32_t psn)
{
    base_header base = path_->header(kind, psn);
    received_->piggyback(base);
    return base;
}

/// With a psn that the peer has already acknowledged it is a duplicate there, which makes the peer
/// acknowledge all that it has.
void transmitter::build_probe(out_packet &out, std::uint32_t psn)
{
    out.add(out.header, write_base(out.header, make_header(packet_kind::probe, psn)));
}

OSD_ALWAYS_INLINE bool transmitter::build(out_packet &out, std::uint32_t psn,
                                          windows_being_read &read)
{
    const sent_packet &packet = window_->at(psn);
    const bool responds = packet.from == sent_packet::origin::response;
    if (responds && !responses_->begin_reading(packet, read)) {
        // A copy may have arrived before, and the peer's right been withdrawn for that reason.
        if (packet.again) {
            build_probe(out, window_->oldest() - 1);
            return true;
        }
        return fail(pair_failure::terminate(
            fault::invalid_stag, static_cast<const response *>(packet.source)->request_psn));
    }
    if (packet.from == sent_packet::origin::none) {
        build_probe(out, psn);
        return true;
    }
    base_header base = make_header(packet_kind::data, psn);
    if (may_be_acknowledged_late(packet))
        base.flags = flag_late_ack;
    if (const request *const whole = requester::whole_send_of(packet); whole != nullptr) {
        requester::build_whole(out, base, *whole);
        return true;
    }
    out.add(out.header, write_base(out.header, base));
    if (responds)
        responses_->build(out, packet);
    else
        requests_->build(out, packet);
    return true;
}

// ----------------------------------------------------------------------------- sending packets

bool transmitter::fail(const pair_failure &why)
{
    failure_ = why;
    return false;
}

OSD_ALWAYS_INLINE bool transmitter::transmit(const out_packet *packets, const std::uint32_t *psns,
                                             std::uint32_t count, bool by_ring)
{
    std::uint32_t done = 0;
    send_result result = send_result::sent;
    ring_path *const ring = by_ring ? path_->ring() : nullptr;
    if (ring != nullptr) {
        const bool plain = count == 1 && requests_->may_copy(window_->at(psns[0]));
        result = ring_choice_.send(*ring, *window_, packets, psns, count, plain, done);
        record_->counts.by_ring += done;
    }
    if (result == send_result::sent && done != count) {
        std::uint32_t rest = 0;
        result = path_->send(packets + done, count - done, rest);
        done += rest;
    }
    record_->counts.packets_out += done;
    if (result == send_result::bad_memory)
        return fail(unreadable(window_->at(psns[done])));
    if (done == 0)
        received_->ack().owe_now(); // none carries an acknowledgement
    for (; done < count; ++done)
        window_->mark_lost(psns[done]);
    return true;
}

bool transmitter::send_batch(std::int64_t now, bool &more)
{
    constexpr std::uint32_t batch = large_batch::most;
    std::uint32_t psns[batch];
    std::uint32_t count = 0;
    while (count < batch && next_packet(now, psns[count])) {
        ++count;
        if (!stuck() && requests_->all_started() && !responses_->pending())
            break; // spares a look at windows and pacer for a packet that there is not
    }
    if (requests_->failed())
        return fail(requests_->failure());
    more = count == batch;
    if (requests_->has_chosen_long()) [[unlikely]]
        return send_with_long(psns, count, now);
    return send_chosen(psns, count);
}

transmitter::attempt transmitter::send_at_once(request &send, std::int64_t now)
{
    if (paused_until_ != 0 || stuck() || window_is_full() ||
        !congestion_.has_room(window_->on_the_way()) || pacer_.holds(now) ||
        responses_->pending() || !requests_->may_send_whole(send, *path_))
        return attempt::none;
    if (idle())
        resend_from_ = now;
    const std::uint32_t psn = window_->next();
    requests_->push_whole(send, psn, now);
    pacer_holds_ = false;
    pacer_.sent(now, congestion_, rtt_);
    responses_turn_ = true;
    out_packet out;
    out.begin();
    base_header base = make_header(packet_kind::data, psn);
    if (is_silent(send))
        base.flags = flag_late_ack;
    requester::build_whole(out, base, send);
    return transmit(&out, &psn, 1, true) ? attempt::made : attempt::failed;
}

/// The packets of a small batch are on the stack, which may be a small one. The packets of a large
/// batch are in an area borrowed from the shard, or are sent few at a time if none is free.
OSD_ALWAYS_INLINE bool transmitter::send_chosen(const std::uint32_t *psns, std::uint32_t count)
{
    constexpr std::uint32_t few = 4;
    constexpr std::uint32_t batch = large_batch::most;
    static_assert(batch <= windows_being_read::max_batch);
    out_packet own[few];
    const large_batches::loan lent = count > few ? batches_->borrow() : large_batches::loan();
    out_packet *const packets = lent.get() != nullptr ? lent.get()->packets : own;
    const std::uint32_t most = lent.get() != nullptr ? batch : few;
    for (std::uint32_t at = 0; at < count; at += most) {
        const std::uint32_t some = std::min(most, count - at);
        windows_being_read read;
        for (std::uint32_t i = 0; i < some; ++i) {
            packets[i].begin();
            if (!build(packets[i], psns[at + i], read))
                return false;
        }
        if (!transmit(packets, psns + at, some, true))
            return false;
    }
    return true;
}

// -------------------------------------------------------------------------------- long sends

namespace {

/// The number of packets, from the first, that belong to one long send and were not sent before.
std::uint32_t of_one_long_send(send_window &window, const std::uint32_t *psns, std::uint32_t count)
{
    const request *const r = requester::long_send_of(window.at(psns[0]));
    std::uint32_t some = 0;
    while (r != nullptr && some < count && psns[some] == psns[0] + some &&
           requester::long_send_of(window.at(psns[some])) == r)
        ++some;
    return some;
}

} // namespace

/// Puts a reference into the ring in place of these packets of a long send.
bool transmitter::refer(const std::uint32_t *psns, std::uint32_t count, std::int64_t now)
{
    ring_path *const ring = path_->ring();
    if (ring == nullptr || path_->is_sealed() || now < refer_from_ ||
        !requests_->may_be_fetched_from())
        return false;
    std::uint32_t size = 0;
    for (std::uint32_t i = 0; i < count; ++i)
        size += window_->at(psns[i]).length;
    const sent_packet &first = window_->at(psns[0]);
    out_packet out;
    out.begin();
    base_header base = make_header(packet_kind::reference, psns[0]);
    if (may_be_acknowledged_late(first))
        base.flags = flag_late_ack;
    out.add(out.header, write_base(out.header, base));
    requests_->refer(out, first, size, count);
    std::uint32_t done = 0;
    (void)ring_choice_.send(*ring, *window_, &out, psns, 1, true, done);
    if (done == 0)
        return false;
    for (std::uint32_t i = 0; i < count; ++i) {
        sent_packet &each = window_->at(psns[i]);
        each.by_ring = each.referred = true;
    }
    ++record_->counts.by_ring;
    ++record_->counts.packets_out;
    return true;
}

/// Sends packets some of which belong to long sends.
bool transmitter::send_with_long(const std::uint32_t *psns, std::uint32_t count, std::int64_t now)
{
    std::uint32_t begin = 0; // of the packets that are not sent yet
    for (std::uint32_t at = 0; at < count;) {
        const std::uint32_t some = of_one_long_send(*window_, psns + at, count - at);
        if (some != 0) {
            if (begin != at && !send_chosen(psns + begin, at - begin))
                return false;
            begin = refer(psns + at, some, now) ? at + some : at;
        }
        at += std::max<std::uint32_t>(some, 1);
    }
    return begin == count || send_chosen(psns + begin, count - begin);
}

void transmitter::send_plain(packet_kind kind, const std::uint8_t *body, std::size_t size,
                             std::uint16_t flags)
{
    out_packet out;
    out.begin();
    base_header base = make_header(kind, window_->next());
    base.flags = flags;
    out.add(out.header, write_base(out.header, base));
    out.add(body, size);
    record_->counts.packets_out += path_->send_one(out);
}

void transmitter::send_ack()
{
    std::uint32_t words[max_sack_words];
    const std::uint32_t count = received_->describe(words, max_sack_words);
    std::uint8_t body[4 + sizeof words];
    const int flags = (received_->not_ready() ? flag_receiver_not_ready : 0) |
                      (received_->not_fetched() ? flag_not_fetched : 0);
    send_plain(packet_kind::ack, body, write_sack(body, words, count),
               static_cast<std::uint16_t>(flags));
    received_->acknowledged();
}

bool transmitter::send_probe(std::int64_t now)
{
    if (!window_->has_room())
        return true;
    if (idle())
        resend_from_ = now;
    const std::uint32_t psn = window_->next();
    (void)window_->push(now);
    out_packet out;
    out.begin();
    build_probe(out, psn);
    probe_delay_us_ = std::clamp(2 * probe_delay_us_, first_probe_us, longest_probe_us);
    probe_due_ = now + ns_of_us(probe_delay_us_);
    return transmit(&out, &psn, 1, false);
}

// ---------------------------------------------------------------------------- acknowledgements

request *transmitter::request_of(std::uint32_t psn)
{
    const bool outstanding = !before(psn, window_->oldest()) && before(psn, window_->next());
    if (!outstanding || window_->at(psn).from != sent_packet::origin::request)
        return nullptr;
    return static_cast<request *>(window_->at(psn).source);
}

bool transmitter::is_recent(std::uint32_t psn) const
{
    const std::int32_t age = distance(psn, window_->next());
    return age >= 0 && age <= static_cast<std::int32_t>(2 * send_window::capacity);
}

/// Returns true when there were some.
OSD_ALWAYS_INLINE bool transmitter::retire_acknowledged(std::uint32_t ack, std::int64_t now)
{
    bool any = false;
    while (const sent_packet *packet = window_->acknowledged(ack)) {
        if (packet->last && packet->from == sent_packet::origin::response)
            responses_->retire_oldest();
        if (packet->last && packet->from == sent_packet::origin::request)
            requester::acknowledged(*static_cast<request *>(packet->source));
        window_->pop(rtt_, now);
        any = true;
    }
    window_->settle();
    return any;
}

void transmitter::on_acknowledgement(const base_header &base, const std::uint32_t *sack,
                                     std::uint32_t sack_words, std::int64_t now)
{
    if (requests_->grant_credit(base.credit)) {
        probe_due_ = 0;
        probe_delay_us_ = 0;
    }
    const bool describes = base.kind == packet_kind::ack; // all that the peer keeps
    const std::int32_t ahead = distance(window_->oldest(), base.ack);
    if (ahead < 0 || (ahead == 0 && !describes))
        return; // overtaken by a newer one, or nothing new
    const std::uint32_t was_in_flight = window_->in_flight();
    const std::uint32_t was_on_the_way = window_->on_the_way();
    const bool progress = retire_acknowledged(base.ack, now);
    const bool not_ready = describes && (base.flags & flag_receiver_not_ready) != 0 && !idle();
    if (describes && !not_ready && !idle() && window_->at(window_->oldest()).sacked)
        window_->take_back(sack, sack_words);
    if (sack_words != 0)
        window_->acknowledge_selectively(base.ack, sack, sack_words, rtt_, now);
    // The oldest has arrived; an arrival of later packets does not count.
    if (progress || not_ready) {
        resend_from_ = now;
        retries_ = 0;
        tail_probed_ = false;
        rtt_.progress();
        if (not_ready)
            rtt_.end_back_off();
    }
    if (progress) {
        pause_us_ = 0;
        paused_until_ = 0;
        // A packet is probably lost if a packet that was sent later has been acknowledged.
        window_->suspect_overtaken(rtt_);
        requests_->complete_done();
    }
    judge_congestion(was_in_flight, was_on_the_way);
    if (describes && (base.flags & flag_not_fetched) != 0) [[unlikely]] {
        refer_from_ = now + no_references_ns;
        window_->repeat_referred();
    }
    if (not_ready)
        pause(now);
}

void transmitter::judge_congestion(std::uint32_t was_in_flight, std::uint32_t was_on_the_way)
{
    std::uint32_t lost = 0;
    if (window_->take_found(lost))
        congestion_.lost(lost, window_->next());
    else if (was_in_flight != window_->in_flight())
        congestion_.arrived(was_in_flight - window_->in_flight(), was_on_the_way, rtt_.queues());
}

/// The peer has no receive for the oldest packet: retransmits it after a pause.
void transmitter::pause(std::int64_t now)
{
    pause_us_ = std::clamp(2 * pause_us_, first_pause_us, longest_pause_us);
    paused_until_ = now + ns_of_us(pause_us_);
    resend_from_ = paused_until_;
    window_->repeat_oldest();
}

// --------------------------------------------------------------------------------------- timers

std::int64_t transmitter::unusual_due_ns()
{
    std::int64_t due = paused_until_ != 0 ? paused_until_ : INT64_MAX;
    if (!idle()) {
        // A probe is in flight like other packets.
        due = std::min(due, resend_from_ + patience_ns());
    } else if (requests_->out_of_credit()) {
        if (probe_due_ == 0)
            probe_due_ = osd::now_ns() + ns_of_us(first_probe_us);
        due = std::min(due, probe_due_);
    }
    if (pacer_holds_)
        due = std::min(due, pacer_.next_ns());
    if (may_resend() && paused_until_ == 0)
        due = std::min(due, osd::now_ns() + (busy_retry_ns << std::min(retries_, most_doublings)));
    return due;
}

std::int64_t transmitter::patience_ns() const
{
    if (!may_probe_tail())
        return std::int64_t{rtt_.rto_us()} * 1000;
    const bool late = !idle() && may_be_acknowledged_late(window_->latest());
    const std::int64_t delay = late ? owed_ack::late_delay_ns : owed_ack::delay_ns;
    return std::int64_t{rtt_.probe_us(static_cast<std::uint32_t>(delay / 1000))} * 1000;
}

bool transmitter::on_timeout(std::int64_t now, std::uint32_t max_retries)
{
    if (may_probe_tail()) {
        tail_probed_ = true;
        ++record_->counts.tail_probes;
        window_->repeat_latest();
        resend_from_ = now;
        return true;
    }
    ++record_->counts.timeouts;
    // Only the oldest packet counts, whatever else was acknowledged: a path may pass some packets
    // and not others.
    if (++retries_ > max_retries)
        return false;
    record_->ending.retransmits();
    if (retries_ > 1)
        congestion_.timed_out_again(window_->next());
    // Not sooner: a firewall may refuse the probe, which comes from another port.
    if (retries_ > trusted_retries)
        path_->doubt_peer(window_->oldest());
    window_->repeat_oldest();
    rtt_.back_off();
    resend_from_ = now;
    return true;
}

bool transmitter::response_overdue(std::int64_t now, std::uint32_t max_retries)
{
    outstanding_reads &reads = requests_->reads();
    return reads.any() &&
           reads.overdue(requests_->acknowledged_read(window_->oldest()), record_->counts.not_ready,
                         rtt_.patience_us(max_retries), now);
}

} // namespace soft_hca
