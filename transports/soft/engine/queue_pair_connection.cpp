// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How a queue pair comes to a connection and loses it, and its timers.
#include "device.hpp"
#include "queue_pair.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace soft_hca {

namespace {

constexpr std::uint32_t first_handshake_us = 20'000;
constexpr std::uint32_t longest_handshake_us = 500'000;
constexpr std::uint32_t refused_again_us = 10'000;

std::int64_t ms(std::uint32_t count)
{
    return std::int64_t{count} * 1'000'000;
}

/// What the initiator's completion says of a fault that the responder found.
work_status status_for(fault why)
{
    switch (why) {
    case fault::invalid_stag:
    case fault::base_or_bounds:
    case fault::access_rights:
    case fault::wrong_stream:
    case fault::wrap:
    case fault::cannot_invalidate:
        return work_status::remote_access;
    default:
        return work_status::remote_operation;
    }
}

} // namespace

// ------------------------------------------------------------------------------------ beginning

queue_pair::start queue_pair::connect(const net_address &to, std::uint64_t qualifier,
                                      const void *data, std::size_t size) OSD_UNCHECKED
{
    enter();
    start answer_code = start::begun;
    if (state_ != state::idle) {
        answer_code = start::wrong_state;
    } else {
        hello_.reset(new (std::nothrow) own_hello);
        if (hello_ == nullptr)
            answer_code = start::no_memory;
    }
    if (answer_code == start::begun) {
        hello_->qualifier = qualifier;
        hello_->size = size;
        if (size != 0)
            std::memcpy(hello_->data, data, size);
        peer_ = to;
        peer_.set_port(static_cast<std::uint16_t>(qualifier));
        state_ = state::connecting;
        handshake_delay_us_ = first_handshake_us;
        send_handshake(osd::now_ns());
        update_due();
    }
    leave();
    return answer_code;
}

queue_pair::start queue_pair::accept(inbound_request &from, const void *data,
                                     std::size_t size) OSD_UNCHECKED
{
    enter();
    start answer_code = start::begun;
    if (state_ != state::idle) {
        answer_code = start::wrong_state;
    } else {
        hello_.reset(new (std::nothrow) own_hello);
        if (hello_ == nullptr)
            answer_code = start::no_memory;
    }
    if (answer_code == start::begun) {
        const bool withdrawn = !of->listening.take(from);
        hello_->size = size;
        if (size != 0)
            std::memcpy(hello_->data, data, size);
        adopt_peer(from.peer, from.hello, from.credit);
        state_ = state::accepting;
        handshake_delay_us_ = first_handshake_us;
        retries_ = 0;
        if (withdrawn)
            die(connection_event::accept_failed);
        else
            send_handshake(osd::now_ns());
        update_due();
    }
    leave();
    return answer_code;
}

handshake queue_pair::hello() const
{
    handshake h;
    h.qualifier = hello_->qualifier;
    h.id = id;
    h.tag = tag_;
    h.first_psn = first_psn_;
    h.max_datagram = of->datagram();
    h.reads_out = std::max<std::uint16_t>(with.reads_out, 1);
    h.reads_in = std::max<std::uint16_t>(with.reads_in, 1);
    return h;
}

/// Request or accept; again and again until there is an answer.
void queue_pair::send_handshake(std::int64_t now)
{
    std::uint8_t body[request_size + max_private_data];
    const bool asks = state_ == state::connecting;
    const std::size_t size = asks ? write_request(body, hello(), hello_->data, hello_->size)
                                  : write_accept(body, hello(), hello_->data, hello_->size);
    const base_header base{asks ? packet_kind::request : packet_kind::accept,
                           0,
                           peer_id_,
                           peer_tag_,
                           id,
                           first_psn_,
                           asks ? 0 : rx_.next(),
                           credit()};
    told_credit_ = base.credit;
    out_packet out;
    out.begin();
    out.add(out.header, write_base(out.header, base));
    out.add(body, size);
    std::uint32_t done = 0;
    const send_result result = home->io().send(peer_, &out, 1, done);
    if (result == send_result::unreachable) {
        die(asks ? connection_event::unreachable : connection_event::accept_failed);
        return;
    }
    if (asks && handshake_delay_us_ != first_handshake_us)
        home->io().doubt(peer_, out);
    handshake_due_ = now + std::int64_t{handshake_delay_us_} * 1000;
    handshake_delay_us_ = std::min(2 * handshake_delay_us_, longest_handshake_us);
}

void queue_pair::adopt_peer(const net_address &from, const handshake &h, std::uint32_t its_credit)
{
    peer_ = from;
    peer_id_ = h.id;
    peer_tag_ = h.tag;
    max_datagram_ = std::min(of->datagram(), h.max_datagram);
    window_bytes_ = std::clamp(home->io().receive_room(), 2 * ack_every_bytes, most_bytes);
    max_questions_ = std::max<std::uint32_t>(std::min(with.reads_out, h.reads_in), 1);
    peer_credit_ = its_credit;
    rx_.start(h.first_psn);
}

void queue_pair::go_live()
{
    state_ = state::live;
    hello_.reset();
    handshake_due_ = refused_since_ = 0;
    retries_ = 0;
    heard_ns_ = osd::now_ns();
    if (with.shared == nullptr && receives_.empty())
        wants_receives_.store(true);
    home->tell_established(*this);
}

void queue_pair::receive_accept(const packet &p, const net_address &from, std::int64_t)
{
    const bool again = connected() && from == peer_ && p.base.from == peer_id_;
    const bool expected = state_ == state::connecting && from.same_host(peer_);
    if (p.base.tag != tag_ || (!again && !expected)) {
        ++counted.dropped;
        return;
    }
    if (!again) {
        adopt_peer(from, p.hello, p.base.credit);
        std::memcpy(answer, p.private_data, p.private_size);
        answer_size = p.private_size;
        go_live();
    }
    ack_owed_ = ack_now_ = true; // the peer waits for it
}

void queue_pair::receive_reject(const packet &p)
{
    if (state_ != state::connecting)
        return;
    std::memcpy(answer, p.private_data, p.private_size);
    answer_size = p.private_size;
    die(p.rejection == reject_code::consumer ? connection_event::rejected
                                             : connection_event::refused);
}

// ----------------------------------------------------------------------------------- the end

/// All that is posted comes back, and then the event.
void queue_pair::die(connection_event event)
{
    wind_up();
    home->tell_end(*this, event);
}

void queue_pair::wind_up()
{
    state_ = state::dead;
    ack_owed_ = ack_awaited_ = ack_now_ = false;
    ack_due_ = resend_from_ = probe_due_ = blocked_until_ = handshake_due_ = linger_until_ = 0;
    questions_out_ = 0;
    begun_ = write_sent_ = false;
    wants_receives_.store(true); // receives that are posted from now on ring, and are flushed
    tx_.start(tx_.next());
    if (with.shared != nullptr)
        with.shared->wait_no_more(*this);
    in_flight_.store(0);
    rx_.forget();
    hello_.reset();
    flush();
}

/// Ends a connection because of an error. Tells the peer why, if closing_ says so.
void queue_pair::fail_connection(connection_event event, request *culprit, work_status status)
{
    if (culprit != nullptr) {
        culprit->done = true;
        culprit->status = status;
    }
    if (closing_.code == close_code::terminate)
        close(closing_, osd::now_ns());
    die(event);
}

void queue_pair::close(const close_info &info, std::int64_t now)
{
    closing_ = info;
    closes_left_ = close_attempts;
    send_close(now);
}

void queue_pair::send_close(std::int64_t now)
{
    std::uint8_t body[close_size];
    const std::size_t size = write_close(body, closing_);
    if (state_ == state::connecting) {
        // The listener knows us by what our request said.
        const base_header base{packet_kind::close, 0, 0, tag_, id, first_psn_, 0, 0};
        out_packet out;
        out.begin();
        out.add(out.header, write_base(out.header, base));
        out.add(body, size);
        std::uint32_t done = 0;
        (void)home->io().send(peer_, &out, 1, done);
        return;
    }
    send_plain(packet_kind::close, body, size);
    closes_left_ -= closes_left_ != 0 ? 1 : 0;
    close_due_ = closes_left_ != 0 ? now + close_interval_ns : 0;
}

void queue_pair::close_when_drained(std::int64_t now)
{
    if (state_ != state::draining || !sends_.empty() || !tx_.empty() ||
        response_head_ != response_tail_)
        return;
    close({}, now);
    die(connection_event::disconnected);
}

void queue_pair::disconnect(bool graceful) OSD_UNCHECKED
{
    enter();
    const std::int64_t now = osd::now_ns();
    if (state_ == state::live && graceful) {
        state_ = state::draining;
        linger_until_ = now + ms(of->how().linger_ms);
        pump(now);
    } else if (connected() && !graceful) {
        close({}, now);
        die(connection_event::disconnected);
    } else if (state_ == state::connecting || state_ == state::accepting) {
        send_close(now);
        wind_up();
    }
    update_due();
    leave();
}

void queue_pair::abandon() OSD_UNCHECKED
{
    enter();
    if (state_ != state::dead) {
        if (connected())
            close({}, osd::now_ns());
        else if (state_ != state::idle)
            send_close(osd::now_ns());
        wind_up();
        update_due();
    }
    home->hush(*this);
    leave();
}

void queue_pair::receive_close(const packet &p, std::int64_t now)
{
    if (connected() && !before(tx_.next(), p.base.ack))
        take_acknowledgement(p, now);
    send_plain(packet_kind::close_ack, nullptr, 0);
    if (state_ == state::accepting)
        return die(connection_event::accept_failed);
    if (!connected())
        return;
    if (p.closing.code == close_code::disconnect)
        return die(connection_event::disconnected);
    request *culprit = nullptr;
    if (was_sent(p.closing.psn) && tx_.at(p.closing.psn).from == sent_packet::origin::request)
        culprit = static_cast<request *>(tx_.at(p.closing.psn).source);
    // A question may have been acknowledged before its answer became impossible.
    for (std::uint32_t at = sends_.head(); culprit == nullptr && at != next_send_; ++at)
        if (request &r = sends_.at(at); has_response(r) && !r.done && r.last_psn == p.closing.psn)
            culprit = &r;
    fail_connection(connection_event::broken, culprit, status_for(p.closing.why));
}

bool queue_pair::was_sent(std::uint32_t psn) const
{
    return !before(psn, tx_.oldest()) && before(psn, tx_.next());
}

/// The peer's host says that nobody there knows the connection. It quotes what only we and the
/// peer know.
void queue_pair::receive_reset(const packet &p)
{
    const std::int32_t age = distance(p.base.psn, tx_.next());
    if (p.base.tag != peer_tag_ || p.base.from != peer_id_ || age < 0 ||
        age > static_cast<std::int32_t>(2 * window)) {
        ++counted.dropped;
        return;
    }
    closes_left_ = 0;
    close_due_ = 0;
    if (state_ == state::accepting)
        die(connection_event::accept_failed);
    else if (connected())
        die(connection_event::disconnected);
}

/// A packet of ours found nobody. The quotation proves that it is ours.
void queue_pair::bounce(const bounced &b, const base_header &quoted, std::int64_t now)
{
    const std::int32_t age = distance(quoted.psn, tx_.next());
    if (!(b.to == peer_) || quoted.tag != peer_tag_ || age < 0 ||
        age > static_cast<std::int32_t>(2 * window))
        return;
    if (b.why != send_result::refused && b.why != send_result::unreachable)
        return;
    closes_left_ = 0;
    close_due_ = 0;
    if (state_ == state::accepting) {
        die(connection_event::accept_failed);
    } else if (state_ == state::connecting && b.why == send_result::unreachable) {
        die(connection_event::unreachable);
    } else if (state_ == state::connecting) {
        // Programs that exchange their addresses first may be early.
        if (refused_since_ == 0)
            refused_since_ = now;
        if (now - refused_since_ > ms(of->how().connect_retry_ms))
            die(connection_event::refused);
        else
            handshake_due_ = now + std::int64_t{refused_again_us} * 1000;
    } else if (connected() && b.why == send_result::refused) {
        die(connection_event::broken);
    }
    update_due();
}

// --------------------------------------------------------------------------------------- timers

void queue_pair::update_due()
{
    std::int64_t due = INT64_MAX;
    const auto consider = [&due](std::int64_t at) {
        if (at != 0)
            due = std::min(due, at);
    };
    consider(handshake_due_);
    consider(close_due_);
    if (connected()) {
        consider(ack_due_);
        consider(linger_until_);
        consider(blocked_until_);
        if (!tx_.empty())
            consider(resend_from_ + std::int64_t{rtt_.rto_us()} * 1000);
        else if (out_of_credit_ && probe_due_ == 0)
            probe_due_ = osd::now_ns() + ms(10);
        if (tx_.lost() != 0 && blocked_until_ == 0)
            consider(osd::now_ns() + ms(1)); // the network takes no more now
        if (out_of_credit_)
            consider(probe_due_);
    }
    due_ns.store(due);
    if (due != INT64_MAX)
        home->timer_set(*this, due);
}

void queue_pair::on_timer(std::int64_t now)
{
    const settings &how = of->how();
    if (handshake_due_ != 0 && now >= handshake_due_) {
        if (state_ == state::accepting && ++retries_ > how.retries)
            die(connection_event::accept_failed);
        else
            send_handshake(now);
    }
    if (close_due_ != 0 && now >= close_due_)
        send_close(now);
    if (connected() && ack_due_ != 0 && now >= ack_due_)
        send_ack();
    if (connected() && linger_until_ != 0 && now >= linger_until_) {
        close({}, now);
        die(connection_event::disconnected);
    }
    if (connected() && blocked_until_ != 0 && now >= blocked_until_)
        blocked_until_ = 0;
    if (connected() && !tx_.empty() && blocked_until_ == 0 &&
        now >= resend_from_ + std::int64_t{rtt_.rto_us()} * 1000)
        on_timeout(now);
    if (connected() && out_of_credit_ && tx_.empty() && probe_due_ != 0 && now >= probe_due_)
        send_probe(now);
    pump(now);
    update_due();
}

/// The oldest packet was not acknowledged, whatever else was: a way may let pass some packets and
/// not others. It has been lost, or the network has not taken it.
void queue_pair::on_timeout(std::int64_t now)
{
    if (++retries_ > of->how().retries)
        return give_up();
    tx_.repeat_oldest();
    rtt_.back_off();
    resend_from_ = now;
}

void queue_pair::give_up()
{
    request *oldest = sends_.empty() ? nullptr : &sends_.at(sends_.head());
    fail_connection(connection_event::broken, oldest, work_status::transport);
}

/// True when the peer has taken the oldest question and did nothing about it for as long as the
/// retries of a packet take. An answer waits behind messages for which we have no receive; the peer
/// repeats those meanwhile.
bool queue_pair::answer_is_overdue(std::int64_t now)
{
    constexpr std::int64_t longest_step = 500'000'000; // after more it was us who stood still
    const std::int64_t passed = std::min(now - watched_ns_, longest_step);
    watched_ns_ = now;
    const request *r = answered_question();
    const question_watch seen =
        r == nullptr ? question_watch{} : question_watch{r->read_id, r->moved, counted.not_ready};
    unanswered_ns_ = r != nullptr && seen == watched_ ? unanswered_ns_ + passed : 0;
    watched_ = seen;
    return unanswered_ns_ / 1000 > static_cast<std::int64_t>(rtt_.patience_us(of->how().retries));
}

void queue_pair::on_slow_timer(std::int64_t now)
{
    if (!connected())
        return;
    if (questions_out_ != 0 && answer_is_overdue(now))
        give_up();
    else if (tx_.empty() && now - heard_ns_ >= ms(of->how().keepalive_ms))
        send_probe(now);
    else
        return;
    update_due();
}

} // namespace soft_hca
