// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "internal.hpp"
#include "pipe_signal.hpp"
#include "tcp.hpp"

#include "dapl_debug.hpp"
#include "dapl_line_limit.hpp"
#include "dat_count.hpp"
#include "osd_system.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace dapl::verbs {

using namespace vrb;
using port_support::as_count;

namespace {

// ------------------------------------------------------------------------- the device's queue pair

std::uint32_t at_least_one(DAT_COUNT n)
{
    return static_cast<std::uint32_t>(std::max(n, 1));
}

/// Room for the requests of an endpoint, the closing marker and, over siw, the ready marker.
std::uint32_t plain_room(const qp &q)
{
    return at_least_one(q.params.max_send) + (q.device->siw ? 2 : 1);
}

/// Room for as many requests more as may go in front of binds of windows, if the device has it.
std::uint32_t room_with_windows(const qp &q)
{
    const std::uint32_t more = q.device->peer_windows ? at_least_one(q.params.max_send) : 0;
    return std::min(plain_room(q) + more, static_cast<std::uint32_t>(q.device->limits.max_qp_wr));
}

ibv_qp *create_qp(qp &q, std::uint32_t room, std::uint32_t max_inline)
{
    ibv_qp_init_attr attr{};
    attr.qp_context = &q;
    attr.send_cq = q.send_cq->handle;
    attr.recv_cq = q.recv_cq->handle;
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = room;
    attr.srq = q.shared != nullptr ? q.shared->handle : nullptr;
    attr.cap.max_recv_wr = q.shared != nullptr ? 0 : at_least_one(q.params.max_recv);
    attr.cap.max_send_sge = at_least_one(q.params.max_send_iov);
    attr.cap.max_recv_sge = at_least_one(q.params.max_recv_iov);
    attr.cap.max_inline_data = max_inline;
    ibv_qp *handle = ibv_create_qp(q.zone->handle, &attr);
    q.max_inline.store(handle == nullptr ? 0 : attr.cap.max_inline_data);
    return handle;
}

/// Receives can be posted from this state on.
int to_init(const hca &device, ibv_qp *handle)
{
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = device.port_number;
    attr.qp_access_flags = peer_rights(device);
    int mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    if (!device.iwarp)
        mask |= IBV_QP_PKEY_INDEX;
    return ibv_modify_qp(handle, &attr, mask);
}

int post_without_signal(ibv_qp *to, ibv_send_wr *request, ibv_send_wr **bad)
{
    const port_support::pipe_signal_hold no_sigpipe(true);
    return ibv_post_send(to, request, bad);
}

status make_queue_pair(hca &device, qp &q)
{
    ibv_qp *handle = nullptr;
    const std::uint32_t most = own_features.inline_send ? device.params.max_inline : 0;
    const std::pair<std::uint32_t, std::uint32_t> sizes[] = {
        {room_with_windows(q), most}, {room_with_windows(q), 0}, {plain_room(q), 0}};
    for (const auto &[room, max_inline] : sizes)
        if (handle == nullptr)
            handle = create_qp(q, room, max_inline);
    int error = handle == nullptr ? errno : to_init(device, handle);
    if (error == 0) {
        if (q.shared != nullptr)
            begin_drawing(q, handle->qp_num);
        osd::lock_guard hold(q.lock);
        q.handle = handle;
        q.enter(phase::idle);
        q.broken = false;
        q.post = device.siw ? post_without_signal : handle->context->ops.post_send;
        q.fast_qp.store(handle, std::memory_order_release);
        return success;
    }
    const char *call = handle == nullptr ? "ibv_create_qp" : "ibv_modify_qp to INIT";
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: %s for %d sends and %d receives failed: %s%s", device.name,
             call, q.params.max_send, q.params.max_recv, std::strerror(error),
             osd::limit_text::of_locking(error).text);
    if (handle != nullptr)
        ibv_destroy_qp(handle);
    return status_of_errno(error);
}

// ------------------------------------------------------------------------------------ posting

line_limit post_refusals; // covers posts to all queue pairs: the common layer posts no more than
                          // there is room

/// Makes the entries no longer in sum than `limit`.
int clip(ibv_sge *out, DAT_COUNT segments, const DAT_LMR_TRIPLET *local, DAT_UINT64 limit)
{
    int used = 0;
    for (DAT_COUNT i = 0; i < segments && limit != 0; ++i) {
        const auto length =
            static_cast<std::uint32_t>(std::min<DAT_UINT64>(local[i].segment_length, limit));
        out[used++] = {local[i].virtual_address, length, local[i].lmr_context};
        limit -= length;
    }
    return used;
}

ibv_wr_opcode opcode_of(const wr &w)
{
    switch (w.operation) {
    case opcode::rdma_read:
        return IBV_WR_RDMA_READ;
    case opcode::rdma_write:
        return IBV_WR_RDMA_WRITE;
    case opcode::write_immediate:
        return IBV_WR_RDMA_WRITE_WITH_IMM;
    case opcode::fetch_add:
        return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case opcode::compare_swap:
        return IBV_WR_ATOMIC_CMP_AND_SWP;
    case opcode::send_invalidate:
        return IBV_WR_SEND_WITH_INV;
    default:
        return IBV_WR_SEND;
    }
}

/// Flushes posted operations that have not come back, in post order. An operation that has come
/// back ends the search, which begins at the last: their ring always holds one, which was retired
/// last.
void flush_rest(cq &c, wr *last)
{
    wr *oldest_first = nullptr;
    while (last != nullptr && !last->finished) {
        last->next = oldest_first;
        oldest_first = last;
        last = static_cast<wr *>(last->before);
    }
    fifo<wr> in_order;
    while (oldest_first != nullptr) {
        wr *w = oldest_first;
        oldest_first = w->next;
        w->finished = true;
        in_order.push(*w);
    }
    c.flush(in_order);
}

/// No post to the device is running any more, and none begins without the lock.
void shut_doors(qp &q) OSD_REQUIRES(q.lock)
{
    q.fast_qp.store(nullptr);
    osd::fence_all_threads();
    q.send_door.wait_until_empty();
    q.recv_door.wait_until_empty();
}

void drain_both(qp &q, std::uint32_t number)
{
    q.broken |= drain(*q.send_cq, number);
    if (q.recv_cq != q.send_cq)
        q.broken |= drain(*q.recv_cq, number);
}

/// A device may forget the completions of a queue pair that is destroyed: the good completions are
/// saved before. Some devices do not flush operations posted after a failure, and rxe flushes after
/// ibv_modify_qp has returned: so the queue pair is destroyed at once, and operations that have not
/// come back then never will.
void destroy_handle(qp &q) OSD_REQUIRES(q.lock)
{
    shut_doors(q);
    const std::uint32_t number = q.handle->qp_num;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    (void)ibv_modify_qp(q.handle, &attr, IBV_QP_STATE); // it may be there already
    drain_both(q, number);
    close_windows(q);
    if (connection *heir = std::exchange(q.heir, nullptr))
        destroy_later(*heir, q.handle); // an iWARP kernel flushes before ibv_modify_qp returns
    else
        destroy_qp(*q.device, q.handle);
    q.handle = nullptr;
    drain_both(q, number);
    if (q.device->siw)
        forget_behind_read(*q.send_cq, number);
    if (q.shared != nullptr)
        end_drawing(q); // the number may be given to another
}

/// A processor copies what travels inside a request.
void limit_inline([[maybe_unused]] const hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    if (q.zone->only_devices_read)
        q.max_inline.store(0);
}

/// Ends the connection and waits for upcalls. Outstanding operations do not complete.
void quit(hca &device, qp &q) OSD_REQUIRES(device.lock)
{
    q.last_send = q.last_recv = nullptr;
    tear_down(device, q);
    device.wait_quiet(&q);
}

/// [nth_signal] Lets the next suppressed request be signalled: the refused request may have been
/// the nth.
void signal_next(qp &q)
{
    if (q.nth != 0)
        q.suppressed = q.nth - 1;
}

/// Posts a request that is complete but for the operation itself.
status post_request(qp &q, wr &w, ibv_send_wr &request)
{
    request.wr_id = reinterpret_cast<std::uint64_t>(&w);
    request.opcode = opcode_of(w);
    return post_slow(q, *q.send_cq, q.last_send, w, [&](ibv_qp *handle) {
        ibv_send_wr *bad = nullptr;
        const int error = q.post(handle, &request, &bad);
        if (bad != nullptr)
            signal_next(q);
        return bad != nullptr ? error : 0;
    });
}

/// Remote address and operands of an extended operation.
void set_operands(ibv_send_wr &request, const wr &w, const extended_request &wanted)
{
    if (w.operation == opcode::send_invalidate) {
        request.invalidate_rkey = wanted.key;
        return;
    }
    const DAT_RMR_TRIPLET &remote = *wanted.remote;
    if (w.operation == opcode::write_immediate) {
        request.imm_data = htonl(wanted.immediate);
        request.wr.rdma.remote_addr = remote.virtual_address;
        request.wr.rdma.rkey = remote.rmr_context;
        return;
    }
    request.wr.atomic.remote_addr = remote.virtual_address;
    request.wr.atomic.rkey = remote.rmr_context;
    request.wr.atomic.compare_add = wanted.add_or_compare;
    request.wr.atomic.swap = wanted.swap;
}

} // namespace

namespace vrb {

status refused_post(int error)
{
    error = std::abs(error); // some drivers have the sign of the kernel
    std::uint32_t left_out = 0;
    if (shows(DAPL_DBG_TYPE_ERR) && post_refusals.allows(osd::now_ns(), left_out))
        debug_line("posting to the device failed: %s; %u such lines were left out before",
                   std::strerror(error), left_out);
    if (error == ENOMEM || error == EAGAIN || error == ENOSPC)
        return out_of_memory;
    return error == EINVAL ? invalid_parameter(2) : status::error(DAT_INTERNAL_ERROR);
}

/// Continues a post that failed, inside the door. With bad_send null the request was accepted, and
/// only libsiw's doorbell failed, because the connection is about to end.
status send_failed(qp &q, int error)
{
    const bool refused = std::exchange(q.bad_send, nullptr) != nullptr;
    if (refused) {
        q.last_send = static_cast<wr *>(q.last_send->before);
        signal_next(q);
    }
    q.send_door.leave();
    return refused ? refused_post(error) : success;
}

status recv_failed(qp &q, int error)
{
    q.last_recv = static_cast<wr *>(q.last_recv->before);
    q.recv_door.leave();
    return refused_post(error);
}

status send_slow(qp &q, wr &w, DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                 const DAT_RMR_TRIPLET *remote, unsigned flags)
{
    const bool read = w.operation == opcode::rdma_read;
    ibv_sge entries[max_iov];
    ibv_send_wr request{};
    request.sg_list = entries;
    request.num_sge = clip(entries, segments, local, read ? remote->segment_length : UINT64_MAX);
    request.send_flags = flags;
    if (remote != nullptr) {
        request.wr.rdma.remote_addr = remote->virtual_address;
        request.wr.rdma.rkey = remote->rmr_context;
    }
    return post_request(q, w, request);
}

status recv_slow(qp &q, wr &w, DAT_COUNT segments, const DAT_LMR_TRIPLET *local)
{
    ibv_sge entries[max_iov];
    ibv_recv_wr request{};
    request.wr_id = reinterpret_cast<std::uint64_t>(&w);
    request.sg_list = entries;
    request.num_sge = clip(entries, segments, local, UINT64_MAX);
    if (request.num_sge == 0 && q.device->siw)
        request.num_sge = no_bytes(entries);
    return post_slow(q, *q.recv_cq, q.last_recv, w, [&](ibv_qp *handle) {
        ibv_recv_wr *bad = nullptr;
        return ibv_post_recv(handle, &request, &bad);
    });
}

void tear_down(hca &device, qp &q)
{
    release_connection(device, q); // confirms the peer's disconnect, if there was one
    osd::lock_guard hold(q.lock);
    if (q.handle != nullptr)
        destroy_handle(q);
    flush_rest(*q.send_cq, q.last_send);
    flush_rest(*q.recv_cq, q.last_recv);
    q.last_send = q.last_recv = nullptr;
    q.closing_marker_posted = false;
    q.enter(phase::dead);
}

bool post_closing_marker(qp &q)
{
    osd::lock_guard hold(q.lock);
    if (q.closing_marker_posted)
        return true;
    shut_doors(q);
    ibv_send_wr request{};
    request.wr_id = reinterpret_cast<std::uint64_t>(&q.closing_marker);
    request.opcode = IBV_WR_RDMA_WRITE; // writes nothing: no key, no place
    request.send_flags = IBV_SEND_SIGNALED;
    ibv_sge nothing{};
    q.asks_to_close = q.reads_out != 0 && empty_place(q, nothing);
    if (q.asks_to_close) {
        request.opcode = IBV_WR_RDMA_READ;
        request.sg_list = &nothing;
        request.num_sge = 1;
    }
    ibv_send_wr *bad = nullptr;
    q.closing_marker.before = q.last_send;
    q.closing_marker.finished = false;
    q.closing_marker_posted = q.post(q.handle, &request, &bad) == 0 || bad == nullptr;
    return q.closing_marker_posted;
}

bool closing_marker_completed(qp &q)
{
    osd::lock_guard hold(q.lock);
    q.broken |= drain(*q.send_cq, q.handle->qp_num);
    if (!q.closing_marker.finished)
        return false;
    if (q.closing_marker.done.status == DAT_DTO_SUCCESS && q.last_send != nullptr)
        q.last_send->finished = true; // though its success may be suppressed
    return true;
}

} // namespace vrb

status transport::dapls_ib_qp_alloc(pd &domain, qp &q, cq *recv_cq, cq *send_cq, srq *shared,
                                    const qp_params &params)
{
    hca &device = *domain.device;
    q.device = &device;
    q.shared = shared;
    if (device.siw) {
        q.read_fence = 0;
        q.signals_reads = true;
    }
    q.zone = &domain;
    q.send_cq = send_cq != nullptr ? send_cq : &device.spare;
    q.recv_cq = recv_cq != nullptr ? recv_cq : &device.spare;
    q.params = params;
    q.owner = params.owner;
    q.closing_marker.plain = q.ready_marker.plain = false;
    const status made = make_queue_pair(device, q);
    if (!made.ok())
        return made;
    if (port_features.nth_signal && begin_signalling(*q.send_cq))
        q.nth = at_least_one((params.max_send + 1) / 2);
    osd::lock_guard hold(device.lock);
    device.qps.push(q);
    limit_inline(device, q);
    return success;
}

namespace {

/// [nth_signal] Counts the requests that are done as far as the device has told: a request that has
/// come back shows that earlier requests are done.
DAT_COUNT count_done(wr &oldest, DAT_COUNT most)
{
    DAT_COUNT done = 0;
    wr *each = &oldest;
    for (DAT_COUNT n = 1; n <= most && !each->plain; ++n) {
        if (each->succeeded.load(std::memory_order_acquire))
            done = n;
        each = static_cast<wr *>(each->after);
    }
    return done;
}

} // namespace

/// Counts requests done; if the consumer does not poll, their completions are still on the CQ.
DAT_COUNT transport::dapls_ib_requests_done(qp &q, wr &oldest, DAT_COUNT most)
{
    if (const DAT_COUNT known = count_done(oldest, most); known != 0 || q.nth == 0)
        return known;
    osd::lock_guard hold(q.lock);
    if (q.handle != nullptr)
        q.broken |= drain(*q.send_cq, q.handle->qp_num);
    return count_done(oldest, most);
}

status transport::dapls_ib_post_extended(qp &q, wr &w, const extended_request &wanted)
{
    ibv_sge built[built_entries];
    ibv_send_wr request{};
    request.sg_list = gather(built, wanted.segments, wanted.local);
    request.num_sge = wanted.segments;
    request.send_flags = send_flags(q, w, wanted.flags) & ~static_cast<unsigned>(IBV_SEND_INLINE);
    set_operands(request, w, wanted);
    return post_request(q, w, request);
}

/// Of RDMA reads an iWARP device tells nothing: the kernel keeps to what the connection asks.
void transport::dapls_ib_qp_query(qp &q, qp_attr &out)
{
    osd::lock_guard hold(q.lock);
    if (q.handle == nullptr || q.device->foreign())
        return; // the connection ends, and with it the device's queue pair
    ibv_qp_attr device{};
    ibv_qp_init_attr made{};
    const int wanted = IBV_QP_CAP | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MAX_QP_RD_ATOMIC;
    const int error = ibv_query_qp(q.handle, &device, wanted, &made);
    if (error != 0) {
        log_failure(*q.device, "ibv_query_qp", error);
        return;
    }
    out.number = q.handle->qp_num;
    out.qos = q.qos;
    out.max_recv = as_count(device.cap.max_recv_wr);
    out.max_send = as_count(device.cap.max_send_wr);
    out.max_recv_iov = as_count(device.cap.max_recv_sge);
    out.max_send_iov = as_count(device.cap.max_send_sge);
    out.max_inline = q.max_inline.load();
    if (!q.device->iwarp) {
        out.max_rdma_read_in = device.max_dest_rd_atomic;
        out.max_rdma_read_out = device.max_rd_atomic;
    }
}

void transport::dapls_ib_qp_free(qp &q)
{
    hca &device = *q.device;
    if (device.foreign())
        return;
    if (device.tcp != nullptr)
        device.tcp->cm.forget(q);
    const port_support::pipe_signal_hold no_sigpipe(device.siw);
    osd::lock_guard hold(device.lock);
    quit(device, q);
    if (q.nth != 0)
        end_signalling(*q.send_cq);
    if (q.shared != nullptr)
        q.recv_cq->forget_receiver(q.params.receiver);
    static_cast<all_link &>(q).unlink();
}

status transport::dapls_ib_qp_reset(qp &q)
{
    hca &device = *q.device;
    if (device.tcp != nullptr)
        device.tcp->cm.forget(q);
    const port_support::pipe_signal_hold no_sigpipe(device.siw);
    {
        osd::lock_guard hold(device.lock);
        quit(device, q);
    }
    const status made = make_queue_pair(device, q);
    osd::lock_guard hold(device.lock);
    limit_inline(device, q);
    return made;
}

} // namespace dapl::verbs
