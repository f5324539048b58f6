// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Queue pairs and shared receive queues; posting is in unconnected_port.hpp.
#include "unconnected_port.hpp"

#include "errno_status.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <sys/random.h>
#include <utility>

namespace dapl::DAPL_TRANSPORT::unconnected {

/// Takes a queue pair out of all lists, and gives up its datagrams, sent and early ones. Those that
/// are in flight keep their buffers, and the peer's number.
void types::hca::detach(qp &q)
{
    connection_data &c = q.data;
    q.ready_link::unlink();
    q.owing_link::unlink();
    q.starved_link::unlink();
    q.ending_link::unlink();
    if (c.in_flight != 0)
        for (pair_buffer &each : buffers)
            if (each.of == &q) {
                each.of = nullptr;
                each.peer = c.peer;
                ++c.peer->in_flight;
            }
    c.in_flight = 0;
    while (held_packet *first = c.held) {
        c.held = first->next;
        holds.give(*first);
    }
    known_peer *const peer = std::exchange(c.peer, nullptr);
    if (peer != nullptr && peers.disconnect(*peer, osd::now_ns()))
        wake();
}

namespace {

/// A datagram of an earlier connection names another tag.
bool make_tag(std::uint64_t &out)
{
    return getrandom(&out, sizeof out, 0) == static_cast<ssize_t>(sizeof out);
}

status make(qp &q)
{
    hca &h = *q.of;
    osd::lock_guard hold(h.library);
    std::destroy_at(&q.data); // an assignment would have a second one on the stack
    std::construct_at(&q.data);
    q.leaves = false;
    if (!make_tag(q.data.tag))
        return call_failed(h.name, "getrandom", errno);
    return h.pairs.add(q) ? success
                          : status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
}

/// Ends all callbacks of the pair, and drops posted operations.
void release(qp &q)
{
    hca &h = *q.of;
    {
        osd::lock_guard hold(h.library);
        q.leaves = true;
        q.failed_link::unlink();
    }
    h.cm->forget(q);
    h.end_accesses(q); // of a connection that was up until now
    osd::lock_guard hold(h.library);
    h.detach(q);
    h.pairs.remove(q);
    for (auto *posted : {&q.requests, &q.receives})
        while (wr *w = posted->pop())
            static_cast<awaiting_link *>(w)->unlink();
}

} // namespace

status port::dapls_ib_qp_alloc(pd &zone, qp &q, cq *recv_cq, cq *send_cq, srq *shared,
                               const qp_params &params)
{
    if (zone.of->name_on_fabric.size == 0)
        return not_supported;
    q.owner = params.owner;
    q.domain = &zone;
    q.of = zone.of;
    q.recv_cq = recv_cq;
    q.send_cq = send_cq;
    q.receiver = params.receiver;
    q.shared = shared;
    q.reads_in = static_cast<std::uint32_t>(std::max(params.max_rdma_read_in, 1));
    q.max_reads_out = static_cast<std::uint32_t>(std::max(params.max_rdma_read_out, 1));
    return make(q);
}

void port::dapls_ib_qp_free(qp &q)
{
    hca &h = *q.of;
    if (h.foreign())
        return;
    release(q);
    if (q.shared == nullptr || q.recv_cq == nullptr)
        return;
    osd::lock_guard hold(h.library);
    for (wr *w = q.recv_cq->done.front(); w != nullptr; w = w->next)
        if (w->of == &q)
            w->receiver = nullptr;
}

status port::dapls_ib_qp_reset(qp &q)
{
    release(q);
    return make(q);
}

// ------------------------------------------------------------------------- shared receive queues

status port::dapls_ib_srq_alloc(pd &zone, srq &s, const srq_params &params)
{
    s.of = zone.of;
    s.owner = params.owner;
    return success; // receives are in a list, which has no end
}

void port::dapls_ib_srq_free(srq &s)
{
    hca &h = *s.of;
    if (h.foreign())
        return;
    osd::lock_guard hold(h.lock);
    {
        osd::lock_guard alone(h.library);
        s.low_link::unlink();
        s.offered_link::unlink();
        s.receives = {};
    }
    h.wait_quiet(&s);
}

status port::dapls_ib_srq_set_limit(srq &s, DAT_COUNT low_watermark)
{
    hca &h = *s.of;
    osd::lock_guard hold(h.library);
    s.limit = static_cast<std::uint32_t>(low_watermark);
    if (s.count < s.limit)
        h.call_soon(s);
    return success;
}

status port::dapls_ib_post_srq_recv(srq &s, wr &w, DAT_COUNT segments, const DAT_LMR_TRIPLET *local)
{
    fill(w, segments, local);
    receive(w);
    w.receiver = nullptr;
    hca &h = *s.of;
    osd::lock_guard hold(h.library);
    s.receives.push(w);
    ++s.count;
    if (!s.starved.empty())
        h.offer_receives(s);
    return success;
}

} // namespace dapl::DAPL_TRANSPORT::unconnected
