// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "internal.hpp"

#include "dapl_line_limit.hpp"

#include <algorithm>

namespace dapl::libfabric {

using namespace ofi;

namespace {

bool reads_outstanding(const qp &q)
{
    return q.next.order != q.reads_done.load();
}

/// Keeps the segments with the operation, up to `limit` bytes.
std::size_t keep_segments(wr &w, DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                          std::size_t limit)
{
    std::size_t total = 0;
    w.segments = 0;
    for (DAT_COUNT i = 0; i < segments && total < limit; ++i) {
        const std::size_t length = std::min<std::size_t>(local[i].segment_length, limit - total);
        w.keys[w.segments] = local[i].lmr_context;
        w.iov[w.segments++] = {pointer(local[i].virtual_address), length};
        total += length;
    }
    return total;
}

void keep_request(wr &w, DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                  const DAT_RMR_TRIPLET *remote)
{
    const bool read = w.operation == opcode::rdma_read;
    const std::size_t limit = read && remote != nullptr ? remote->segment_length : SIZE_MAX;
    w.remote.len = keep_segments(w, segments, local, limit);
    if (remote != nullptr) {
        w.remote.addr = remote->virtual_address;
        w.remote.key = remote->rmr_context;
    }
}

ssize_t send_kept(fid_ep *ep, wr &w, std::uint64_t fi_flags)
{
    fi_msg message{};
    message.msg_iov = w.iov;
    message.iov_count = w.segments;
    message.context = &w;
    return fi_sendmsg(ep, &message, fi_flags);
}

fi_msg_rma rdma_message(const wr &w, void *context)
{
    fi_msg_rma message{};
    message.msg_iov = w.iov;
    message.iov_count = w.segments;
    message.rma_iov = &w.remote;
    // An operation of length 0 needs no valid remote key.
    message.rma_iov_count = w.remote.len == 0 ? 0 : 1;
    message.context = context;
    return message;
}

ssize_t write_kept(fid_ep *ep, const wr &w, void *context, std::uint64_t fi_flags)
{
    fi_msg_rma message = rdma_message(w, context);
    fi_rma_iov remote[2];
    if (w.remote.len > 1) {
        const DAT_RMR_TRIPLET target{w.remote.addr, 0, static_cast<DAT_RMR_CONTEXT>(w.remote.key)};
        message.rma_iov_count = split_write(remote, target, w.remote.len);
        message.rma_iov = remote;
    }
    return fi_writemsg(ep, &message, fi_flags);
}

ssize_t read_kept(qp &q, fid_ep *ep, wr &w)
{
    const fi_msg_rma message = rdma_message(w, &w);
    // Counted when it comes back, whether or not the consumer wants to know.
    w.position.order |= order_special;
    q.next.order = (q.next.order + 1) & order_mask;
    const ssize_t error = fi_readmsg(ep, &message, FI_COMPLETION);
    if (error != 0)
        q.next.order = (q.next.order - 1) & order_mask;
    return error;
}

/// A silent write, and a message without bytes that takes the receive. libfabric's own immediate
/// data of a write takes none, and does not say whose it is.
ssize_t write_immediate_kept(fid_ep *ep, wr &w, std::uint64_t fi_flags)
{
    const ssize_t error = w.remote.len == 0 ? 0 : write_kept(ep, w, nullptr, 0);
    if (error != 0)
        return error;
    fi_msg announcement{};
    announcement.context = &w;
    announcement.data = w.remote_data;
    return fi_sendmsg(ep, &announcement, fi_flags | FI_REMOTE_CQ_DATA);
}

void note_request_keys(qp &q, const wr &kept)
{
    for (int i = 0; i < kept.segments; ++i)
        note_key(q.send_keys, kept.keys[i]);
}

ssize_t post_kept_as(qp &q, fid_ep *ep, wr &w, std::uint64_t fi_flags)
{
    switch (w.operation) {
    case opcode::send:
        return send_kept(ep, w, fi_flags);
    case opcode::rdma_write:
        return write_kept(ep, w, &w, fi_flags);
    case opcode::rdma_read:
        return read_kept(q, ep, w);
    default:
        return write_immediate_kept(ep, w, fi_flags);
    }
}

/// Posts an operation that was kept. The caller is the only one to post requests to q.
ssize_t post_kept(qp &q, fid_ep *ep, wr &w)
{
    w.position = q.next;
    ++q.next.number;
    q.send_msg.context = &w;
    note_request_keys(q, w);
    const std::uint64_t fi_flags = w.suppressed ? 0 : FI_COMPLETION;
    const bool told = !w.suppressed || w.operation == opcode::rdma_read;
    w.position.is = told ? where::kept : where::silent;
    const ssize_t error = post_kept_as(q, ep, w, fi_flags);
    if (error != 0)
        w.position.is = where::silent;
    return error;
}

void keep_receive(qp &q, wr &w, DAT_COUNT segments, const DAT_LMR_TRIPLET *local)
{
    w.pair = &q;
    w.recv = {0, where::elsewhere, true, false, false};
    (void)keep_segments(w, segments, local, SIZE_MAX);
    for (DAT_COUNT i = 0; i < segments; ++i) {
        w.keys[i] = local[i].lmr_context;
        note_key(q.recv_keys, w.keys[i]);
    }
}

/// The caller is the only one to post receives to q.
ssize_t recv_kept(qp &q, fid_ep *ep, wr &w)
{
    wr *const before = std::exchange(q.last_recv, &w);
    w.recv.is = where::posted;
    const ssize_t error = fi_recvv(ep, w.iov, nullptr, w.segments, FI_ADDR_UNSPEC, &w);
    if (error == 0)
        return 0;
    q.last_recv = before;
    w.recv.is = where::elsewhere;
    return error;
}

/// Keeps a request until the reads before it are back. From now on no request goes to libfabric
/// directly, so that none overtakes.
void hold_back(qp &q, wr &w) OSD_REQUIRES(q.lock)
{
    note_request_keys(q, w);
    q.fenced_sends.push(w);
    q.ep.store(nullptr, std::memory_order_release);
    q.fenced.store(true);
    if (!reads_outstanding(q)) // the last came back meanwhile
        release_later(*q.device);
}

/// Keeps a receive that libfabric refused until the connection ends. The tcp provider has room for
/// as many receives as there can be, but flushed receives go on taking room. So the connection has
/// ended, and we shall hear of it: the receive comes back then.
status keep_for_the_end(qp &q, wr &w) OSD_REQUIRES(q.lock)
{
    if (q.phase() == phase::dead)
        q.recv_cq->flush(w);
    else
        q.pending_recvs.push(w);
    return success;
}

line_limit post_refusals; // covers posts to all queue pairs: the common layer posts no more than
                          // there is room

bool means_the_end(ssize_t error)
{
    return error == -FI_EAGAIN;
}

} // namespace

namespace ofi {

status refused_post(ssize_t error)
{
    dapl_log_some(post_refusals, DAPL_DBG_TYPE_ERR, "posting to libfabric failed: %s",
                  fi_strerror(static_cast<int>(-error)));
    const bool full = error == -FI_EAGAIN || error == -FI_ENOMEM;
    return full ? out_of_memory : status::error(DAT_INTERNAL_ERROR);
}

status refused_recv(qp &q, wr &w, DAT_COUNT segments, const DAT_LMR_TRIPLET *local, ssize_t error)
{
    if (!means_the_end(error))
        return refused_post(error);
    keep_receive(q, w, segments, local);
    osd::lock_guard hold(q.lock);
    return keep_for_the_end(q, w);
}

status send_slow(qp &q, wr &w, DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                 const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
    w.pair = &q;
    w.suppressed = (flags & DAT_COMPLETION_SUPPRESS_FLAG) != 0;
    keep_request(w, segments, local, remote);
    osd::lock_guard hold(q.lock);
    if (!q.is_established()) {
        q.send_cq->flush(w);
        return success;
    }
    const bool barrier = (flags & DAT_COMPLETION_BARRIER_FENCE_FLAG) != 0;
    if (q.fenced.load() || (barrier && reads_outstanding(q))) {
        w.fence = barrier;
        hold_back(q, w);
        return success;
    }
    const ssize_t error = post_kept(q, q.fid, w);
    return error == 0 ? success : refused_post(error);
}

status post_write_immediate(qp &q, wr &w, const extended_request &wanted)
{
    w.remote_data = std::uint64_t{w.length} << 32 | wanted.immediate;
    q.recv_cq->posting.store(1, std::memory_order_relaxed);
    return send_slow(q, w, wanted.segments, wanted.local, wanted.remote, wanted.flags);
}

status recv_slow(qp &q, wr &w, DAT_COUNT segments, const DAT_LMR_TRIPLET *local)
{
    keep_receive(q, w, segments, local);
    osd::lock_guard hold(q.lock);
    if (q.phase() == phase::dead) {
        q.recv_cq->flush(w);
        return success;
    }
    if (!q.is_established()) {
        q.pending_recvs.push(w);
        return success;
    }
    const ssize_t error = recv_kept(q, q.fid, w);
    if (q.recv_cq->sleepers.load() != 0)
        progress_and_signal(*q.recv_cq);
    if (means_the_end(error))
        return keep_for_the_end(q, w);
    return error == 0 ? success : refused_post(error);
}

void release_fenced(qp &q)
{
    osd::lock_guard hold(q.lock);
    if (!q.is_established() || !q.fenced.load())
        return;
    fifo<wr> failed;
    while (const wr *next = q.fenced_sends.front()) {
        if (next->fence && reads_outstanding(q))
            return;
        wr *w = q.fenced_sends.pop();
        if (post_kept(q, q.fid, *w) != 0)
            failed.push(*w);
    }
    q.fenced.store(false);
    q.ep.store(q.fid, std::memory_order_release);
    q.send_cq->flush(failed);
}

namespace {

int bind_endpoint(hca &device, qp &q, fid_ep *ep)
{
    int error = fi_ep_bind(ep, &device.eq->fid, 0);
    unshare_event_queue(device);
    if (error == 0)
        error = fi_ep_bind(ep, &q.send_cq->fid->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION);
    if (error == 0)
        error = fi_ep_bind(ep, &q.recv_cq->fid->fid, FI_RECV);
    return error == 0 ? fi_enable(ep) : error;
}

} // namespace

int open_endpoint(hca &device, qp &q, fi_info &info)
{
    info.rx_attr->size = static_cast<std::size_t>(std::max(q.max_recv, 1));
    info.tx_attr->size =
        std::clamp<std::size_t>(static_cast<std::size_t>(q.max_send), 1, device.max_tx_size);
    fid_ep *ep = nullptr;
    int error = fi_endpoint(device.domain, &info, &ep, &q);
    if (error != 0)
        return error;
    error = bind_endpoint(device, q, ep);
    if (error != 0) {
        fi_close(&ep->fid);
        return error;
    }
    osd::lock_guard hold(q.lock);
    q.fid = ep;
    return 0;
}

void drop_endpoint(hca &device, qp &q, phase state)
{
    follow_attempt(device, q, false);
    osd::lock_guard hold(q.lock);
    q.enter(state);
    if (q.fid != nullptr)
        fi_close(&q.fid->fid);
    q.fid = nullptr;
    q.socket = -1;
    if (state == phase::dead)
        q.recv_cq->flush(q.pending_recvs);
}

void go_live(hca &device, qp &q)
{
    follow_attempt(device, q, false);
    {
        osd::lock_guard hold(q.lock);
        fifo<wr> failed;
        while (wr *w = q.pending_recvs.pop())
            if (recv_kept(q, q.fid, *w) != 0)
                failed.push(*w);
        q.recv_cq->flush(failed);
        q.enter(phase::live);
        q.ep.store(q.fid, std::memory_order_release);
    }
    // The peer's first message may have come before the receive for it, and does not signal any
    // more.
    progress_and_signal(*q.recv_cq);
}

namespace {

/// No post to libfabric is running any more, and none begins.
void shut_doors(qp &q) OSD_REQUIRES(q.lock)
{
    q.ep.store(nullptr, std::memory_order_release);
    osd::fence_all_threads();
    q.send_door.wait_until_empty();
    q.recv_door.wait_until_empty();
}

/// The tcp provider frees an RDMA read twice when its endpoint is shut while the data come in. It
/// does not when it finds the socket ended, so let it find that.
void settle_reads(qp &q) OSD_REQUIRES(q.lock)
{
    constexpr int enough = 64; // to read out what the socket still holds, and then its end
    if (!reads_outstanding(q))
        return;
    shut_socket(q);
    for (int i = 0; i < enough && reads_outstanding(q); ++i)
        drain(*q.send_cq);
}

void close_endpoint(qp &q) OSD_REQUIRES(q.lock)
{
    shut_doors(q);
    settle_reads(q);
    fi_shutdown(q.fid, 0);
    fi_close(&q.fid->fid);
    q.fid = nullptr;
    q.socket = -1;
    q.last_recv = nullptr;
    drain(*q.send_cq);
    if (q.recv_cq != q.send_cq)
        drain(*q.recv_cq);
    release_behind_reads(q);
}

} // namespace

bool lies_in(const wr &w, DAT_LMR_CONTEXT key)
{
    return w.recv.kept ? std::find(w.keys, w.keys + w.segments, key) != w.keys + w.segments
                       : w.recv.key == key;
}

std::uint64_t key_bits(const wr &w)
{
    std::uint64_t bits = w.recv.kept ? 0 : key_bit(w.recv.key);
    for (int i = 0; w.recv.kept && i < w.segments; ++i)
        bits |= key_bit(w.keys[i]);
    return bits;
}

namespace {

/// Takes a receive's memory away. A message finds the receive too short then, which ends the
/// connection.
void lose_memory(wr &w)
{
    w.recv.kept = w.recv.freed = true;
    w.segments = 0;
}

void forget_in_pending(qp &q, DAT_LMR_CONTEXT key) OSD_REQUIRES(q.lock)
{
    fifo<wr> all;
    while (wr *w = q.pending_recvs.pop()) {
        if (lies_in(*w, key))
            lose_memory(*w);
        all.push(*w);
    }
    q.pending_recvs = all;
}

bool waits_for_region(qp &q, DAT_LMR_CONTEXT key) OSD_REQUIRES(q.lock)
{
    bool found = false;
    fifo<wr> all;
    while (wr *w = q.fenced_sends.pop()) {
        found |= std::find(w->keys, w->keys + w->segments, key) != w->keys + w->segments;
        note_request_keys(q, *w);
        all.push(*w);
    }
    q.fenced_sends = all;
    return found;
}

/// True if requests that have not completed use this memory: libfabric cannot take them back, so
/// that the connection has to end.
bool lose_requests(qp &q, DAT_LMR_CONTEXT key) OSD_REQUIRES(q.lock)
{
    const bool posted = mark_requests(q, key);
    return waits_for_region(q, key) || posted;
}

/// Gives it back to libfabric, or nothing where its memory is gone.
bool post_again(qp &q, wr &w, DAT_LMR_CONTEXT gone) OSD_REQUIRES(q.lock)
{
    if (lies_in(w, gone)) {
        lose_memory(w);
    } else if (!w.recv.kept) {
        DAT_LMR_TRIPLET local{};
        local.lmr_context = w.recv.key;
        local.virtual_address = w.address;
        local.segment_length = w.length;
        keep_receive(q, w, 1, &local);
    }
    wr *const last = q.last_recv;
    const ssize_t error = recv_kept(q, q.fid, w);
    q.last_recv = last;
    if (means_the_end(error))
        (void)keep_for_the_end(q, w);
    else if (error != 0)
        q.recv_cq->flush(w);
    return error == 0 || means_the_end(error);
}

/// Posts receives again, from `first` on: they were cancelled, as far as no message had come for
/// them.
bool post_all_again(qp &q, wr &first, DAT_LMR_CONTEXT gone) OSD_REQUIRES(q.lock)
{
    bool whole = true;
    for (wr *w = &first; w != nullptr;
         w = w == q.last_recv ? nullptr : static_cast<wr *>(w->after)) {
        if (w->recv.is == where::withdrawn) {
            whole &= post_again(q, *w, gone);
        } else if (w->recv.is == where::posted && lies_in(*w, gone)) {
            w->recv.freed = w->recv.cut = true;
            whole = false;
        }
    }
    return whole;
}

} // namespace

bool forget_region(qp &q, DAT_LMR_CONTEXT key)
{
    const bool receives = (q.recv_keys.load(std::memory_order_relaxed) & key_bit(key)) != 0;
    const bool requests = (q.send_keys.load(std::memory_order_relaxed) & key_bit(key)) != 0;
    if (!receives && !requests)
        return true;
    bool whole = true;
    {
        osd::lock_guard hold(q.lock);
        forget_in_pending(q, key);
        if (!q.is_established())
            return true;
        fid_ep *const ep = q.ep.load(std::memory_order_relaxed);
        shut_doors(q);
        if (requests && lose_requests(q, key))
            whole = false;
        if (wr *first = receives ? withdraw_receives(q, key) : nullptr)
            whole &= post_all_again(q, *first, key);
        q.ep.store(ep, std::memory_order_release);
    }
    q.send_cq->wake_sleepers();
    q.recv_cq->wake_sleepers();
    progress_and_signal(*q.recv_cq); // a message may have come between
    return whole;
}

void tear_down(hca &device, qp &q)
{
    follow_attempt(device, q, false);
    osd::lock_guard hold(q.lock);
    if (q.fid != nullptr)
        close_endpoint(q);
    q.fenced.store(false);
    q.send_cq->flush(q.fenced_sends);
    q.recv_cq->flush(q.pending_recvs);
    q.enter(phase::dead);
}

bool post_closing_marker(qp &q)
{
    osd::lock_guard hold(q.lock);
    if (q.closing_marker_posted || q.fenced.load())
        return true;
    q.closing_marker.pair = &q;
    q.closing_marker.operation = opcode::rdma_write;
    q.closing_marker.position.order = order_special;
    fi_msg_rma nothing{};
    nothing.context = &q.closing_marker;
    q.closing_marker_posted = true;
    return fi_writemsg(q.fid, &nothing, FI_DELIVERY_COMPLETE | FI_COMPLETION) == 0;
}

} // namespace ofi

namespace {

/// The messages of the fast path, but for what every operation changes.
void prepare_messages(qp &q)
{
    q.send_msg.msg_iov = &q.send_iov;
    q.send_msg.iov_count = 1;
    q.send_msg.addr = FI_ADDR_UNSPEC;
    q.rma_msg.msg_iov = &q.send_iov;
    q.rma_msg.iov_count = 1;
    q.rma_msg.addr = FI_ADDR_UNSPEC;
    q.rma_msg.rma_iov = q.remote_iov;
}

/// Ends the connection and waits for upcalls. Outstanding operations do not complete.
void quit(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    {
        osd::lock_guard hold(q.lock);
        q.pending_recvs = {};
        q.fenced_sends = {};
    }
    q.forget_attempt();
    tear_down(device, q);
    device.wait_quiet(&q);
}

} // namespace

status transport::dapls_ib_qp_alloc(pd &domain, qp &q, cq *recv_cq, cq *send_cq, srq *,
                                    const qp_params &params)
{
    hca &device = *domain.device;
    q.device = &device;
    q.owner = params.owner;
    q.send_cq = send_cq != nullptr ? send_cq : &device.spare;
    q.recv_cq = recv_cq != nullptr ? recv_cq : &device.spare;
    q.max_recv = params.max_recv;
    q.max_send = params.max_send;
    prepare_messages(q);
    osd::lock_guard hold(device.lock);
    device.qps.push(q);
    device.progress.add_receiver(device, *q.recv_cq, *q.send_cq);
    return success;
}

void transport::dapls_ib_qp_free(qp &q)
{
    hca &device = *q.device;
    if (device.foreign())
        return;
    osd::lock_guard hold(device.lock);
    quit(device, q);
    static_cast<all_link &>(q).unlink();
    device.progress.remove_receiver(device, *q.recv_cq);
}

status transport::dapls_ib_qp_reset(qp &q)
{
    hca &device = *q.device;
    osd::lock_guard hold(device.lock);
    quit(device, q);
    q.next.order = 0;
    q.recv_keys.store(0);
    q.send_keys.store(0);
    q.send_msg.context = q.rma_msg.context = nullptr;
    q.reads_done.store(0);
    q.broken.store(false);
    q.closing_marker_completed.store(false);
    osd::lock_guard hold_qp(q.lock);
    q.closing_marker_posted = false;
    q.enter(phase::idle);
    return success;
}

} // namespace dapl::libfabric
