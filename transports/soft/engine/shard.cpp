// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "shard.hpp"

#include "device.hpp"
#include "inproc_io.hpp"

#include <algorithm>
#include <cerrno>
#include <new>

namespace soft_hca {

namespace {

constexpr std::int64_t tick_ns = attendance::longest_pause_ns; ///< while consumers come and go
constexpr std::int64_t grace_ns = 200'000;         ///< a consumer that polls comes within it
constexpr std::int64_t gather_acks_ns = 10'000;    ///< packets that come within it share one
constexpr std::int64_t long_pause_ns = 100'000;    ///< between packets: they do not share one
constexpr std::int64_t slow_tick_ns = 250'000'000; ///< of what is not urgent
constexpr std::int64_t reset_every_ns = 100'000;   ///< answers to strangers are few
constexpr std::int64_t first_timer_ns = std::int64_t{rtt_estimator::min_rto_us} * 1000;
constexpr std::uint32_t groups_at_once = 8;
constexpr std::int64_t token_spin_ns = 2000; ///< more than a poll takes that finds little
constexpr int most_contended = 8;            ///< wake-ups, before the thread blocks for the token
constexpr std::uint32_t longest_wait_polls = 16; ///< of posts, for company

// What the thread sleeps on, and what a wake-up may be for.
enum wake_source : std::uint32_t { kick_source, listener_source, socket_source, sources };
constexpr std::uint64_t everything = UINT64_MAX;

constexpr bool has(std::uint64_t ready, wake_source which)
{
    return (ready >> which & 1) != 0;
}

packet_io *open_network(const settings &how, int &error)
{
    if (how.network != nullptr) {
        auto *io = new (std::nothrow) inproc_io;
        if (io != nullptr && io->open(*how.network, how.address))
            return io;
        delete io;
        error = ENOMEM;
        return nullptr;
    }
    auto *io = new (std::nothrow) udp_io;
    net_address any_port = how.address;
    any_port.set_port(0);
    error = io == nullptr ? ENOMEM : io->open(any_port, true);
    if (error == 0)
        return io;
    delete io;
    return nullptr;
}

packet_io *open_io(const settings &how, std::uint32_t index, int &error)
{
    packet_io *io = open_network(how, error);
    if (io == nullptr || !how.bad_network.any())
        return io;
    impairment bad = how.bad_network;
    bad.seed += index;
    auto *shim = new (std::nothrow) impaired_io(io, bad);
    if (shim == nullptr) {
        delete io;
        error = ENOMEM;
    }
    return shim;
}

osd::deadline at_time(std::int64_t ns)
{
    if (ns == INT64_MAX)
        return osd::deadline::never();
    const std::int64_t left = ns - osd::now_ns();
    return left <= 0 ? osd::deadline::passed()
                     : osd::deadline::after_ns(static_cast<std::uint64_t>(left));
}

} // namespace

// ------------------------------------------------------------------------------ life of a shard

shard::~shard()
{
    close();
}

int shard::open(device &of, const settings &how, std::uint32_t index)
{
    of_ = &of;
    index_ = index;
    spin_ = spin_policy(std::int64_t{how.spin_us} * 1000);
    int error = 0;
    io_ = open_io(how, index, error);
    if (io_ == nullptr)
        return error;
    pairs_ = static_cast<std::atomic<queue_pair *> *>(
        std::calloc(max_pairs, sizeof(std::atomic<queue_pair *>)));
    receivers_ = static_cast<named_receiver *>(std::calloc(max_pairs, sizeof(named_receiver)));
    if (pairs_ == nullptr || receivers_ == nullptr || !deferred_.open() || !owing_.open() ||
        !timing_.open())
        return ENOMEM;
    if (!signal_.open())
        return EMFILE;
    stopping_.store(false);
    return thread_.start(
               "soft-hca", [](void *self) { static_cast<shard *>(self)->run(); }, this)
               ? 0
               : EAGAIN;
}

void shard::close()
{
    if (thread_.running()) {
        closing_.drain();
        stopping_.store(true);
        kick();
        thread_.join();
    }
    signal_.close();
    delete io_;
    io_ = nullptr;
    std::free(pairs_);
    std::free(receivers_);
    pairs_ = nullptr;
    receivers_ = nullptr;
}

// ---------------------------------------------------------------------------------- queue pairs

bool shard::add(queue_pair &pair)
{
    std::uint16_t random = 0;
    if (!random_bytes(&random, sizeof random))
        return false;
    osd::lock_guard hold(slots_lock_);
    for (std::uint32_t tried = 0; tried < max_pairs; ++tried) {
        const std::uint32_t slot = tried;
        if (pairs_[slot].load(std::memory_order_relaxed) != nullptr)
            continue;
        pair.slot = slot;
        pair.id = static_cast<std::uint32_t>(random) << 16 | slot;
        receivers_[slot].receiver.store(pair.with.receiver, std::memory_order_relaxed);
        receivers_[slot].id.store(pair.id, std::memory_order_release);
        pairs_[slot].store(&pair, std::memory_order_release);
        if (slots_used_.load(std::memory_order_relaxed) <= slot)
            slots_used_.store(slot + 1, std::memory_order_release);
        alive_.fetch_add(1);
        kick(); // what is not urgent has to be looked at now
        return true;
    }
    return false;
}

void shard::remove(queue_pair &pair) OSD_UNCHECKED
{
    {
        osd::lock_guard hold(slots_lock_);
        receivers_[pair.slot].receiver.store(nullptr, std::memory_order_release);
        pairs_[pair.slot].store(nullptr, std::memory_order_release);
        alive_.fetch_sub(1);
    }
    take_token(); // nobody is inside any more
    token_.unlock();
}

void shard::keep_closing(const closed_connection &last)
{
    closing_.add(last);
    if (last.due_ns < wakes_ns_.load())
        kick();
}

void *shard::receiver_of(std::uint32_t id) const
{
    const named_receiver &named = receivers_[id & (max_pairs - 1)];
    if (named.id.load(std::memory_order_acquire) != id)
        return nullptr;
    return named.receiver.load(std::memory_order_acquire);
}

void shard::pass_all() OSD_UNCHECKED
{
    osd::lock_guard hold(slots_lock_);
    const std::uint32_t used = slots_used_.load(std::memory_order_relaxed);
    for (std::uint32_t slot = 0; slot < used; ++slot)
        if (queue_pair *pair = pairs_[slot].load(std::memory_order_relaxed)) {
            pair->enter();
            pair->leave();
        }
}

// -------------------------------------------------------------------------------- moving packets

bool shard::progress(bool sleeps_next) OSD_UNCHECKED
{
    activity_.store(activity_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (wanted_.load() != 0 || !token_.try_lock())
        return false;
    const std::int64_t now = osd::now_ns();
    const bool moved = receive_some(now);
    if (moved ? came_after_pause(now) : sleeps_next || now - moved_ns_ > gather_acks_ns)
        flush_acks(now);
    if (sleeps_next || !company_comes())
        ring_deferred();
    token_.unlock();
    return moved;
}

/// To be called when packets came. True when an acknowledgement is owed and the packets before came
/// long ago. The consumer may be busy for as long with these, and no poll would flush it meanwhile.
bool shard::came_after_pause(std::int64_t now)
{
    moved_ns_ = now;
    if (!any_owing_.load(std::memory_order_relaxed))
        return false;
    const bool paused = now - owing_ns_ > long_pause_ns;
    owing_ns_ = now;
    return paused;
}

/// Who posts between two polls mostly goes on doing so: what waits for company is kept for it, for
/// some polls.
bool shard::company_comes()
{
    if (!deferred_lately_.load(std::memory_order_relaxed) || ++polls_waited_ > longest_wait_polls) {
        polls_waited_ = 0;
        return false;
    }
    deferred_lately_.store(false, std::memory_order_relaxed);
    return true;
}

/// For all but polls, which would take it again and again otherwise. Spins before it blocks: a poll
/// holds the token for less than a microsecond, and would have to wake a blocked thread when it
/// releases it, perhaps on another processor.
void shard::take_token() OSD_UNCHECKED
{
    wanted_.fetch_add(1);
    const std::int64_t began = osd::now_ns();
    while (!token_.try_lock())
        if (osd::now_ns() - began > token_spin_ns) {
            token_.lock();
            break;
        }
    wanted_.fetch_sub(1);
}

bool shard::receive_some(std::int64_t now)
{
    in_packets groups[groups_at_once];
    const std::uint32_t count = io_->receive(groups, groups_at_once);
    for (std::uint32_t i = 0; i < count; ++i)
        take_group(groups[i], now);
    switch_to(nullptr, now);
    return count != 0;
}

void shard::take_group(const in_packets &group, std::int64_t now)
{
    for (std::size_t at = 0; at < group.size; at += group.segment)
        take_packet(group.bytes + at, std::min(group.segment, group.size - at), group.from, now);
}

/// Holds a queue pair's lock for as long as the packets are its.
void shard::switch_to(queue_pair *pair, std::int64_t now)
{
    if (current_ == pair)
        return;
    if (current_ != nullptr) {
        current_->after_receiving(now);
        current_->leave();
    }
    current_ = pair;
    if (pair != nullptr)
        pair->enter();
}

void shard::take_packet(const std::uint8_t *bytes, std::size_t size, const net_address &from,
                        std::int64_t now) OSD_UNCHECKED
{
    packet p;
    if (!parse(bytes, size, p) || p.base.kind == packet_kind::request)
        return;
    queue_pair *pair = find(p.base.to);
    if (pair == nullptr) {
        if (!closing_.accept(p, from, *io_))
            answer_stranger(p, from, now);
        return;
    }
    switch_to(pair, now);
    pair->receive(p, from, bytes, size, now);
}

/// Who asks for a connection that is not there is told so. The answer is not longer than the
/// question, quotes it, and is not given to another answer.
void shard::answer_stranger(const packet &p, const net_address &from, std::int64_t now)
{
    const bool asks = p.base.kind == packet_kind::data || p.base.kind == packet_kind::probe ||
                      p.base.kind == packet_kind::accept || p.base.kind == packet_kind::close;
    if (!asks || now < next_reset_ns_)
        return;
    next_reset_ns_ = now + reset_every_ns;
    out_packet out;
    out.begin();
    out.add(out.header, write_base(out.header, {packet_kind::reset, 0, p.base.from, p.base.tag,
                                                p.base.to, p.base.psn, 0, 0}));
    std::uint32_t done = 0;
    (void)io_->send(from, &out, 1, done);
}

void shard::ring_deferred()
{
    if (!any_deferred_.load(std::memory_order_relaxed) || !any_deferred_.exchange(false))
        return;
    deferred_.drain([this](std::uint32_t slot) {
        if (queue_pair *pair = pairs_[slot].load(std::memory_order_acquire))
            pair->ring();
    });
}

void shard::flush_acks(std::int64_t now) OSD_UNCHECKED
{
    if (!any_owing_.load(std::memory_order_relaxed) || !any_owing_.exchange(false))
        return;
    owing_.drain([this, now](std::uint32_t slot) OSD_UNCHECKED {
        queue_pair *pair = pairs_[slot].load(std::memory_order_acquire);
        if (pair == nullptr)
            return;
        pair->enter();
        pair->flush_ack(now);
        pair->leave();
    });
}

void shard::take_bounces(std::int64_t now) OSD_UNCHECKED
{
    bounced b;
    packet quoted;
    for (int i = 0; i < 64 && io_->take_bounce(b); ++i) {
        // What comes back may be cut; the base header is enough.
        if (!parse_base_only(b.bytes, b.size, quoted.base))
            continue;
        queue_pair *pair = find(quoted.base.from);
        if (pair == nullptr) {
            closing_.port_closed(b.to, quoted.base);
            continue;
        }
        pair->enter();
        pair->bounce(b, quoted.base, now);
        pair->leave();
    }
}

void shard::defer(const queue_pair &pair)
{
    deferred_.set(pair.slot);
    any_deferred_.store(true);
    deferred_lately_.store(true, std::memory_order_relaxed);
}

void shard::owe_ack(queue_pair &pair)
{
    owing_.set(pair.slot);
    any_owing_.store(true);
}

// --------------------------------------------------------------------------------------- timers

void shard::timer_set(const queue_pair &pair, std::int64_t due_ns)
{
    if (!timing_.test(pair.slot))
        timing_.set(pair.slot);
    if (due_ns < wakes_ns_.load())
        kick();
}

void shard::run_timers(std::int64_t now) OSD_UNCHECKED
{
    timing_.visit([this, now](std::uint32_t slot) OSD_UNCHECKED {
        queue_pair *pair = pairs_[slot].load(std::memory_order_acquire);
        if (pair == nullptr)
            return timing_.clear(slot);
        const std::int64_t due = pair->due_ns.load();
        if (due == INT64_MAX) {
            timing_.clear(slot);
            if (pair->due_ns.load() != INT64_MAX) // set meanwhile
                timing_.set(slot);
        } else if (due <= now) {
            pair->enter();
            pair->on_timer(now);
            pair->leave();
        }
    });
    closing_.on_timer(now, *io_);
    if (now >= slow_due_ns_)
        run_slow_timers(now);
}

void shard::run_slow_timers(std::int64_t now) OSD_UNCHECKED
{
    slow_due_ns_ = now + slow_tick_ns;
    const std::uint32_t used = slots_used_.load(std::memory_order_acquire);
    for (std::uint32_t slot = 0; slot < used; ++slot)
        if (queue_pair *pair = pairs_[slot].load(std::memory_order_acquire)) {
            pair->enter();
            pair->on_slow_timer(now);
            pair->leave();
        }
    if (index_ == 0)
        of_->listening.forget_old(now);
}

std::int64_t shard::next_due()
{
    std::int64_t due = std::min(io_->due_ns(), closing_.due_ns());
    timing_.visit([this, &due](std::uint32_t slot) {
        if (const queue_pair *pair = pairs_[slot].load(std::memory_order_acquire))
            due = std::min(due, pair->due_ns.load());
    });
    if (alive_.load() != 0 || (index_ == 0 && of_->listening.remembers()))
        due = std::min(due, slow_due_ns_);
    return due;
}

// ----------------------------------------------------------------------------------- the thread

void shard::kick()
{
    if (wakes_ns_.load() != INT64_MIN && !kicked_.exchange(true))
        signal_.raise();
}

void shard::end_wait()
{
    waited_.store(true);
    if (waiters_.fetch_sub(1) == 1 && leaves_socket_.load())
        kick();
}

/// True when something came.
bool shard::work_once(bool consumers_active, std::uint64_t ready) OSD_UNCHECKED
{
    take_token();
    const std::int64_t now = osd::now_ns();
    bool moved = false;
    if (!consumers_active || io_->due_ns() <= now) {
        moved = receive_some(now);
        ring_deferred();
        flush_acks(now);
    }
    if (!moved && (consumers_active || has(ready, socket_source)))
        take_bounces(now);
    run_timers(now);
    token_.unlock();
    return moved;
}

/// True when packets are waiting, and no consumer polls.
bool shard::neglected()
{
    const waitable socket = io_->descriptor();
    const std::uint32_t activity = activity_.load();
    if (wait_for(&socket, 1, osd::deadline::passed()) != osd::wait_result::woken)
        return false;
    (void)wait_for(nullptr, 0, osd::deadline::after_ns(grace_ns));
    return activity_.load() == activity;
}

void shard::run()
{
    std::uint64_t ready = everything;
    std::uint32_t seen = activity_.load();
    bool polled = false;
    bool found = false;
    while (!stopping_.load()) {
        const bool active = polled || waiters_.load() != 0;
        attended_.store(active, std::memory_order_relaxed);
        const bool moved = work_once(active, ready);
        const bool told = deliver();
        if (index_ == 0 && has(ready, listener_source))
            of_->listening.serve();
        found = found || moved;
        if (active)
            spin_.stop();
        if (told || (!active && spin_.looks_on(moved, osd::now_ns()))) {
            ready = everything;
            continue;
        }
        ready = sleep(active, polled, found || ready != everything);
        const std::uint32_t activity = activity_.load();
        const bool met = waited_.exchange(false) || contended_;
        polled = attendance_.note(activity - seen, met, found, osd::now_ns());
        seen = activity;
        if (polled && neglected()) {
            attendance_.neglected();
            polled = false;
        }
        found = false;
    }
}

/// A consumer is polling right now. Blocking for the token would keep its next poll from it.
bool shard::token_taken() OSD_UNCHECKED
{
    if (!token_.try_lock())
        return true;
    token_.unlock();
    return false;
}

/// While consumers poll or wait, their threads watch the socket. Returns what the thread woke for,
/// a bit for each source. `worked`: what follows may set timers, and need not kick for them.
std::uint64_t shard::sleep(bool active, bool polled, bool worked) OSD_UNCHECKED
{
    leaves_socket_.store(active && !polled);
    wakes_ns_.store(INT64_MAX); // from here on who sets a timer kicks
    take_token();
    std::int64_t due = next_due();
    token_.unlock();
    if (polled)
        due = std::min(due, osd::now_ns() + tick_ns);
    else if (worked)
        due = std::min(due, osd::now_ns() + first_timer_ns);
    const bool nothing = !anything_noticed_.load() && !stopping_.load() &&
                         (!leaves_socket_.load() || waiters_.load() != 0);
    std::uint64_t ready = 0;
    if (nothing) {
        if (!kicked_.load())
            wakes_ns_.store(due);
        waitable descriptors[sources];
        descriptors[kick_source] = signal_.descriptor();
        descriptors[listener_source] = index_ == 0 ? of_->listening.descriptor() : -1;
        descriptors[socket_source] = active ? -1 : io_->descriptor();
        int contended = 0;
        do
            if (wait_for(descriptors, sources, at_time(due), &ready) != osd::wait_result::woken)
                ready = 0;
        while (ready == 1 << socket_source && token_taken() && ++contended < most_contended);
        contended_ = contended != 0;
    }
    leaves_socket_.store(false);
    wakes_ns_.store(INT64_MIN);
    // Whoever kicked may raise the signal only after its kick was seen here: then it wakes once
    // more.
    if (kicked_.load() || has(ready, kick_source)) {
        signal_.clear();
        kicked_.store(false);
    }
    return ready != 0 ? ready : everything;
}

// -------------------------------------------------------------------------------------- upcalls

void shard::told()
{
    anything_noticed_.store(true);
    if (!thread_.is_current())
        kick();
}

void shard::notice(queue_pair &pair)
{
    if (pair.noticed)
        return;
    pair.noticed = true;
    append(noticed_pairs_, pair);
}

void shard::notice(completion_queue &queue)
{
    if (queue.noticed)
        return;
    queue.noticed = true;
    append(noticed_queues_, queue);
}

void shard::tell_completion(completion_queue &queue)
{
    {
        osd::lock_guard hold(events_);
        queue.notice_completion = true;
        notice(queue);
    }
    told();
}

void shard::tell_overflow(completion_queue &queue)
{
    {
        osd::lock_guard hold(events_);
        queue.notice_overflow = true;
        notice(queue);
    }
    told();
}

void shard::tell_established(queue_pair &pair)
{
    {
        osd::lock_guard hold(events_);
        pair.tell_established = true;
        notice(pair);
    }
    told();
}

void shard::tell_end(queue_pair &pair, connection_event event)
{
    {
        osd::lock_guard hold(events_);
        pair.tell_end = true;
        pair.end = event;
        notice(pair);
    }
    told();
}

void shard::tell_limit(shared_receives &queue)
{
    {
        osd::lock_guard hold(events_);
        if (!queue.noticed) {
            queue.noticed = true;
            append(noticed_shared_, queue);
        }
    }
    told();
}

void shard::begin_upcall(const void *object)
{
    busy_ = object;
    events_.unlock();
}

void shard::end_upcall()
{
    events_.lock();
    busy_ = nullptr;
    quiet_.broadcast();
}

void shard::wait_quiet(const void *object)
{
    while (busy_ == object)
        (void)quiet_.wait(events_, osd::deadline::never());
}

void shard::silence(completion_queue &queue)
{
    osd::lock_guard hold(events_);
    unlist(noticed_queues_, queue);
    wait_quiet(&queue);
}

void shard::silence(queue_pair &pair)
{
    osd::lock_guard hold(events_);
    unlist(noticed_pairs_, pair);
    pair.tell_established = pair.tell_end = false;
    wait_quiet(&pair);
}

void shard::silence(shared_receives &queue)
{
    osd::lock_guard hold(events_);
    unlist(noticed_shared_, queue);
    wait_quiet(&queue);
}

void shard::hush(queue_pair &pair)
{
    osd::lock_guard hold(events_);
    unlist(noticed_pairs_, pair);
    pair.tell_established = pair.tell_end = false;
}

/// One event at a time: after an upcall the object may be gone.
void shard::deliver(queue_pair &pair)
{
    const bool established = pair.tell_established;
    connection_event event = pair.end;
    if (established) {
        event = connection_event::established;
        pair.tell_established = false;
        if (pair.tell_end)
            notice(pair);
    } else {
        pair.tell_end = false;
    }
    const bool with_data = established || event == connection_event::rejected;
    void *owner = pair.with.owner;
    begin_upcall(&pair);
    of_->tell().connection(owner, event, pair.answer, with_data ? pair.answer_size : 0);
    end_upcall();
}

void shard::deliver(completion_queue &queue)
{
    const bool overflow = queue.notice_overflow;
    if (overflow) {
        queue.notice_overflow = false;
        if (queue.notice_completion)
            notice(queue);
    } else {
        queue.notice_completion = false;
    }
    void *owner = queue.owner();
    begin_upcall(&queue);
    overflow ? of_->tell().overflow(owner) : of_->tell().completion(owner);
    end_upcall();
}

/// True when there was something to tell.
bool shard::deliver()
{
    if (!anything_noticed_.exchange(false))
        return false;
    osd::lock_guard hold(events_);
    for (;;) {
        if (queue_pair *pair = take_first(noticed_pairs_)) {
            deliver(*pair);
        } else if (completion_queue *queue = take_first(noticed_queues_)) {
            deliver(*queue);
        } else if (shared_receives *shared = take_first(noticed_shared_)) {
            void *owner = shared->owner();
            begin_upcall(shared);
            of_->tell().limit(owner);
            end_upcall();
        } else {
            return true;
        }
    }
}

} // namespace soft_hca
