// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The service thread of an HCA. It reads the event queue, makes the upcalls, and moves what the
// consumer does not move itself: libfabric's tcp provider serves a peer's RDMA only while somebody
// calls into it. Where the consumer polls or waits on a CQ, the thread keeps away from that CQ;
// with nothing to do anywhere it sleeps.
#include "internal.hpp"

#include "dapl_debug.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <utility>

namespace dapl::libfabric::ofi {

namespace {

constexpr std::uint32_t shortest_us = 100; ///< to leave a CQ alone whose consumer is busy with it
constexpr std::uint32_t longest_us = 10'000;
constexpr std::int64_t glance_ns = 3000; ///< to see whether a consumer is at it just now
constexpr int rounds_per_visit = 64;
constexpr std::int64_t idle_round_ns = 3000; ///< a round that took no longer moved nothing
constexpr std::int64_t hang_up_check_ns = 500'000'000;

enum class next_step { arm, leave_alone, come_again };

// --------------------------------------------------------------------------- looking after a CQ

bool readable(const cq &c)
{
    pollfd look{c.wait_fd, POLLIN, 0};
    return poll(&look, 1, 0) == 1;
}

bool in_use(cq &c, cq *mate)
{
    const bool posted = c.posting.exchange(0, std::memory_order_relaxed) != 0;
    const bool polled = c.consumer.take_use();
    return (mate != nullptr && mate->consumer.take_use()) || posted || polled;
}

enum class consumer { absent, idle, busy };

/// Busy is who polls or posts just now. Who did a moment ago, and now spins on memory that a peer
/// is to write, needs the service thread.
consumer watch_consumer(cq &c, cq *mate)
{
    if (!in_use(c, mate))
        return consumer::absent;
    const std::int64_t until = osd::now_ns() + glance_ns;
    while (osd::now_ns() < until)
        if (in_use(c, mate))
            return consumer::busy;
    return consumer::idle;
}

bool sleeps_inside(const cq &c)
{
    return (c.sleepers.load() & cq::waiting) != 0;
}

bool wants_callback(const cq &c)
{
    return (c.sleepers.load() & cq::notify) != 0;
}

void answer_notify(cq &c)
{
    if (!wants_callback(c))
        return;
    if (c.detour.load(std::memory_order_acquire) == 0 && !progress(c))
        return;
    c.sleepers.fetch_and(~cq::notify);
    dapl_evd_dto_callback(*c.owner);
}

/// Takes back the signal of what is done, so that the descriptor tells of what is not. False: there
/// are completions.
bool reset_signal(cq &c)
{
    fid *watched = &c.fid->fid;
    return fi_trywait(c.device->fabric, &watched, 1) == 0;
}

next_step serve(cq &c)
{
    const std::int64_t began = osd::now_ns();
    for (int round = 0; round < rounds_per_visit; ++round) {
        (void)progress(c);
        answer_notify(c);
        const bool quiet = reset_signal(c);
        if (sleeps_inside(c)) {
            (void)fi_cq_signal(c.fid); // what we took back may have been his
            return next_step::leave_alone;
        }
        if (wants_callback(c) && !quiet)
            continue;
        if (!readable(c))
            return next_step::arm;
    }
    const bool moved = osd::now_ns() - began > rounds_per_visit * idle_round_ns;
    return moved ? next_step::come_again : next_step::leave_alone;
}

/// `called`: something happened, it is not only time to look.
next_step look_after(cq &c, cq *mate, bool called)
{
    if (wants_callback(c))
        return serve(c);
    if (sleeps_inside(c) || (mate != nullptr && sleeps_inside(*mate)))
        return next_step::leave_alone;
    const consumer found = watch_consumer(c, mate);
    const bool idle_before = std::exchange(c.watch.seen_idle, found == consumer::idle);
    if (found == consumer::busy || (found == consumer::idle && !called && !idle_before))
        return next_step::leave_alone;
    return serve(c);
}

/// What is listed costs a little with every packet, even when it is not armed.
void strike_off(hca &device, cq &c) OSD_REQUIRES(device.lock)
{
    if (std::exchange(c.watch.listed, false))
        device.events.remove(c.wait_fd);
}

void arm(hca &device, cq &c) OSD_REQUIRES(device.lock)
{
    if (c.watch.receivers == 0 && !wants_callback(c)) {
        strike_off(device, c);
        return;
    }
    c.watch.period_us = 0;
    c.armed.store(true);
    const bool listed = std::exchange(c.watch.listed, true);
    constexpr std::uint32_t once = port_support::event_thread::once;
    if (listed ? device.events.modify(c.wait_fd, once, &c) : device.events.add(c.wait_fd, once, &c))
        return;
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: epoll_ctl for a CQ failed: %s", device.name,
             std::strerror(errno));
}

/// A consumer that sleeps for long is left alone until it says that it woke.
bool leave_until_told(cq &c)
{
    std::uint32_t seen = c.sleepers.load();
    while ((seen & cq::waiting) != 0)
        if (c.sleepers.compare_exchange_weak(seen, seen | cq::tell))
            return true;
    return false;
}

void leave_alone(hca &device, cq &c) OSD_REQUIRES(device.lock)
{
    strike_off(device, c);
    const bool long_enough = c.watch.period_us == longest_us;
    cq *mate = c.watch.mate;
    c.watch.period_us = std::clamp(2 * c.watch.period_us, shortest_us, longest_us);
    if (long_enough && (leave_until_told(c) || (mate != nullptr && leave_until_told(*mate))))
        c.watch.due_ns = INT64_MAX;
    else
        c.watch.due_ns = osd::now_ns() + std::int64_t{c.watch.period_us} * 1000;
}

void visit(hca &device, cq &c) OSD_REQUIRES(device.lock)
{
    const bool called = c.watch.due_ns == INT64_MAX;
    cq *mate = c.watch.mate; // is not freed before the queue pairs that made it one
    c.watch.due_ns = INT64_MAX;
    next_step next{};
    device.run_upcall(&c, [&] { next = look_after(c, mate, called); });
    if (static_cast<all_link &>(c).alone())
        return; // freed meanwhile, or about to be
    switch (next) {
    case next_step::arm:
        arm(device, c);
        break;
    case next_step::leave_alone:
        leave_alone(device, c);
        break;
    case next_step::come_again:
        c.watch.due_ns = 0;
        break;
    }
}

std::int64_t visit_due(hca &device) OSD_REQUIRES(device.lock)
{
    const std::int64_t now = osd::now_ns();
    for (cq *c = device.cqs.front(); c != nullptr; c = device.cqs.after(*c))
        if (c->watch.due_ns <= now && static_cast<todo_link &>(*c).alone())
            device.ready.push(*c);
    while (cq *c = device.ready.front()) {
        static_cast<todo_link &>(*c).unlink();
        visit(device, *c);
    }
    std::int64_t next = INT64_MAX;
    for (cq *c = device.cqs.front(); c != nullptr; c = device.cqs.after(*c))
        next = std::min(next, c->watch.due_ns);
    return next;
}

/// Consumers changed `sleepers` of CQs that are not armed.
bool answer_calls(hca &device) OSD_REQUIRES(device.lock)
{
    if (!device.consumer_calls.exchange(false))
        return false;
    for (cq *c = device.cqs.front(); c != nullptr; c = device.cqs.after(*c)) {
        const bool asleep = c->watch.due_ns == INT64_MAX && c->watch.receivers != 0;
        if (!c->armed.load() && (wants_callback(*c) || asleep))
            c->watch.due_ns = 0;
    }
    return true;
}

// ------------------------------------------------------------------------------- queue pairs

void release_fences(hca &device) OSD_REQUIRES(device.lock)
{
    if (!device.fences_fell.exchange(false))
        return;
    for (qp *q = device.qps.front(); q != nullptr; q = device.qps.after(*q))
        if (q->fenced.load())
            release_fenced(*q);
}

std::int64_t attend_due(hca &device) OSD_REQUIRES(device.lock)
{
    const std::int64_t now = osd::now_ns();
    while (connection_state *due = device.timers.pop_due(now))
        attend(device, static_cast<qp &>(*due));
    return device.timers.next_due();
}

qp *first_lost(hca &device) OSD_REQUIRES(device.lock)
{
    const std::int64_t now = osd::now_ns();
    for (qp *q = device.qps.front(); q != nullptr; q = device.qps.after(*q)) {
        if (!q->is_established() || !hung_up(*q)) {
            q->hung_up_ns = 0;
            continue;
        }
        if (q->hung_up_ns == 0)
            q->hung_up_ns = now;
        if (now - q->hung_up_ns > std::int64_t{device.params.linger_ms} * 1'000'000)
            return q;
    }
    return nullptr;
}

/// libfabric does not see that a peer is gone while a message waits that nobody posted a receive
/// for. The socket knows.
void find_lost(hca &device, std::int64_t &last) OSD_REQUIRES(device.lock)
{
    if (!device.tcp_like || osd::now_ns() - last < hang_up_check_ns)
        return;
    last = osd::now_ns();
    while (qp *q = first_lost(device))
        connection_lost(device, *q);
}

// -------------------------------------------------------------------------------------- the thread

/// A CQ that was removed from the thread's descriptors is not reported, so this one exists.
void cq_ready(hca &device, cq &c) OSD_REQUIRES(device.lock)
{
    c.armed.store(false); // before the look at c.sleepers
    if (static_cast<todo_link &>(c).alone())
        device.ready.push(c);
}

std::int64_t serve_once(hca &device, std::int64_t &last_hang_up_check) OSD_REQUIRES(device.lock)
{
    fid *watched = &device.eq->fid;
    (void)fi_trywait(device.fabric, &watched, 1);
    drain_events(device);
    release_fences(device);
    const bool called = answer_calls(device);
    const std::int64_t cq_due = visit_due(device);
    if (called || cq_due != INT64_MAX)
        find_lost(device, last_hang_up_check);
    return std::min(cq_due, attend_due(device));
}

void serve_hca(void *argument)
{
    hca &device = *static_cast<hca *>(argument);
    std::int64_t last_hang_up_check = 0;
    osd::lock_guard hold(device.lock);
    while (!device.events.is_stopping(device.lock)) {
        const std::int64_t due_ns = serve_once(device, last_hang_up_check);
        for (void *tag : device.events.wait(device.lock, due_ns))
            if (tag != &device.eq)
                cq_ready(device, *static_cast<cq *>(tag));
    }
}

} // namespace

bool start_service(hca &device)
{
    int eq_fd = -1;
    const bool ready = device.events.open() &&
                       fi_control(&device.eq->fid, FI_GETWAIT, &eq_fd) == 0 &&
                       device.events.add(eq_fd, EPOLLIN, &device.eq) &&
                       device.events.start("dapl-ofi", serve_hca, &device);
    if (!ready)
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: starting the service thread failed: %s", device.name,
                 std::strerror(errno));
    return ready;
}

void call_service(hca &device)
{
    device.consumer_calls.store(true);
    device.events.kick();
}

void release_later(hca &device)
{
    device.fences_fell.store(true);
    device.events.kick();
}

void watch(cq &c)
{
    hca &device = *c.device;
    osd::lock_guard hold(device.lock);
    device.cqs.push(c);
}

void unwatch(cq &c)
{
    hca &device = *c.device;
    osd::lock_guard hold(device.lock);
    strike_off(device, c);
    static_cast<all_link &>(c).unlink();
    static_cast<todo_link &>(c).unlink();
    device.wait_quiet(&c);
}

void add_receiver(hca &device, cq &c, cq &sends_at)
{
    cq *mate = &sends_at == &c ? nullptr : &sends_at;
    if (c.watch.receivers++ == 0) {
        c.watch.mate = mate;
        arm(device, c);
    } else if (c.watch.mate != mate) {
        c.watch.mate = nullptr;
    }
}

void remove_receiver(hca &device, cq &c)
{
    if (--c.watch.receivers != 0)
        return;
    device.wait_quiet(&c); // a visit may be looking at the mate
    c.watch.mate = nullptr;
}

} // namespace dapl::libfabric::ofi
