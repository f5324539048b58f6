// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The service thread of an HCA. It reads the event queue, makes the upcalls, and moves what the
// consumer does not move itself: libfabric's tcp provider serves a peer's RDMA only while it is
// called. Where the consumer polls or waits on a CQ, the thread keeps away from that CQ;
// with nothing to do anywhere it sleeps.
#include "internal.hpp"

#include "dapl_debug.hpp"
#include "osd_system.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/epoll.h>
#include <utility>

namespace dapl::libfabric::ofi {

namespace {

constexpr std::int64_t hang_up_check_ns = 500'000'000;

int event_queue_fd(const hca &device)
{
    int fd = -1;
    (void)fi_control(&device.eq->fid, FI_GETWAIT, &fd);
    return fd;
}

/// The descriptor of the event queue stays readable without an event while a connection waits for
/// which the process has no descriptor left. It is then looked at from time to time only.
class event_queue_watch {
public:
    explicit event_queue_watch(const hca &device) : fd_(event_queue_fd(device)) {}
    /// Something moved: the event queue may have an event.
    void note_ready() { ready_ = true; }
    /// Reads the event queue where it may have an event: with libfabric 2.x that takes the lock
    /// that a consumer's poll takes, too. Returns when to look again.
    std::int64_t attend(hca &device) OSD_REQUIRES(device.lock)
    {
        if (!std::exchange(ready_, false) && (!is_paused() || osd::now_ns() < resume_ns_))
            return resume_ns_;
        fid *watched = &device.eq->fid;
        (void)fi_trywait(device.fabric, &watched, 1);
        bool starved = false;
        note_calls(device, drain_events(device, starved));
        if (starved != is_paused())
            (void)device.events.modify(fd_, starved ? 0U : std::uint32_t{EPOLLIN}, &device.eq);
        resume_ns_ = starved ? osd::now_ns() + pause_ns : never;
        return resume_ns_;
    }

private:
    static constexpr std::int64_t never = port_support::event_thread::never;
    static constexpr std::int64_t pause_ns = 10'000'000;

    bool is_paused() const { return resume_ns_ != never; }

    const int fd_;
    bool ready_ = true;
    std::int64_t resume_ns_ = never; ///< end of a pause
};

void release_fences(hca &device) OSD_REQUIRES(device.lock)
{
    if (!device.fences_fell.exchange(false))
        return;
    for (qp *q = device.qps.front(); q != nullptr; q = device.qps.after(*q))
        if (q->fenced.load())
            release_fenced(*q);
}

/// Ends connections in which an operation failed, unless the consumer disconnects them already.
void end_broken(hca &device) OSD_REQUIRES(device.lock)
{
    if (!device.some_broken.exchange(false))
        return;
    for (qp *q = device.qps.front(); q != nullptr; q = device.qps.after(*q))
        if (q->phase() == phase::live && q->broken.load())
            break_connection(device, *q);
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
        device.some_hung_up = true;
        if (now - q->hung_up_ns > std::int64_t{device.params.linger_ms} * 1'000'000)
            return q;
    }
    return nullptr;
}

/// libfabric does not see that a peer is gone while a message waits for a receive. The socket does.
/// Returns when to look again.
std::int64_t find_lost(hca &device, std::int64_t &last) OSD_REQUIRES(device.lock)
{
    if (osd::now_ns() - last >= hang_up_check_ns) {
        last = osd::now_ns();
        device.some_hung_up = false;
        while (qp *q = first_lost(device))
            connection_lost(device, *q);
    }
    return device.some_hung_up ? last + hang_up_check_ns : INT64_MAX;
}

// -------------------------------------------------------------------------------------- the thread

std::int64_t serve_once(hca &device, event_queue_watch &event_queue,
                        std::int64_t &last_hang_up_check) OSD_REQUIRES(device.lock)
{
    const std::int64_t eq_due = event_queue.attend(device);
    bound_silent(device);
    release_fences(device);
    end_broken(device);
    const bool called = device.progress.answer_calls(device);
    const std::int64_t cq_due = device.progress.visit_due(device);
    const bool look = called || cq_due != INT64_MAX || device.some_hung_up;
    const std::int64_t lost_due = look ? find_lost(device, last_hang_up_check) : INT64_MAX;
    return std::min({eq_due, cq_due, lost_due, device.silent.due_ns, attend_due(device)});
}

void serve_hca(void *argument)
{
    hca &device = *static_cast<hca *>(argument);
    event_queue_watch event_queue(device);
    std::int64_t last_hang_up_check = 0;
    osd::lock_guard hold(device.lock);
    while (!device.events.is_stopping(device.lock)) {
        const std::int64_t due_ns = serve_once(device, event_queue, last_hang_up_check);
        for (void *tag : device.events.wait(device.lock, due_ns)) {
            event_queue.note_ready();
            if (tag == &device.senders)
                forget_gone(device);
            else if (tag == &device.some_hung_up)
                device.some_hung_up = true;
            else if (tag != &device.eq) // which is drained anyhow
                device.progress.set_ready(device, tag);
        }
    }
}

} // namespace

bool start_service(hca &device)
{
    const int eq_fd = event_queue_fd(device);
    find_silent_set(device, eq_fd);
    const bool ready = device.events.open() &&
                       device.progress.open(device, port_features.cno_wait, device.shared_fd) &&
                       device.events.add(eq_fd, EPOLLIN, &device.eq) && device.senders.open() &&
                       device.events.add(device.senders.get(), EPOLLIN, &device.senders) &&
                       device.events.start("dapl-ofi", serve_hca, &device);
    if (!ready)
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: starting the service thread failed: %s%s", device.name,
                 std::strerror(errno), osd::limit_text(errno).text);
    return ready;
}

void watch_hang_up(hca &device, qp &q)
{
    osd::lock_guard hold(q.lock);
    if (device.shared_fd >= 0 && q.socket >= 0)
        (void)device.events.add(q.socket, EPOLLRDHUP | EPOLLONESHOT, &device.some_hung_up);
}

void unshare_event_queue(const hca &device)
{
    if (device.shared_fd >= 0)
        (void)epoll_ctl(event_queue_fd(device), EPOLL_CTL_DEL, device.shared_fd, nullptr);
}

void follow_attempt(hca &device, qp &q, bool on)
{
    if (std::exchange(q.counted_attempt, on) != on)
        device.progress.count_attempt(device, on);
}

void release_later(hca &device)
{
    device.fences_fell.store(true);
    device.events.kick();
}

void break_later(qp &q)
{
    q.broken.store(true);
    q.device->some_broken.store(true);
    q.device->events.kick();
}

} // namespace dapl::libfabric::ofi
