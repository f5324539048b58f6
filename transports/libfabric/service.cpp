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
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
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
        (void)epoll_ctl(device.epoll, EPOLL_CTL_DEL, c.wait_fd, nullptr);
}

void arm(hca &device, cq &c) OSD_REQUIRES(device.lock)
{
    if (c.watch.receivers == 0 && !wants_callback(c)) {
        strike_off(device, c);
        return;
    }
    c.watch.period_us = 0;
    c.armed.store(true);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLONESHOT;
    event.data.ptr = &c;
    const int how = std::exchange(c.watch.listed, true) ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(device.epoll, how, c.wait_fd, &event) != 0)
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: cannot watch a completion queue", device.name);
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
    begin_upcall(device, &c);
    const next_step next = look_after(c, mate, called);
    end_upcall(device);
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

// ------------------------------------------------------------------------ looking after queue
// pairs

void release_fences(hca &device) OSD_REQUIRES(device.lock)
{
    if (!device.fences_fell.exchange(false))
        return;
    for (qp *q = device.qps.front(); q != nullptr; q = device.qps.after(*q))
        if (q->fenced.load())
            release_fenced(*q);
}

qp *first_due(hca &device, std::int64_t now, std::int64_t &next) OSD_REQUIRES(device.lock)
{
    next = INT64_MAX;
    for (qp *q = device.todo.front(); q != nullptr; q = device.todo.after(*q)) {
        if (q->due_ns <= now)
            return q;
        next = std::min(next, q->due_ns);
    }
    return nullptr;
}

std::int64_t attend_due(hca &device) OSD_REQUIRES(device.lock)
{
    const std::int64_t now = osd::now_ns();
    std::int64_t next;
    while (qp *q = first_due(device, now, next)) {
        static_cast<todo_link &>(*q).unlink();
        attend(device, *q);
    }
    return next;
}

qp *first_lost(hca &device) OSD_REQUIRES(device.lock)
{
    const std::int64_t now = osd::now_ns();
    for (qp *q = device.qps.front(); q != nullptr; q = device.qps.after(*q)) {
        const bool connected = phase_of(*q) == phase::live || phase_of(*q) == phase::closing;
        if (!connected || !hung_up(*q)) {
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

void take_event(hca &device, const epoll_event &event) OSD_REQUIRES(device.lock)
{
    if (event.data.ptr == &device.kick) {
        eventfd_t calls;
        (void)eventfd_read(device.kick, &calls);
        device.kicked.store(false);
    } else if (event.data.ptr != &device.eq) {
        cq &c = *static_cast<cq *>(event.data.ptr);
        c.armed.store(false); // before the look at c.sleepers
        if (static_cast<todo_link &>(c).alone())
            device.ready.push(c);
    }
}

/// CQs are taken off `epoll` with the lock held, so what it names now exists.
void collect(hca &device) OSD_REQUIRES(device.lock)
{
    epoll_event events[32];
    const int count = epoll_wait(device.epoll, events, 32, 0);
    for (int i = 0; i < count; ++i)
        take_event(device, events[i]);
}

void sleep_until(hca &device, std::int64_t due_ns) OSD_REQUIRES(device.lock)
{
    const std::int64_t left = due_ns == INT64_MAX ? INT64_MAX : due_ns - osd::now_ns();
    if (left <= 0)
        return;
    const timespec timeout{static_cast<std::time_t>(left / 1'000'000'000),
                           static_cast<long>(left % 1'000'000'000)};
    pollfd wait{device.epoll, POLLIN, 0};
    device.lock.unlock();
    (void)ppoll(&wait, 1, left == INT64_MAX ? nullptr : &timeout, nullptr);
    device.lock.lock();
}

void serve_hca(void *argument)
{
    hca &device = *static_cast<hca *>(argument);
    std::int64_t last_hang_up_check = 0;
    osd::lock_guard hold(device.lock);
    while (!device.stopping) {
        fid *watched = &device.eq->fid;
        (void)fi_trywait(device.fabric, &watched, 1);
        drain_events(device);
        release_fences(device);
        const bool called = answer_calls(device);
        const std::int64_t cq_due = visit_due(device);
        if (called || cq_due != INT64_MAX)
            find_lost(device, last_hang_up_check);
        const std::int64_t qp_due = attend_due(device);
        sleep_until(device, std::min(cq_due, qp_due));
        collect(device);
    }
}

void kick(hca &device)
{
    if (!device.kicked.exchange(true))
        (void)eventfd_write(device.kick, 1);
}

bool add_to_epoll(hca &device, int fd, std::uint32_t events, void *tag)
{
    epoll_event event{};
    event.events = events;
    event.data.ptr = tag;
    return epoll_ctl(device.epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

} // namespace

bool start_service(hca &device)
{
    int eq_fd = -1;
    device.epoll = epoll_create1(EPOLL_CLOEXEC);
    device.kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const bool ready = device.epoll >= 0 && device.kick >= 0 &&
                       fi_control(&device.eq->fid, FI_GETWAIT, &eq_fd) == 0 &&
                       add_to_epoll(device, eq_fd, EPOLLIN, &device.eq) &&
                       add_to_epoll(device, device.kick, EPOLLIN, &device.kick) &&
                       device.service.start("dapl-ofi", serve_hca, &device);
    if (!ready)
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: no service thread", device.name);
    return ready;
}

void stop_service(hca &device)
{
    if (device.service.running()) {
        {
            osd::lock_guard hold(device.lock);
            device.stopping = true;
        }
        kick(device);
        device.service.join();
    }
    if (device.epoll >= 0)
        close(device.epoll);
    if (device.kick >= 0)
        close(device.kick);
    device.epoll = device.kick = -1;
    device.kicked.store(false);
}

void call_service(hca &device)
{
    device.consumer_calls.store(true);
    kick(device);
}

void release_later(hca &device)
{
    device.fences_fell.store(true);
    kick(device);
}

void schedule(hca &device, qp &q, std::int64_t due_ns)
{
    q.due_ns = due_ns;
    if (static_cast<todo_link &>(q).alone())
        device.todo.push(q);
    if (!device.service.is_current())
        kick(device);
}

void begin_upcall(hca &device, const void *object)
{
    device.busy = object;
    device.lock.unlock();
}

void end_upcall(hca &device)
{
    device.lock.lock();
    device.busy = nullptr;
    device.quiet.broadcast();
}

void wait_quiet(hca &device, const void *object)
{
    while (device.busy == object)
        (void)device.quiet.wait(device.lock, osd::deadline::never());
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
    wait_quiet(device, &c);
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
    wait_quiet(device, &c); // a visit may be looking at the mate
    c.watch.mate = nullptr;
}

} // namespace dapl::libfabric::ofi
