// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reliable_connection.hpp"

#include <algorithm>

namespace soft_hca {

static constexpr std::uint32_t resends_between_looks = 16; ///< at what has come

namespace {

/// The status of the initiator's completion for a fault that the responder found.
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

void count_failure(pair_counts &counted, fault why)
{
    if (status_for(why) == work_status::remote_access)
        ++counted.refused;
    else if (why != fault::local_catastrophic)
        ++counted.rules_broken;
}

void count_close(pair_counts &counted, fault why)
{
    ++(status_for(why) == work_status::remote_access ? counted.refused_by_peer
                                                     : counted.failed_at_peer);
}

/// Whether a packet is not of the connection with this peer. Only the peer knows our tag, and
/// numbers far from the expected one are not the peer's either.
bool is_stray(const packet &p, const peer_path &path, std::uint32_t expected)
{
    constexpr std::int32_t farthest = 4 * receive_window::capacity;
    const std::int32_t ahead = distance(expected, p.base.psn);
    return !path.names_us(p.base) || !path.is_from_peer(p.base) || ahead > farthest ||
           ahead < -farthest;
}

/// Notes a failure. A cause that was noted before is more exact, and stays.
void note_failure(end_record &ending, const pair_failure &failure)
{
    if (failure.culprit != nullptr)
        ending.note(end_cause::request_failed, failure.closing.why, failure.status);
    else
        ending.note(end_cause::refused_here, failure.closing.why);
}

} // namespace

// ------------------------------------------------------------------------------------ beginning

reliable_connection::start reliable_connection::prepare(std::uint64_t qualifier, const void *data,
                                                        std::size_t size)
{
    if (pair_->device->failed())
        return start::no_device;
    if (!state_.is(state::idle))
        return start::wrong_state;
    const bool sealed = pair_->device->settings().sealed();
    if (sealed && !path_.seal_with(*pair_->device->seals))
        return start::no_memory;
    return state_.prepare(qualifier, data, size) ? start::begun : start::no_memory;
}

reliable_connection::start reliable_connection::connect(const net_address &to,
                                                        std::uint64_t qualifier, const void *data,
                                                        std::size_t size)
{
    const start result = prepare(qualifier, data, size);
    if (result == start::begun) {
        net_address listener = to;
        listener.set_port(static_cast<std::uint16_t>(qualifier));
        path_.aim(listener);
        state_.begin(state::connecting);
        send_handshake(osd::now_ns());
        update_due();
    }
    return result;
}

reliable_connection::start reliable_connection::accept(inbound_request &from, const void *data,
                                                       std::size_t size)
{
    start result = prepare(0, data, size);
    if (result == start::begun && from.offer != nullptr &&
        !path_.agree(*from.offer, from.hello, false))
        result = start::no_memory;
    if (result == start::begun) {
        adopt_peer(from.peer, from.hello, from.credit, from.version);
        // Another thread may delete the request from here on.
        std::uint32_t carried = 0;
        const bool withdrawn = !pair_->device->listening.accept(from, state_.may_send(), carried);
        if (carried != 0) {
            path_.limit_to(carried);
            state_.probe_path(path_.datagram(), osd::now_ns());
        }
        state_.begin(state::accepting);
        if (withdrawn)
            die(connection_event::accept_failed);
        else
            send_handshake(osd::now_ns());
        update_due();
    }
    return result;
}

void reliable_connection::adopt_peer(const net_address &from, const handshake &hello,
                                     std::uint32_t credit, std::uint8_t version)
{
    net_address peer = from;
    if (state_.is(state::connecting))
        peer.set_traffic_class(path_.peer().traffic_class());
    path_.adopt(peer, hello, version, pair_->device->datagram());
    tx_.limit_to(pair_->shard->io().receive_room());
    agreed_reads &reads = pair_->record.reads;
    reads.in = std::min(pair_->params.reads_in, hello.reads_out);
    reads.out = std::min(pair_->params.reads_out, hello.reads_in);
    requests_.reads().set_limit(std::max<std::uint32_t>(reads.out, 1));
    (void)requests_.grant_credit(credit);
    rx_.expect(hello.first_psn);
    if (pair_->params.use == pair_use::exchange)
        return;
    const bool calls = state_.is(state::connecting);
    pair_->sends.direct = pair_->device->direct.begin(
        pair_->shard->io().address(), from, {path_.id(), path_.tag(), hello.id, hello.tag, calls},
        pair_->memory.domain(), {pair_->events.queue(), pair_->events.source()},
        pair_->device->settings().uses_rings() ? &pair_->shard->rings : nullptr);
    path_.join(pair_->sends.direct != nullptr ? &pair_->sends.direct->ring() : nullptr);
}

void reliable_connection::send_handshake(std::int64_t now)
{
    const bool asks = state_.is(state::connecting);
    if (state_.send_handshake(path_, rx_.next_psn(), rx_.promise(), now) ==
        send_result::unreachable)
        die(asks ? connection_event::unreachable : connection_event::accept_failed);
}

void reliable_connection::establish()
{
    state_.establish(osd::now_ns());
    pair_->record.ending.established(path_.peer(), path_.id(), path_.header(packet_kind::ack, 0).to,
                                     pair_->record.counts);
    if (rx_.lacks_receives())
        pair_->receives.wanted.store(true);
    pair_->events.post(connection_event::established);
}

bool reliable_connection::on_accept(const packet &p, const net_address &from,
                                    const seal_offer *offer)
{
    ++pair_->record.counts.packets_in;
    const bool again = connected() && from == path_.peer() && path_.is_from_peer(p.base);
    const bool spoken = (pair_->device->settings().versions() & set_of(p.base.version)) != 0;
    const bool expected = state_.is(state::connecting) && from.same_host(path_.peer()) && spoken;
    if (!path_.names_us(p.base) || (!again && !expected)) {
        ++pair_->record.counts.dropped;
        return path_.names_us(p.base) && (path_.knows_peer() || !state_.is(state::dead));
    }
    if (!again) {
        if (offer != nullptr && !path_.agree(*offer, p.hello, true))
            return true; // it is repeated
        adopt_peer(from, p.hello, p.base.credit, p.base.version);
        state_.keep_private_data(p);
        establish();
    }
    rx_.ack().owe_now();                                          // the peer waits for it
    if (pair_->params.use == pair_use::exchange && connected()) { // our close answers it
        close({}, osd::now_ns());
        enter_dead();
        update_due();
    }
    return true;
}

/// The listener wants to see that requests come from their source address, and says which versions
/// it speaks.
void reliable_connection::on_retry(const packet &p, std::int64_t now)
{
    if (!state_.is(state::connecting))
        return;
    const std::uint8_t version =
        newest_of(versions_in(p.base) & pair_->device->settings().versions());
    if (version == 0) {
        if ((versions_in(p.base) & set_of(sealed_version)) != 0)
            pair_->device->upcalls().report(key_trouble::wants_key, path_.peer());
        return die(connection_event::refused);
    }
    if (pair_->device->settings().path_mtu && (versions_in(p.base) & takes_padding) != 0)
        state_.probe_path(pair_->device->datagram(), now);
    const bool new_version = path_.speak(version);
    if (!path_.take_token(p.base.from, p.base.psn) && !new_version)
        return;
    tx_.begin_with_round_trip(state_.handshake_age(now));
    send_handshake(now);
    update_due();
}

// ------------------------------------------------------------------------------------- receiving

void reliable_connection::receive(const packet &p, const net_address &from,
                                  const std::uint8_t *bytes, std::size_t size, std::int64_t now)
{
    ++pair_->record.counts.packets_in;
    const bool from_peer =
        from == path_.peer() || (state_.is(state::connecting) && from.same_host(path_.peer()));
    if (from_peer && p.base.kind == packet_kind::reset)
        return on_reset(p);
    if (from_peer && p.base.kind == packet_kind::reject && path_.names_us(p.base)) {
        if (!state_.is(state::connecting))
            return;
        state_.keep_private_data(p);
        return die(p.rejection == reject_code::consumer ? connection_event::rejected
                                                        : connection_event::refused);
    }
    if (from_peer && p.base.kind == packet_kind::retry && path_.names_us(p.base))
        return on_retry(p, now);
    const bool stray = is_stray(p, path_, rx_.next_psn());
    if (!from_peer || stray) {
        ++pair_->record.counts.dropped;
        if (!stray && connected())
            pair_->record.counts.packets_out += path_.heard_from_elsewhere(
                p, from, tx_.make_header(packet_kind::challenge, tx_.next_psn()), now);
        return;
    }
    if (p.base.kind == packet_kind::close)
        return on_close(p, now);
    if (p.base.kind == packet_kind::close_ack)
        return state_.end_close();
    if (pair_->device->failed())
        return;
    if (state_.is(state::dead) && p.base.kind != packet_kind::ack)
        return send_close(now); // the peer has not received any close
    if (state_.is(state::accepting)) {
        tx_.begin_with_round_trip(state_.handshake_age(now));
        establish();
    }
    if (!connected() || before(tx_.next_psn(), p.base.ack)) {
        ++pair_->record.counts.dropped; // no peer acknowledges a packet that was never sent
        return;
    }
    state_.note_heard(now);
    tx_.on_acknowledgement(p.base, p.sack, p.sack_words, now);
    if (p.base.kind == packet_kind::ack || p.base.kind == packet_kind::response)
        return;
    if (p.base.kind == packet_kind::challenge) {
        pair_->record.counts.packets_out += path_.send_token(
            path_.peer(), tx_.make_header(packet_kind::response, tx_.next_psn()), p.token);
        return;
    }
    if (!rx_.receive(p, bytes, size, window_.oldest()))
        fail(rx_.failure());
}

bool reliable_connection::receive_expected(const whole_send &p, const net_address &from,
                                           std::int64_t now)
{
    const bool from_peer = path_.names_us(p.base) && path_.is_from_peer(p.base) &&
                           from == path_.peer() && !before(tx_.next_psn(), p.base.ack);
    if (!from_peer || !connected() || pair_->device->failed() || !rx_.expects(p))
        return false;
    ++pair_->record.counts.packets_in;
    state_.note_heard(now);
    tx_.on_acknowledgement(p.base, nullptr, 0, now);
    if (!rx_.receive_expected(p))
        fail(rx_.failure());
    return true;
}

// --------------------------------------------------------------------------------------- ending

/// Completes all that is posted, and then makes the upcall.
void reliable_connection::die(connection_event event)
{
    pair_->record.ending.ended(state_.heard_ns(), pair_->record.counts);
    enter_dead();
    pair_->events.post(event);
}

void reliable_connection::enter_dead()
{
    const numbers last{tx_.next_psn(), 0, 0, rx_.next_psn(), rx_.next_msn()};
    path_.join(nullptr);
    pair_->device->direct.end(pair_->sends.direct); // the link ends before the consumer knows
    state_.enter_dead();
    pair_->receives.wanted.store(
        true); // receives that are posted from now on ring, and are flushed
    if (pair_->receives.shared != nullptr)
        pair_->receives.shared->wait_no_more(*pair_->receives.waiter);
    window_.start(last.send_psn); // ends its references to requests
    requests_.flush();
    rx_.flush();
    pair_->sends.completions.settle();
    pair_->receives.completions.settle();
    restart_parts(last);
}

namespace {

/// The request that ends the connection completes with its own status; null: there is none.
void note_culprit(request *culprit, work_status status)
{
    if (culprit == nullptr)
        return;
    culprit->done = true;
    culprit->status = status;
}

} // namespace

/// A copy of the failure: the part that reports it is replaced.
void reliable_connection::fail(pair_failure failure)
{
    note_failure(pair_->record.ending, failure);
    count_failure(pair_->record.counts, failure.closing.why);
    close(failure.closing, osd::now_ns());
    note_culprit(failure.culprit, failure.status);
    die(connection_event::broken);
    update_due(); // until it is acknowledged, the close is repeated
}

void reliable_connection::give_up(end_cause why)
{
    pair_->record.ending.note(why);
    ++pair_->record.counts.gave_up;
    note_culprit(requests_.oldest(), work_status::transport);
    die(connection_event::broken);
}

void reliable_connection::close(const close_info &why, std::int64_t now)
{
    state_.begin_close(why);
    send_close(now);
}

void reliable_connection::send_close(std::int64_t now)
{
    std::uint8_t body[close_size];
    const std::size_t size = write_close(body, state_.closing());
    if (!state_.is(state::connecting)) {
        tx_.send_plain(packet_kind::close, body, size);
        state_.note_close_sent(now);
        return;
    }
    out_packet out;
    out.begin();
    out.add(out.header, write_base(out.header, path_.header_for_listener(packet_kind::close,
                                                                         state_.first_psn())));
    out.add(body, size);
    (void)path_.send_handshake(out, false);
}

void reliable_connection::close_when_drained(std::int64_t now)
{
    if (!state_.is(state::draining) || !pair_->sends.ring.empty() || !tx_.idle() ||
        !responses_.idle())
        return;
    close({}, now);
    die(connection_event::disconnected);
}

void reliable_connection::disconnect(bool graceful)
{
    const std::int64_t now = osd::now_ns();
    if (state_.is(state::live) && graceful) {
        state_.drain(now);
        pump(now);
    } else if (connected() && !graceful) {
        close({}, now);
        die(connection_event::disconnected);
    } else if (state_.is(state::connecting) || state_.is(state::accepting)) {
        send_close(now);
        enter_dead();
    }
    update_due();
}

void reliable_connection::abandon()
{
    if (!state_.is(state::dead)) {
        if (connected())
            close({}, osd::now_ns());
        else if (!state_.is(state::idle))
            send_close(osd::now_ns());
        enter_dead();
        update_due();
    }
    pair_->events.cancel();
}

void reliable_connection::lose_device()
{
    state_.end_close(); // nothing can be sent
    switch (state_.now_in()) {
    case state::idle:
        enter_dead();
        break;
    case state::connecting:
        die(connection_event::unreachable);
        break;
    case state::accepting:
        die(connection_event::accept_failed);
        break;
    case state::live:
        pair_->record.ending.note(end_cause::device_failed);
        die(connection_event::broken);
        break;
    case state::draining:
        die(connection_event::disconnected);
        break;
    case state::dead:
        break;
    }
    update_due();
}

void reliable_connection::keep_watermarks()
{
    if (rx_.keep_watermarks() || !connected())
        return;
    pair_->record.ending.note(end_cause::watermark);
    fail(pair_failure::terminate(fault::local_catastrophic, 0));
}

void reliable_connection::on_close(const packet &p, std::int64_t now)
{
    if (connected() && !before(tx_.next_psn(), p.base.ack))
        tx_.on_acknowledgement(p.base, p.sack, p.sack_words, now);
    tx_.send_plain(packet_kind::close_ack, nullptr, 0);
    const bool exchanged = pair_->params.use == pair_use::exchange;
    if (state_.is(state::accepting))
        return die(exchanged ? connection_event::established : connection_event::accept_failed);
    if (!connected())
        return;
    if (exchanged)
        return enter_dead();
    if (p.closing.code == close_code::disconnect)
        return die(connection_event::disconnected);
    request *culprit = tx_.request_of(p.closing.psn);
    // A read may have been acknowledged before its response became impossible.
    if (culprit == nullptr)
        culprit = requests_.started_with_last_psn(p.closing.psn);
    const work_status status = status_for(p.closing.why);
    pair_->record.ending.note(end_cause::failed_at_peer, p.closing.why,
                              culprit != nullptr ? status : work_status::success);
    count_close(pair_->record.counts, p.closing.why);
    note_culprit(culprit, status);
    die(connection_event::broken);
}

/// The peer's host does not know the connection. The packet quotes what only both sides know.
void reliable_connection::on_reset(const packet &p)
{
    if (!path_.names_peer(p.base) || !path_.is_from_peer(p.base) || !tx_.is_recent(p.base.psn)) {
        ++pair_->record.counts.dropped;
        return;
    }
    state_.end_close();
    if (state_.is(state::accepting))
        return die(connection_event::accept_failed);
    if (!connected())
        return;
    pair_->record.ending.note(end_cause::reset);
    die(connection_event::disconnected);
}

void reliable_connection::on_icmp_error(const icmp_error &b, const base_header &quoted,
                                        std::int64_t now)
{
    const bool ours = b.to == path_.peer() &&
                      (path_.is_sealed() ? state_.is(state::connecting) && path_.has_sent(b)
                                         : path_.names_peer(quoted) && tx_.is_recent(quoted.psn));
    const bool refused = b.why == send_result::refused;
    if (!ours || (!refused && b.why != send_result::unreachable))
        return;
    state_.end_close();
    if (state_.is(state::accepting))
        die(connection_event::accept_failed);
    else if (state_.is(state::connecting) && !refused)
        die(connection_event::unreachable);
    else if (state_.is(state::connecting) && !state_.retry_refused(now))
        die(connection_event::refused);
    else if (connected() && refused) {
        pair_->record.ending.note(end_cause::port_closed);
        die(connection_event::broken);
    }
    update_due();
}

// -------------------------------------------------------------------------------------- packets

void reliable_connection::pump(std::int64_t now, bool new_turn, bool sets_timer)
{
    if (new_turn)
        requests_.begin_turn();
    if (state_.is(state::dead)) {
        requests_.flush();
        rx_.flush();
        return;
    }
    while (connected()) {
        bool more = false;
        if (!tx_.send_batch(now, more))
            return fail(tx_.failure());
        const std::uint32_t seen = pair_->sends.ring.known_tail();
        pair_->sends.in_flight.store(tx_.in_flight(), std::memory_order_relaxed);
        pair_->sends.started.store(requests_.next(), std::memory_order_relaxed);
        const bool all = !more && pair_->sends.ring.tail() == seen;
        if (tx_.stuck() || requests_.awaits_turn() || all)
            break;
    }
    if (!connected())
        return;
    if (pair_->receives.wanted.load())
        serve_new_receives();
    close_when_drained(now);
    if (sets_timer)
        update_due();
}

bool reliable_connection::send_at_once(request &send, std::int64_t now)
{
    if (!state_.is(state::live) || pair_->receives.wanted.load(std::memory_order_relaxed))
        return false;
    const bool was_idle = tx_.idle();
    switch (tx_.send_at_once(send, now)) {
    case transmitter::attempt::none:
        return false;
    case transmitter::attempt::failed:
        fail(tx_.failure());
        return true;
    case transmitter::attempt::made:
        break;
    }
    pair_->sends.in_flight.store(tx_.in_flight(), std::memory_order_relaxed);
    pair_->sends.started.store(requests_.next(), std::memory_order_relaxed);
    // A timer that runs already finds out when the next one is due.
    const std::int64_t due = pair_->due_ns.load(std::memory_order_relaxed);
    if (!was_idle || due > now + transmitter::least_patience_ns || tx_.stuck())
        update_due();
    return true;
}

/// Processes packets that were kept because no receive was posted, and acknowledges them together
/// with new credit.
void reliable_connection::serve_new_receives()
{
    if (rx_.lacks_receives())
        return;
    pair_->receives.wanted.store(false);
    bool took = false;
    const bool good = rx_.resume(window_.oldest(), took);
    if (took)
        pair_->doorbell.store(true); // there may be responses to send
    if (!good)
        return fail(rx_.failure());
    if (took || rx_.has_news() || rx_.not_fetched())
        tx_.send_ack();
}

void reliable_connection::after_receiving(std::int64_t now)
{
    pump(now, false, false);
    if (!connected())
        return;
    rx_.watch_credit();
    owed_ack &ack = rx_.ack();
    if (ack.any() && ack.is_urgent()) {
        tx_.send_ack();
    } else if (ack.any()) {
        ack.delay(now);
        if (ack.is_awaited())
            pair_->shard->marks.owe_ack(pair_->identity.slot);
    }
    update_due(pair_->shard->polls_go_on);
}

void reliable_connection::flush_ack()
{
    if (connected() && rx_.ack().any())
        tx_.send_ack();
    update_due();
}

// --------------------------------------------------------------------------------------- timers

/// Timers mostly move on, or end, before they expire. With `may_be_early` one that is set to an
/// earlier time stays: on_timer() then finds nothing due, and sets the next one.
void reliable_connection::update_due(bool may_be_early)
{
    std::int64_t due = state_.due_ns();
    if (connected()) {
        due = std::min(due, requests_.awaits_turn() ? 0 : tx_.due_ns());
        if (rx_.ack().due_ns() != 0)
            due = std::min(due, rx_.ack().due_ns());
    }
    if (may_be_early && due >= pair_->due_ns.load())
        return;
    pair_->due_ns.store(due);
    if (due != INT64_MAX)
        pair_->shard->arm_timer(pair_->identity.slot, due);
}

bool reliable_connection::on_timer(std::int64_t now, std::uint32_t &resends)
{
    const bool again = state_.handshake_is_due(now) || (connected() && tx_.timed_out(now));
    if (again && resends++ % resends_between_looks == 0)
        return false;
    if (state_.handshake_is_due(now)) {
        if (state_.is(state::accepting) && !state_.retry_accept())
            die(connection_event::accept_failed);
        else
            send_handshake(now);
    }
    if (state_.close_is_due(now))
        send_close(now);
    if (connected() && rx_.ack().due_ns() != 0 && now >= rx_.ack().due_ns())
        tx_.send_ack();
    if (connected() && state_.lingered_enough(now)) {
        close({}, now);
        die(connection_event::disconnected);
    }
    if (connected()) {
        tx_.end_pause(now);
        if (tx_.timed_out(now)) {
            pair_->record.ending.timed_out(window_.oldest(), now);
            if (!tx_.on_timeout(now, pair_->device->settings().retries))
                give_up(end_cause::no_acknowledgement);
        }
    }
    if (connected() && tx_.probe_is_due(now))
        if (!tx_.send_probe(now))
            fail(tx_.failure());
    pump(now, true, false);
    update_due();
    return true;
}

namespace {

/// Of the connections to one device, one asks whether it is alive; all do when that brings no
/// answer. Each asks for itself now and then: the device may have lost its other end.
bool shall_ask(const connection_state &of, const net_address &peer, std::int64_t now,
               heard_peers &peers, std::uint32_t slot)
{
    if (!of.peer_is_silent(now, of.heard_ns()))
        return false;
    const std::int64_t heard = std::max(of.heard_ns(), peers.heard_ns(peer));
    if (!of.peer_is_silent(now, heard))
        return peers.is_turn_of(slot);
    return of.peer_is_silent(now, heard, 2) || peers.asks_first(peer);
}

} // namespace

void reliable_connection::on_slow_timer(std::int64_t now, heard_peers &peers, std::uint32_t slot)
{
    if (!connected())
        return;
    peers.note(path_.peer(), state_.heard_ns());
    if (tx_.response_overdue(now, pair_->device->settings().retries)) {
        give_up(end_cause::no_response);
    } else if (pair_->sends.direct != nullptr && pair_->sends.direct->is_stuck()) {
        pair_->record.ending.note(end_cause::access_stuck);
        fail(pair_failure::terminate(fault::local_catastrophic, 0));
    } else if (tx_.idle() && shall_ask(state_, path_.peer(), now, peers, slot)) {
        if (!tx_.send_probe(now))
            fail(tx_.failure());
    } else {
        return;
    }
    update_due();
}

// ---------------------------------------------------------------- before and after a connection

bool reliable_connection::open()
{
    return window_.open(pair_->device->large_windows) &&
           responses_.open(pair_->memory, window_, pair_->params.reads_in);
}

/// Replaces all parts that belong to a connection by new parts.
void reliable_connection::restart_parts(const numbers &from)
{
    requests_ = requester(*pair_, window_, from.request_msn, from.read_id);
    responses_.restart(from.request_msn);
    rx_ = receiver(*pair_, requests_, responses_, from.receive_psn, from.receive_msn);
    window_.start(from.send_psn);
    tx_ = transmitter(*pair_, path_, window_, requests_, responses_, rx_);
    pair_->sends.in_flight.store(0);
    pair_->sends.started.store(requests_.next());
}

bool reliable_connection::renew()
{
    const settings &set = pair_->device->settings();
    std::uint32_t random[3];
    if (!random_bytes(random, sizeof random))
        return false;
    const std::uint32_t first_psn = set.fixed_start ? set.first_number : random[2];
    const std::uint32_t first_msn = set.fixed_start ? set.first_number : 1;
    pair_->sends.ring.clear();
    pair_->receives.ring.clear();
    path_ = peer_path(pair_->shard->io(), pair_->shard->checked, random[0]);
    state_ = connection_state(*pair_->device, pair_->params, first_psn);
    restart_parts({first_psn, first_msn, random[1], 0, first_msn});
    pair_->receives.wanted.store(false);
    pair_->due_ns.store(INT64_MAX);
    return true;
}

void reliable_connection::cut()
{
    const std::int64_t now = osd::now_ns();
    if (connected())
        close({}, now);
    else if (state_.is(state::connecting) || state_.is(state::accepting))
        send_close(now);
    if (state_.has_unacknowledged_close())
        pair_->shard->keep_closing(
            state_.closed(path_, tx_.make_header(packet_kind::close, tx_.next_psn())));
    (void)path_.take_seal(); // the device may be closed
    path_.join(nullptr);
    pair_->device->direct.end(pair_->sends.direct);
    if (pair_->receives.shared != nullptr)
        pair_->receives.shared->wait_no_more(*pair_->receives.waiter);
    requests_.discard();
    rx_.discard();
    pair_->sends.completions.settle();
    pair_->receives.completions.settle();
    state_ = connection_state(*pair_->device, pair_->params,
                              state_.first_psn()); // on_timer() may still be called
    restart_parts({tx_.next_psn(), 0, 0, 0, 0});
    pair_->due_ns.store(INT64_MAX);
}

} // namespace soft_hca
