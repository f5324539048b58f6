// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completion queues, and the progress of the device.
//
// Who calls the device, when:
//   a consumer that polls    each time that its CQ is empty
//   the service thread       when the descriptor is readable, and after completion_notify; where
//                            there is no descriptor, it looks in now and then, and while consumers
//                            poll, it does that only
#include "unconnected_port.hpp"

#include "dapl_line_limit.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dapl::DAPL_TRANSPORT::unconnected {

namespace {

constexpr unsigned batch = 64; ///< events that are taken with the lock held
constexpr std::int64_t shortest_pause_ns = 50'000;
constexpr std::int64_t longest_pause_ns = 10'000'000;
constexpr std::int64_t awaited_pause_ns = 500'000; ///< longest, where a consumer waits
/// Longest while consumers poll: peers that ask something wait so long when they stop.
constexpr std::int64_t polled_pause_ns = 4'000'000;
constexpr unsigned most_skipped = 4; ///< pauses without a look at the device

line_limit lost_datagrams; // all adapters share these
line_limit stalled_peers;

/// Takes the end of a send or an access.
void take_end(hca &h, const fabric_event &event) OSD_REQUIRES(h.library)
{
    auto *const what = static_cast<in_flight<qp> *>(event.cookie);
    if (what->is_access)
        return h.ended(static_cast<pair_access &>(*what), event.error);
    qp *const of = std::exchange(what->of, nullptr);
    known_peer *const peer = std::exchange(what->peer, nullptr);
    h.buffers.give(static_cast<pair_buffer &>(*what));
    if (peer != nullptr)
        h.landed(*peer);
    if (of == nullptr)
        return;
    --of->data.in_flight;
    if (event.error == 0)
        return;
    dapl_log_some(lost_datagrams, DAPL_DBG_TYPE_ERR, "%s: a datagram did not arrive: %s", h.name,
                  std::strerror(event.error));
    h.lose(*of);
}

/// Each pair that waits for the device sends more.
void pump_ready(hca &h) OSD_REQUIRES(h.library)
{
    list<qp, ready_link> turn;
    while (qp *q = h.ready.front()) {
        static_cast<ready_link *>(q)->unlink();
        turn.push(*q);
    }
    while (qp *q = turn.front()) {
        static_cast<ready_link *>(q)->unlink();
        h.pump(*q);
    }
}

} // namespace

/// Returns true when there were events; then there may be more, as it stops early when the queue
/// that is wanted has a completion. The device may have taken them from what makes its descriptor
/// readable, so a service thread that waits for that looks itself.
bool types::hca::take_events(const cq *wanted)
{
    fabric_event found;
    unsigned taken = 0;
    bool all = false;
    fabric &from = *device;
    while (taken < batch && (wanted == nullptr || wanted->done.empty())) {
        all = !from.next(found);
        if (all)
            break;
        ++taken;
        if (found.what == fabric_event::kind::arrived) {
            arrived(found.bytes, found.size);
            from.give_back(found.buffer);
        } else {
            take_end(*this, found);
        }
    }
    if (!ready.empty())
        pump_ready(*this);
    if (!all)
        look_again();
    return taken != 0;
}

/// Makes progress for a consumer that polls this queue, which is empty.
void types::hca::poll_for(const cq &c)
{
    polling = copies_here() ? &c : nullptr;
    const bool taken = take_events(&c);
    polling = nullptr;
    if (!taken)
        flush_acknowledgements();
}

/// An access, or a datagram of a connection that has ended, is not in flight any more.
void types::hca::landed(known_peer &peer)
{
    if (--peer.in_flight == 0 && peer.connections == 0)
        wake(); // the service thread forgets the peer
}

void types::hca::flush_acknowledgements()
{
    while (qp *q = owing.front()) {
        if (!acknowledge(*q))
            return; // the device takes no more: the next call goes on
    }
}

/// Finishes a posted operation.
void types::hca::finish(wr &w, DAT_DTO_COMPLETION_STATUS result)
{
    qp &q = *w.of;
    cq &c = *w.reported_to;
    (w.operation == opcode::receive ? q.receives : q.requests).drop(); // it is the oldest
    static_cast<awaiting_link &>(w).unlink();
    if (q.data.next == &w)
        q.data.next = nullptr;
    w.result = result;
    if (result != DAT_DTO_SUCCESS && result != DAT_DTO_ERR_FLUSHED && !q.data.is(state::refusing))
        lose(q);
    if (result != DAT_DTO_SUCCESS || !w.silent)
        c.done.push(w);
    if (c.armed && !c.done.empty())
        call_soon(c);
}

/// The service thread makes the callback that was asked for.
void types::hca::call_soon(cq &c)
{
    c.armed = false;
    --armed;
    if (c.is_unlinked())
        called.push(c);
    tell();
}

/// The service thread tells the common layer what is in the lists for that.
void types::hca::tell()
{
    has_news = true;
    if (!events.is_current())
        events.kick();
}

/// The service thread breaks its connection.
void types::hca::lose(qp &q)
{
    if (q.leaves || !q.failed_link::is_unlinked())
        return;
    failed.push(q);
    tell();
}

void types::hca::call_soon(srq &s)
{
    s.limit = 0;
    if (s.low_link::is_unlinked())
        low.push(s);
    tell();
}

/// Wakes the service thread after a post if the device needs calls and no consumer polls.
void types::hca::look_again()
{
    if (sleeping && !(ready.empty() && device->may_sleep()))
        wake();
}

/// Wakes the service thread where it sleeps until the device has events: something else is to be
/// done, and consumers may not poll again.
void types::hca::wake()
{
    if (!std::exchange(sleeping, false))
        return;
    events.kick();
}

namespace {

/// Adds the descriptor to the service thread's, or takes it away.
void watch(hca &h, bool on) OSD_REQUIRES(h.library)
{
    const int fd = h.device->descriptor();
    if (fd >= 0 && std::exchange(h.watching, on) != on)
        (void)h.events.modify(fd, on ? std::uint32_t{EPOLLIN} : 0u, &h.device);
}

/// Loses connections whose peer was told of a failure and does not end them, and connections for
/// which the device takes nothing. Returns when to look again.
std::int64_t lose_overdue(hca &h, std::int64_t now) OSD_REQUIRES(h.library)
{
    std::int64_t due = INT64_MAX;
    for (qp *q = h.ending.front(); q != nullptr;) {
        qp *const after = h.ending.after(*q);
        if (q->data.ends_by_ns <= now) {
            static_cast<ending_link *>(q)->unlink();
            h.lose(*q);
        } else {
            due = std::min(due, q->data.ends_by_ns);
        }
        q = after;
    }
    const std::int64_t patience = std::int64_t{h.setup.stall_ms} * 1'000'000;
    for (qp *q = h.ready.front(); q != nullptr; q = h.ready.after(*q)) {
        const std::int64_t since = q->data.stalled_ns;
        if (since != 0 && now - since > patience && q->failed_link::is_unlinked()) {
            dapl_log_some(stalled_peers, DAPL_DBG_TYPE_ERR,
                          "%s: the device has taken nothing for a peer for %u ms: its connection "
                          "is lost",
                          h.name, h.setup.stall_ms);
            h.lose(*q);
        }
    }
    return due;
}

/// Tells the next pairs of receives that nobody has taken. Returns when to look again.
std::int64_t repeat_offers(hca &h, std::int64_t now) OSD_REQUIRES(h.library)
{
    std::int64_t due = INT64_MAX;
    for (srq *s = h.offered.front(); s != nullptr;) {
        srq *const after = h.offered.after(*s);
        if (s->receives.empty() || s->starved.empty()) {
            static_cast<offered_link *>(s)->unlink();
        } else {
            if (s->offers_ns <= now)
                h.offer_receives(*s);
            due = std::min(due, s->offers_ns);
        }
        s = after;
    }
    return due;
}

/// Cancels datagrams that no peer has taken since its last connection ended. Their buffers come
/// back when the device says that they have ended.
void cancel_sends(hca &h, known_peer &peer) OSD_REQUIRES(h.library)
{
    peer.cancelled = true;
    for (pair_buffer &each : h.buffers)
        if (each.peer == &peer)
            h.device->cancel(&each);
}

/// Forgets peers whose last connection ended a while ago. Returns when to look again.
std::int64_t forget_peers(hca &h, std::int64_t now) OSD_REQUIRES(h.library)
{
    const std::int64_t stay_ns = std::int64_t{h.setup.peer_stays_ms} * 1'000'000;
    for (known_peer *peer = h.peers.first_idle(); peer != nullptr;) {
        known_peer *const after = h.peers.next_idle(*peer);
        if (now - peer->idle_ns < stay_ns)
            return peer->idle_ns + stay_ns;
        if (peer->in_flight == 0)
            h.peers.forget(*h.device, *peer);
        else if (!peer->cancelled)
            cancel_sends(h, *peer);
        peer = after;
    }
    return INT64_MAX;
}

cq *next_called(hca &h) OSD_EXCLUDES(h.library)
{
    osd::lock_guard hold(h.library);
    cq *c = h.called.front();
    if (c != nullptr)
        c->unlink();
    return c;
}

srq *next_low(hca &h) OSD_EXCLUDES(h.library)
{
    osd::lock_guard hold(h.library);
    srq *s = h.low.front();
    if (s != nullptr)
        static_cast<low_link *>(s)->unlink();
    return s;
}

qp *next_failed(hca &h) OSD_EXCLUDES(h.library)
{
    osd::lock_guard hold(h.library);
    qp *q = h.failed.front();
    if (q != nullptr)
        static_cast<failed_link *>(q)->unlink();
    return q;
}

/// Makes due callbacks and reports lost connections, unchecked: the lock of cm is this one.
OSD_UNCHECKED void report(hca &h)
{
    while (cq *c = next_called(h))
        h.run_upcall(c, [owner = c->owner] { dapl_evd_dto_callback(*owner); });
    while (srq *s = next_low(h))
        h.run_upcall(s, [owner = s->owner] { dapl_srq_limit_callback(*owner); });
    while (qp *q = next_failed(h))
        h.cm->lose(*q);
}

} // namespace

/// Calls the device if consumers do not; returns when to be called again at the latest. While they
/// poll, and want no callback, it pauses.
std::int64_t types::hca::look_at_device()
{
    sleeping = false;
    paused = polled.exchange(false) && armed == 0;
    const bool taken = !paused && take_events();
    if (!taken)
        flush_acknowledgements();
    const std::int64_t now = osd::now_ns();
    const std::int64_t overdue_ns =
        std::min({lose_overdue(*this, now), repeat_offers(*this, now), forget_peers(*this, now)});
    sleeping =
        !paused && !taken && ready.empty() && device->descriptor() >= 0 && device->may_sleep();
    watch(*this, !paused);
    const std::int64_t longest = armed != 0 ? awaited_pause_ns
                                 : paused   ? polled_pause_ns
                                            : longest_pause_ns;
    pause_ns = sleeping || taken ? shortest_pause_ns
                                 : std::clamp(2 * pause_ns, shortest_pause_ns, longest);
    const std::int64_t due_ns = sleeping ? port_support::event_thread::never
                                : taken  ? 0
                                         : now + pause_ns;
    return std::min(due_ns, overdue_ns);
}

/// While consumers poll, the service thread takes their lock now and then only: they would wait for
/// a thread that waits for a processor.
bool types::hca::leaves_device()
{
    const bool leaves = paused && armed == 0 && !has_news && skipped < most_skipped && polled;
    skipped = leaves ? skipped + 1 : 0;
    if (!leaves)
        return false;
    polled = false;
    pause_ns = std::min(2 * pause_ns, polled_pause_ns);
    return true;
}

/// Calls the device, and tells what has come of it.
std::int64_t types::hca::serve_device()
{
    if (leaves_device())
        return osd::now_ns() + pause_ns;
    std::int64_t due_ns = 0;
    {
        osd::lock_guard hold(library);
        due_ns = look_at_device();
    }
    while (has_news.exchange(false))
        report(*this);
    return due_ns;
}

// -------------------------------------------------------------------------------------- operations

status port::dapls_ib_cq_alloc(hca &h, cq &c, evd &owner, DAT_COUNT & /*depth*/)
{
    c.of = &h;
    c.owner = &owner;
    return success; // completions are in a list of posted operations, which has no end
}

status port::dapls_ib_cq_resize(cq &c, DAT_COUNT &depth)
{
    osd::lock_guard hold(c.of->library);
    DAT_COUNT held = 0;
    for (wr *w = c.done.front(); w != nullptr; w = w->next)
        ++held;
    return held > depth ? status::error(DAT_INVALID_STATE) : success;
}

void port::dapls_ib_cq_free(cq &c)
{
    hca &h = *c.of;
    if (h.foreign())
        return;
    osd::lock_guard hold(h.lock);
    {
        osd::lock_guard alone(h.library);
        c.unlink();
        if (std::exchange(c.armed, false))
            --h.armed;
    }
    h.wait_quiet(&c);
}

} // namespace dapl::DAPL_TRANSPORT::unconnected
