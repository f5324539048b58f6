// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "progress.hpp"

#include "net/net.hpp"

#include <algorithm>

namespace soft_hca {

namespace {

constexpr std::int64_t gather_acks_ns = 10'000;     ///< packets that come within it share an ack
constexpr std::int64_t slow_tick_ns = 250'000'000;  ///< interval of slow timers
constexpr std::int64_t late_ns = 500'000'000;       ///< a thread that comes so late was stopped
constexpr std::int64_t reset_interval_ns = 100'000; ///< rate limit of resets
constexpr std::uint32_t groups_at_once = 8;
constexpr std::int64_t lock_spin_ns = 2000; ///< longer than a poll that receives little
/// Packets of posts are held back for at most so many polls, and then sent in one batch.
constexpr std::uint32_t longest_batch_polls = 16;
/// While packets come by rings, one of so many polls does more than look at the rings.
constexpr std::uint32_t most_short_polls = 8;

/// As parse_base_only(), for sealed packets of the handshake: the headers of other sealed packets
/// do not name the sender's queue pair.
bool parse_sealed_only(const std::uint8_t *bytes, std::size_t size, base_header &out)
{
    sealed_header header;
    if (!read_sealed(bytes, size, header) || !header.handshake)
        return false;
    out = {header.kind, 0, header.to, 0, header.from, 0, 0, 0, sealed_version};
    return true;
}

} // namespace

// ------------------------------------------------------------------------------------- poll lock

bool progress_engine::poll(bool sleeps_next, const completion_ring *polled)
{
    context_.sleep.note_poll();
    if (waiting_.load() != 0 || !poll_lock_.try_lock())
        return false;
    if (may_skip_all(sleeps_next)) {
        poll_lock_.unlock();
        return false;
    }
    const std::int64_t now = osd::now_ns();
    polled_ = polled;
    context_.polls_go_on = !sleeps_next;
    bool received = receive(now, sleeps_next);
    context_.polls_go_on = false;
    polled_ = nullptr;
    if (received ? came_after_pause(now) : sleeps_next || now - received_ns_ > gather_acks_ns)
        flush_acks();
    if (!sleeps_next && context_.rings.is_asleep() && context_.rings.any() &&
        run_.ends(received, now))
        context_.sleep.poll_for_thread(now);
    if (sleeps_next || !keep_batching())
        send_batched();
    if (sleeps_next && found_nothing_twice(received))
        received = handle_icmp_errors(now);
    poll_lock_.unlock();
    return received;
}

/// For all calls but poll(), which backs off while a thread waits here. Spins before it blocks: a
/// poll holds the lock for less than a microsecond, and would have to wake a blocked thread,
/// perhaps on another processor, when it releases it.
void progress_engine::lock()
{
    waiting_.fetch_add(1);
    const std::int64_t began = osd::now_ns();
    while (!poll_lock_.try_lock())
        if (osd::now_ns() - began > lock_spin_ns) {
            poll_lock_.lock();
            break;
        }
    waiting_.fetch_sub(1);
}

void progress_engine::cycle_lock()
{
    lock();
    poll_lock_.unlock();
}

stray_counts progress_engine::strays()
{
    lock();
    const stray_counts now = strays_;
    poll_lock_.unlock();
    return now;
}

void progress_engine::take_all()
{
    lock();
    const std::int64_t now = osd::now_ns();
    if (receive(now, true))
        received_ns_ = now;
    send_batched();
    flush_acks();
    poll_lock_.unlock();
}

/// Whether a consumer is polling right now. Blocking for the lock would delay its next poll.
bool progress_engine::is_polled()
{
    if (!poll_lock_.try_lock())
        return true;
    poll_lock_.unlock();
    return false;
}

bool progress_engine::run_once(bool consumers_active, bool socket_ready)
{
    lock();
    const std::int64_t now = osd::now_ns();
    bool received = false;
    if (!consumers_active || context_.io().due_ns() <= now || context_.rings.has_changed()) {
        received = receive(now, true);
        send_batched();
        flush_acks();
    }
    if (!received && (consumers_active || socket_ready))
        received = handle_icmp_errors(now);
    run_timers(osd::now_ns()); // the thread may have been stopped since
    poll_lock_.unlock();
    return received;
}

// --------------------------------------------------------------------------------------- packets

/// What the poll would do besides looks at the clock, and can be done a little later, unless posts
/// are held back.
bool progress_engine::may_skip_all(bool sleeps_next)
{
    if (short_polls_ == 0 || sleeps_next || context_.marks.has_batches())
        return false;
    --short_polls_;
    return !context_.rings.has_more();
}

/// Where it may, a poll receives datagrams a little later.
bool progress_engine::may_skip_socket(std::int64_t now)
{
    short_polls_ = pause_.rings_deliver(now) ? most_short_polls : 0;
    return pause_.lasts(now);
}

bool progress_engine::receive(std::int64_t now, bool all)
{
    bool received = context_.rings.any() && receive_by_rings(now);
    if (!may_skip_socket(now) || all)
        received = receive_datagrams(now) || received;
    switch_to(nullptr, now);
    turn_.end();
    return received;
}

bool progress_engine::receive_by_rings(std::int64_t now)
{
    const auto plain =
        [this, now](const std::uint8_t *bytes, std::uint32_t size, const net_address &from)
            OSD_UNCHECKED { receive_packet(bytes, size, from, now, true); };
    const auto opened =
        [this, now](const std::uint8_t *bytes, std::uint32_t size, const net_address &from)
            OSD_UNCHECKED { receive_opened(bytes, size, from, now); };
    const bool any = seals_ == nullptr ? context_.rings.take(plain) : context_.rings.take(opened);
    if (any)
        pause_.ring_delivered(now);
    return any;
}

bool progress_engine::receive_datagrams(std::int64_t now)
{
    in_packets groups[groups_at_once];
    const std::uint32_t count = context_.io().receive(groups, groups_at_once);
    pause_.begin(now, count != 0);
    for (std::uint32_t i = 0; i < count; ++i)
        receive_group(groups[i], now);
    return count != 0;
}

void progress_engine::receive_group(const in_packets &group, std::int64_t now)
{
    if (seals_ != nullptr) [[unlikely]] {
        for (std::size_t at = 0; at < group.size; at += group.segment)
            receive_sealed(group.bytes + at, std::min(group.segment, group.size - at), group.from,
                           now);
        return;
    }
    for (std::size_t at = 0; at < group.size; at += group.segment)
        receive_packet(group.bytes + at, std::min(group.segment, group.size - at), group.from, now,
                       false);
}

/// Holds a queue pair's lock for a run of packets to it.
void progress_engine::switch_to(queue_pair *pair, std::int64_t now)
{
    if (current_ == pair)
        return;
    if (current_ != nullptr) {
        current_->connection().after_receiving(now);
        current_->receives.polled = false;
        current_->leave(turn_);
    }
    current_ = pair;
    if (pair == nullptr)
        return;
    pair->enter(turn_);
    pair->receives.polled = polled_ != nullptr && pair->receives.completions.is(polled_);
}

reliable_connection &progress_engine::enter_connection(queue_pair &pair, std::int64_t now)
{
    turn_.end_if_asked();
    switch_to(&pair, now);
    return pair.connection();
}

void progress_engine::receive_packet(const std::uint8_t *bytes, std::size_t size,
                                     const net_address &from, std::int64_t now, bool by_ring)
{
    whole_send p;
    queue_pair *const pair = read_whole_send(bytes, size, p) ? pairs_.find(p.base.to) : nullptr;
    if (pair == nullptr || !enter_connection(*pair, now).receive_expected(p, from, now))
        receive_any(bytes, size, from, now, by_ring);
}

void progress_engine::receive_any(const std::uint8_t *bytes, std::size_t size,
                                  const net_address &from, std::int64_t now, bool by_ring)
{
    packet p;
    if (!(by_ring ? parse_local(bytes, size, p) : parse(bytes, size, p)))
        return drop(bytes, size, now);
    if (p.base.kind == packet_kind::request)
        return;
    queue_pair *pair = pairs_.find(p.base.to);
    const bool connects = p.base.kind != packet_kind::datagram;
    if (pair == nullptr) {
        if (connects && context_.closing.accept(p, from, context_.io()))
            return;
        ++strays_.unknown;
        return send_reset(p, from, now);
    }
    if (!connects)
        return receive_datagram(*pair, p, from, now);
    reliable_connection &connection = enter_connection(*pair, now);
    if (p.base.kind != packet_kind::accept)
        connection.receive(p, from, bytes, size, now);
    else if (!connection.on_accept(p, from, nullptr))
        send_reset(p, from, now);
}

/// Receives a message that is sent without a connection.
void progress_engine::receive_datagram(queue_pair &pair, const packet &p, const net_address &from,
                                       std::int64_t now)
{
    turn_.end_if_asked();
    switch_to(&pair, now);
    pair.receive_datagram(p, from);
}

/// Receives a datagram on a device with a key. A packet that is not sealed with this key, or is for
/// a connection that does not exist, gets no answer: its sender could not distinguish that from a
/// forged one.
void progress_engine::receive_sealed(std::uint8_t *bytes, std::size_t size, const net_address &from,
                                     std::int64_t now)
{
    sealed_header header;
    if (!read_sealed(bytes, size, header))
        return not_ours(bytes, size, from, now);
    queue_pair *pair = pairs_.find(header.to);
    if (pair == nullptr) {
        if (!context_.closing.accept_sealed(bytes, size, header, from, context_.io()))
            ++strays_.unknown;
        return;
    }
    reliable_connection &connection = enter_connection(*pair, now);
    opened_packet in;
    if (!connection.path().open_packet(bytes, size, header, in)) {
        ++pair->record.counts.corrupt;
        return;
    }
    if (in.plain.base.to != header.to)
        ++strays_.malformed;
    else if (in.plain.base.kind == packet_kind::accept)
        (void)connection.on_accept(in.plain, from, &in.offer);
    else
        connection.receive(in.plain, from, bytes + sealed_overhead, size - sealed_overhead, now);
}

/// Receives a packet of a ring on a device with a key. It is not sealed: it comes from a verified
/// process of this user, and names the secret numbers of the connection, known to both sides from
/// the sealed handshake.
void progress_engine::receive_opened(const std::uint8_t *bytes, std::size_t size,
                                     const net_address &from, std::int64_t now)
{
    packet p;
    const bool good = parse_opened(bytes, size, p) && is_of_connection(p.base.kind);
    queue_pair *const pair = good ? pairs_.find(p.base.to) : nullptr;
    if (pair == nullptr) {
        ++(good ? strays_.unknown : strays_.malformed);
        return;
    }
    enter_connection(*pair, now).receive(p, from, bytes, size, now);
}

/// A packet that is not sealed, on a device with a key. A `retry` may come from a listener without
/// a key, or be forged: it is reported, and the attempt to connect continues.
void progress_engine::not_ours(const std::uint8_t *bytes, std::size_t size, const net_address &from,
                               std::int64_t now)
{
    packet p;
    ++strays_.malformed;
    const bool answers = parse(bytes, size, p) && p.base.kind == packet_kind::retry;
    const queue_pair *const pair = answers ? pairs_.find(p.base.to) : nullptr;
    if (pair != nullptr && seals_->may_report(now))
        pair->device->upcalls().report(key_trouble::other_key, from);
}

/// Drops a packet that cannot be parsed. One with a wrong checksum was altered on its way: its
/// queue pair counts it, and the peer retransmits it.
void progress_engine::drop(const std::uint8_t *bytes, std::size_t size, std::int64_t now)
{
    base_header base;
    queue_pair *pair = nullptr;
    if (parse_base_only(bytes, size, base) && base.version == checked_version)
        pair = pairs_.find(base.to); // the id may be altered, too
    if (pair == nullptr) {
        ++strays_.malformed;
        return;
    }
    switch_to(pair, now);
    ++pair->record.counts.corrupt;
}

/// Answers a packet for a connection that does not exist, or an accept of an attempt that was given
/// up. The reset is not longer than that packet, quotes it, and is never sent for a reset, so that
/// it can neither amplify nor loop.
void progress_engine::send_reset(const packet &p, const net_address &from, std::int64_t now)
{
    const bool wanted = p.base.kind == packet_kind::data || p.base.kind == packet_kind::probe ||
                        p.base.kind == packet_kind::accept || p.base.kind == packet_kind::close ||
                        p.base.kind == packet_kind::reference;
    if (!wanted || now < next_reset_ns_)
        return;
    next_reset_ns_ = now + reset_interval_ns;
    out_packet out;
    out.begin();
    out.add(out.header, write_base(out.header, {packet_kind::reset, 0, p.base.from, p.base.tag,
                                                p.base.to, p.base.psn, 0, 0, p.base.version}));
    complete(out, p.base.version);
    std::uint32_t done = 0;
    (void)context_.io().send(from, &out, 1, done);
}

/// Receives all that waits, within a bound.
bool progress_engine::receive_waiting(std::int64_t now)
{
    constexpr int most = 256;
    int rounds = 0;
    while (rounds < most && receive(now, true))
        ++rounds;
    if (rounds == 0)
        return false;
    received_ns_ = now;
    send_batched();
    flush_acks();
    return true;
}

/// Returns true if packets were received.
bool progress_engine::handle_icmp_errors(std::int64_t now)
{
    constexpr int most = 64;
    bool received = false;
    icmp_error b;
    base_header quoted;
    for (int i = 0; i < most && context_.io().take_icmp_error(b); ++i) {
        if (i == 0) // what a peer sent before its port was closed waits before the error
            received = receive_waiting(now);
        // The quoted packet may be cut; its header is enough.
        const bool known = seals_ == nullptr ? parse_base_only(b.bytes, b.size, quoted)
                                             : parse_sealed_only(b.bytes, b.size, quoted);
        if (!known)
            continue;
        queue_pair *pair = pairs_.find(quoted.from);
        if (pair == nullptr) {
            context_.closing.port_closed(b.to, quoted);
            continue;
        }
        pair->enter();
        pair->connection().on_icmp_error(b, quoted, now);
        pair->leave();
    }
    return received;
}

// -------------------------------------------------------------------------------- what is delayed

/// Notes that packets were received. True if an acknowledgement is owed and the packets before
/// these came long ago: the consumer may compute for as long again before its next poll.
bool progress_engine::came_after_pause(std::int64_t now)
{
    received_ns_ = now;
    if (!context_.marks.owes_acks())
        return false;
    const bool paused = now - owing_ns_ > long_pause_ns;
    owing_ns_ = now;
    return paused;
}

/// Whether two polls in a row, each before a sleep, received nothing. An ICMP error may have woken
/// the consumer in between, and wakes it again at once until it is read from the socket.
bool progress_engine::found_nothing_twice(bool received)
{
    const bool twice = !received && found_nothing_;
    found_nothing_ = !received;
    return twice;
}

/// A consumer that has posted between two polls is likely to post more: its batch is held back, for
/// some polls.
bool progress_engine::keep_batching()
{
    if (!context_.marks.posts_came() || ++polls_batched_ > longest_batch_polls) {
        polls_batched_ = 0;
        return false;
    }
    context_.marks.forget_posts();
    return true;
}

void progress_engine::drain_batches()
{
    context_.marks.drain_batches([this](std::uint32_t slot) {
        if (queue_pair *pair = pairs_.at(slot))
            pair->ring();
    });
}

void progress_engine::drain_acks()
{
    context_.marks.drain_acks([this](std::uint32_t slot) {
        queue_pair *pair = pairs_.at(slot);
        if (pair == nullptr)
            return;
        pair->enter();
        pair->connection().flush_ack();
        pair->leave();
    });
}

// --------------------------------------------------------------------------------------- timers

/// Before packets are sent again, all that waits is received: their acknowledgements may be there.
/// A thread that gets little of a processor would send more again than it receives.
void progress_engine::run_timer(std::uint32_t slot, std::int64_t now, std::uint32_t &resends)
{
    atomic_bitmap &timers = context_.marks.timers();
    queue_pair *pair = pairs_.at(slot);
    if (pair == nullptr)
        return timers.clear(slot);
    const std::int64_t due = pair->due_ns.load();
    if (due == INT64_MAX) {
        timers.clear(slot);
        if (pair->due_ns.load() != INT64_MAX) // armed concurrently
            timers.set(slot);
    } else if (due <= now) {
        pair->enter();
        const bool done = pair->connection().on_timer(now, resends);
        pair->leave();
        if (!done) {
            (void)receive_waiting(now);
            run_timer(slot, now, resends);
        }
    }
}

/// A peer forgets a request some time after its answer: it would take a copy, sent while the answer
/// waits here, for a new request.
void progress_engine::run_timers(std::int64_t now)
{
    std::uint32_t resends = 0;
    if (now - slow_due_ns_ > late_ns)
        (void)receive_waiting(now);
    context_.marks.timers().visit([&](std::uint32_t slot)
                                      OSD_UNCHECKED { run_timer(slot, now, resends); });
    context_.closing.on_timer(now, context_.io());
    if (now >= slow_due_ns_)
        run_slow_timers(now);
}

/// Calls `visitor` for the connection of each queue pair, under the lock of that pair.
template <class Visitor>
void progress_engine::visit_connections(Visitor &&visitor)
{
    const std::uint32_t end = pairs_.end();
    for (std::uint32_t slot = 0; slot < end; ++slot)
        if (queue_pair *pair = pairs_.at(slot)) {
            pair->enter();
            visitor(slot, pair->connection());
            pair->leave();
        }
}

void progress_engine::lose_device()
{
    lock();
    visit_connections([](std::uint32_t, reliable_connection &each) { each.lose_device(); });
    poll_lock_.unlock();
}

void progress_engine::run_slow_timers(std::int64_t now)
{
    slow_due_ns_ = now + slow_tick_ns;
    peers_.next_look(pairs_.end());
    visit_connections([this, now](std::uint32_t slot, reliable_connection &each)
                          OSD_UNCHECKED { each.on_slow_timer(now, peers_, slot); });
    if (listening_ != nullptr)
        listening_->forget_old(now);
}

std::int64_t progress_engine::next_due()
{
    lock();
    std::int64_t due = std::min(context_.io().due_ns(), context_.closing.due_ns());
    context_.marks.timers().visit([this, &due](std::uint32_t slot) {
        if (const queue_pair *pair = pairs_.at(slot))
            due = std::min(due, pair->due_ns.load());
    });
    if (!pairs_.empty() || (listening_ != nullptr && listening_->remembers()))
        due = std::min(due, slow_due_ns_);
    poll_lock_.unlock();
    return due;
}

} // namespace soft_hca
