// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "internal.hpp"

#include "dapl_debug.hpp"
#include "descriptor_wait.hpp"
#include "epoll_members.hpp"
#include "osd_cancellation.hpp"
#include "osd_system.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <utility>

namespace dapl::libfabric {

using namespace ofi;

namespace {

/// Gives a finished request to the consumer. Only a read comes back from libfabric though its
/// success is suppressed.
void give(cq &c, wr &w) OSD_REQUIRES(c.lock)
{
    const bool read = w.operation == opcode::rdma_read;
    if (!read || !w.suppressed || w.done.status != DAT_DTO_SUCCESS)
        c.defer(w);
}

void admit(cq &c, qp &q, wr &w) OSD_REQUIRES(c.lock)
{
    if (w.operation == opcode::rdma_read) {
        const std::uint32_t done = q.reads_done.load(std::memory_order_relaxed);
        q.reads_done.store((done + 1) & order_mask); // the store comes before the look at q.fenced
    }
    give(c, w);
}

bool in_order(const qp &q, const wr &w)
{
    return (w.position.order & order_mask) == q.reads_done.load(std::memory_order_relaxed);
}

bool posted_before(const wr &a, const wr &b)
{
    const std::uint32_t distance = a.position.number - b.position.number;
    return static_cast<std::int32_t>(distance << 8) < 0; // numbers have 24 bits
}

void finish_request(cq &c, wr &w) OSD_REQUIRES(c.lock)
{
    qp &q = *w.pair;
    if (&w == &q.closing_marker) {
        q.closing_marker_completed.store(true, std::memory_order_release);
        return;
    }
    q.behind_read.insert(w, posted_before);
    while (!q.behind_read.empty() && in_order(q, *q.behind_read.front()))
        admit(c, q, *q.behind_read.pop());
    if (q.fenced.load())
        release_later(*q.device);
}

/// A message without bytes announces the write before it: its length and its immediate data.
void take_immediate(wr &w, std::uint64_t data)
{
    w.done.has_immediate = true;
    w.done.length = static_cast<DAT_UINT32>(data >> 32);
    w.done.immediate = static_cast<DAT_UINT32>(data);
}

/// Returns false when it was cancelled in order to be posted again.
bool finish_receive(const cq &c, wr &w) OSD_REQUIRES(c.lock)
{
    const bool flushed = w.done.status == DAT_DTO_ERR_FLUSHED;
    const bool again = flushed && c.withdraws == w.pair;
    w.recv.is = again ? where::withdrawn : where::elsewhere;
    if (w.recv.freed && w.done.status != DAT_DTO_SUCCESS && (!flushed || w.recv.cut))
        w.done.status = DAT_DTO_ERR_LOCAL_PROTECTION;
    return !again;
}

/// A request that lost its memory ends its connection, after which nobody can tell whether what
/// libfabric has sent of it has arrived: it fails, even where libfabric calls it complete.
void leave_libfabric(wr &request)
{
    request.position.is = where::elsewhere;
    if (std::exchange(request.lost, false))
        request.done.status = DAT_DTO_ERR_LOCAL_PROTECTION;
}

void finish(cq &c, const fi_cq_data_entry &entry, int error) OSD_REQUIRES(c.lock)
{
    void *const context = entry.op_context;
    const std::uint64_t flags = entry.flags;
    if (context == nullptr || (flags & (FI_REMOTE_WRITE | FI_REMOTE_READ)) != 0)
        return; // it completes a peer's operation, which is none of ours
    wr &w = *static_cast<wr *>(context);
    const DAT_DTO_COMPLETION_STATUS how = error == 0 ? DAT_DTO_SUCCESS : dto_status(error);
    w.done = completion_of(w, static_cast<DAT_UINT32>(entry.len), how);
    if (w.operation != opcode::receive)
        leave_libfabric(w);
    else if (!finish_receive(c, w))
        return;
    if (w.done.status != DAT_DTO_SUCCESS && w.done.status != DAT_DTO_ERR_FLUSHED)
        break_later(*w.pair);
    if (w.operation == opcode::receive) {
        if (error == 0 && (flags & FI_REMOTE_CQ_DATA) != 0)
            take_immediate(w, entry.data);
        c.defer(w);
    } else {
        finish_request(c, w);
    }
}

bool take_error(cq &c) OSD_REQUIRES(c.lock)
{
    fi_cq_err_entry entry{};
    if (fi_cq_readerr(c.fid, &entry, 0) <= 0)
        return false;
    finish(c, {entry.op_context, entry.flags, entry.len, nullptr, entry.data}, entry.err);
    return true;
}

/// Moves one batch, successes or a failure, out of libfabric.
bool take_batch(cq &c) OSD_REQUIRES(c.lock)
{
    fi_cq_data_entry entries[cq::batch];
    const ssize_t got = fi_cq_read(c.fid, entries, cq::batch);
    if (got == -FI_EAVAIL)
        return take_error(c);
    for (ssize_t i = 0; i < got; ++i)
        finish(c, entries[i], 0);
    return got > 0;
}

/// The first that libfabric has. Says which keys all of them use.
wr *first_receive_in(qp &q, DAT_LMR_CONTEXT key) OSD_REQUIRES(q.lock)
{
    wr *first = nullptr;
    std::uint64_t keys = 0;
    for (wr *w = q.last_recv; w != nullptr && w->recv.is == where::posted;
         w = static_cast<wr *>(w->before)) {
        keys |= key_bits(*w);
        if (lies_in(*w, key))
            first = w;
    }
    q.recv_keys.store(keys, std::memory_order_relaxed);
    return first;
}

void take_consumers_batch(cq &c) OSD_REQUIRES(c.lock)
{
    for (; c.left != 0; --c.left)
        finish(c, *c.next++, 0);
}

} // namespace

namespace ofi {

void cq::wake_sleepers()
{
    if ((sleepers.load() & (waiting | notify)) != 0)
        signal(); // makes wait_fd readable, for the waiter and the service thread
}

void drain(cq &c)
{
    {
        osd::lock_guard hold(c.lock);
        c.exclude_consumer();
        take_consumers_batch(c);
        while (take_batch(c)) {
        }
        c.readmit_consumer();
    }
    c.wake_sleepers(); // even without completions: progress may have cleared a signal
}

wr *withdraw_receives(qp &q, DAT_LMR_CONTEXT key)
{
    cq &c = *q.recv_cq;
    osd::lock_guard hold(c.lock);
    c.exclude_consumer();
    take_consumers_batch(c);
    while (take_batch(c)) {
    }
    wr *const first = first_receive_in(q, key);
    c.withdraws = &q;
    for (wr *w = first == nullptr ? nullptr : q.last_recv; w != nullptr;
         w = w == first ? nullptr : static_cast<wr *>(w->before))
        (void)fi_cancel(&q.fid->fid, w);
    while (take_batch(c)) {
    }
    c.withdraws = nullptr;
    c.readmit_consumer();
    return first;
}

namespace {

/// The request that was posted last, or null.
wr *latest_request(const qp &q)
{
    auto *const send = static_cast<wr *>(q.send_msg.context);
    auto *const rdma = static_cast<wr *>(q.rma_msg.context);
    if (send == nullptr || rdma == nullptr)
        return send == nullptr ? rdma : send;
    return posted_before(*send, *rdma) ? rdma : send;
}

bool is_posted(const wr &request)
{
    return request.position.is == where::posted || request.position.is == where::kept;
}

/// Whether a request that libfabric has uses that key. Adds the key_bit() of all that it uses.
bool uses(const wr &request, DAT_LMR_CONTEXT key, std::uint64_t &all)
{
    const bool kept = request.position.is == where::kept;
    const DAT_LMR_CONTEXT *const keys = kept ? request.keys : &request.source;
    const DAT_LMR_CONTEXT *const end = keys + (kept ? request.segments : 1);
    for (const DAT_LMR_CONTEXT *each = keys; each != end; ++each)
        all |= key_bit(*each);
    return std::find(keys, end, key) != end;
}

} // namespace

bool mark_requests(qp &q, DAT_LMR_CONTEXT key)
{
    cq &c = *q.send_cq;
    osd::lock_guard hold(c.lock);
    c.exclude_consumer();
    take_consumers_batch(c);
    while (take_batch(c)) {
    }
    wr *const latest = latest_request(q);
    wr *w = latest;
    std::uint32_t reads = (q.next.order - q.reads_done.load()) & order_mask;
    std::uint64_t keys = 0;
    bool found = false;
    // Requests complete in post order, but for reads.
    for (bool completed = false; w != nullptr && (!completed || reads != 0);
         w = w->before == latest ? nullptr : static_cast<wr *>(w->before)) {
        completed |= w->position.is == where::elsewhere;
        if (!is_posted(*w))
            continue;
        reads -= w->operation == opcode::rdma_read ? 1 : 0;
        if (uses(*w, key, keys))
            w->lost = found = true;
    }
    q.send_keys.store(keys, std::memory_order_relaxed);
    c.readmit_consumer();
    return found;
}

/// The signal that progress may have cleared was for a completion, or for a waiter that was woken.
void progress_and_signal(cq &c)
{
    if (c.progress() || c.is_slow() || c.woken.load() != 0)
        c.wake_sleepers();
}

void release_behind_reads(qp &q)
{
    cq &c = *q.send_cq;
    {
        osd::lock_guard hold(c.lock);
        if (q.behind_read.empty())
            return;
        while (wr *w = q.behind_read.pop())
            give(c, *w);
    }
    c.wake_sleepers();
}

void cq::put_aside()
{
    drain(*this);
}

/// Clears the signal of present completions, so that the descriptor signals later ones.
bool cq::reset_signal()
{
    fid_t watched = &fid->fid;
    return fi_trywait(device->fabric, &watched, 1) == 0;
}

bool poll_slow(cq &c, completion &done)
{
    osd::lock_guard hold(c.lock);
    while (!c.has_deferred()) {
        // The consumer is the caller, and the lock keeps the others away: no need for the door.
        if (c.left != 0)
            take_consumers_batch(c);
        else if (!take_batch(c))
            break;
    }
    const wr *w = c.pop_deferred();
    if (w != nullptr)
        done = w->done;
    c.readmit_consumer();
    return w != nullptr;
}

namespace {

/// Called by the consuming thread only: `left` counts the rest of its batch.
bool has_completion(cq &c)
{
    return c.is_slow() || c.left != 0 || c.progress();
}

} // namespace

void notify_cq(cq &c)
{
    c.device->progress.request_callback(*c.device, c);
}

void wake_cq(cq &c)
{
    c.woken.store(1);
    if (c.is_waiting())
        c.signal();
}

namespace {

/// Sleeps on the CQ's descriptor; returns at once if the descriptor may not signal present events.
osd::wait_result sleep_on(cq &c, bool quiet, osd::deadline until)
{
    return quiet ? port_support::wait_either_readable(c.wait_fd, c.shared_fd, until)
                 : osd::wait_result::woken;
}

constexpr unsigned dozes_per_call = 64;

osd::wait_result wait_asleep(cq &c, osd::deadline until)
{
    port_support::spurious_wakeups wakeups;
    unsigned dozes = 0;
    const auto moved_so_far = [&c] {
        osd::lock_guard hold(c.device->lock);
        return c.moved_so_far();
    };
    for (;;) {
        // Reset before polling: a reset afterwards would lose the signal of events in between.
        const bool quiet = c.reset_signal();
        if (c.woken.exchange(0) != 0 || has_completion(c))
            return osd::wait_result::woken;
        const std::uint32_t doze_us = wakeups.doze_us(moved_so_far);
        if (doze_us != 0 && dozes++ % dozes_per_call == 0)
            c.device->progress.call(*c.device); // may find out that a peer is gone
        const osd::wait_result how =
            doze_us == 0 ? sleep_on(c, quiet, until) : port_support::doze(doze_us, until);
        if (doze_us == 0)
            wakeups.woke();
        if (how == osd::wait_result::interrupted)
            return how;
        if (until.has_passed())
            return has_completion(c) ? osd::wait_result::woken : osd::wait_result::timed_out;
    }
}

} // namespace

osd::wait_result wait_for_cq(cq &c, osd::deadline until)
{
    if (c.woken.exchange(0) != 0 || has_completion(c))
        return osd::wait_result::woken;
    if (until.has_passed())
        return osd::wait_result::timed_out;
    const auto found = [&c] {
        return has_completion(c) || c.woken.load(std::memory_order_relaxed);
    };
    if (c.spin.find(c.device->params.spin_us, until, found))
        return osd::wait_result::woken;
    progress_watch &watch = c.device->progress;
    watch.begin_wait(*c.device, c);
    osd::wait_result how{};
    osd::undo_if_cancelled([&] { how = wait_asleep(c, until); },
                           [&] { watch.end_wait(*c.device, c); });
    watch.end_wait(*c.device, c);
    return how;
}

namespace {

int open_fid(const hca &device, fid_cq *&fid, int &wait_fd, DAT_COUNT depth, void *context)
{
    fi_cq_attr attr{};
    attr.size = static_cast<std::size_t>(depth);
    attr.format = FI_CQ_FORMAT_DATA;
    attr.wait_obj = FI_WAIT_FD;
    const int error = fi_cq_open(device.domain, &attr, &fid, context);
    if (error == 0)
        (void)fi_control(&fid->fid, FI_GETWAIT, &wait_fd);
    return error;
}

/// Every argument is as libfabric wants it, so a resource is missing, also where libfabric says
/// EINVAL because the kernel has refused one more epoll set.
status refused_cq(const hca &device, const char *call, int error)
{
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: no more CQs can be had: %s failed: %s%s", device.name, call,
             fi_strerror(error), osd::limit_text(error).text);
    return error == ENOMEM ? out_of_memory
                           : status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD);
}

} // namespace

void find_shared_descriptor(hca &device)
{
    fid_cq *cq = nullptr;
    int wait_fd = -1;
    if (open_fid(device, cq, wait_fd, 1, nullptr) != 0)
        return;
    device.shared_fd = set_within(wait_fd);
    fi_close(&cq->fid);
}

status open_cq(hca &device, cq &c, evd *owner, DAT_COUNT depth)
{
    const int error = open_fid(device, c.fid, c.wait_fd, depth, &c);
    if (error != 0)
        return refused_cq(device, "fi_cq_open", -error);
    c.device = &device;
    c.owner = owner;
    c.puts_aside = true;
    if (device.shared_fd >= 0)
        (void)epoll_ctl(c.wait_fd, EPOLL_CTL_DEL, device.shared_fd, nullptr);
    osd::lock_guard hold(device.lock);
    if (device.progress.add(device, c))
        return success;
    const int refused = errno;
    fi_close(&std::exchange(c.fid, nullptr)->fid);
    return refused_cq(device, "epoll_ctl", refused);
}

} // namespace ofi

status transport::dapls_ib_cq_alloc(hca &device, cq &c, evd &owner, DAT_COUNT &depth)
{
    return open_cq(device, c, &owner, depth);
}

/// The size that tcp opens a CQ with is no limit: completions that its ring has no room for wait in
/// a list behind it, in order. Only memory ends that.
status transport::dapls_ib_cq_resize(cq &, DAT_COUNT &)
{
    return success;
}

void transport::dapls_ib_cq_free(cq &c)
{
    if (c.device->foreign())
        return;
    {
        osd::lock_guard hold(c.device->lock);
        c.device->progress.remove(*c.device, c);
    }
    const int error = fi_close(&c.fid->fid);
    if (error != 0)
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: fi_close of a CQ failed: %s", c.device->name,
                 fi_strerror(-error));
    c.fid = nullptr;
}

} // namespace dapl::libfabric
