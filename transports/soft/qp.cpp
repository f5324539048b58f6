// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The slow operations of queue pairs.
#include "dapl_debug.hpp"
#include "port.hpp"

#include <algorithm>

namespace dapl::soft {

namespace {

soft_hca::pair_params pair_params_of(types::pd &domain, types::cq *recv_cq, types::cq *send_cq,
                                     types::srq *shared, const qp_params &params)
{
    soft_hca::pair_params out;
    if (params.datagrams)
        out.use = soft_hca::pair_use::datagrams;
    out.owner = params.owner;
    out.domain = &domain.domain;
    out.send_queue = send_cq == nullptr ? nullptr : &send_cq->queue;
    out.receive_queue = recv_cq == nullptr ? nullptr : &recv_cq->queue;
    out.shared = shared == nullptr ? nullptr : &shared->queue;
    out.receiver = params.receiver;
    out.max_sends = static_cast<std::uint32_t>(params.max_send);
    out.max_receives = static_cast<std::uint32_t>(params.max_recv);
    out.concurrent_posts = params.concurrent_posts;
    out.reads_in = static_cast<std::uint16_t>(params.max_rdma_read_in);
    out.reads_out = static_cast<std::uint16_t>(params.max_rdma_read_out);
    return out;
}

} // namespace

status transport::dapls_ib_qp_alloc(pd &domain, qp &q, cq *recv_cq, cq *send_cq, srq *shared,
                                    const qp_params &params)
{
    q.parent = domain.parent;
    if (q.parent->device.make_pair(q.pair,
                                   pair_params_of(domain, recv_cq, send_cq, shared, params)))
        return success;
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: creating a queue pair failed: out of memory or ids",
             q.parent->interface.name);
    return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
}

void transport::dapls_ib_qp_free(qp &q)
{
    if (!q.parent->foreign())
        q.parent->device.free_pair(q.pair);
}

DAT_COUNT transport::dapls_ib_requests_done(qp &, wr &oldest, DAT_COUNT most)
{
    DAT_COUNT done = 0;
    for (wr *each = &oldest; done != most && soft_hca::has_succeeded(each->request);
         each = static_cast<wr *>(each->after))
        ++done;
    return done;
}

void transport::dapls_ib_read_qp_counters(qp &q, qp_counters &out)
{
    if (q.parent->foreign())
        return;
    q.pair.enter();
    const soft_hca::pair_counts now = q.pair.record.counts;
    q.pair.leave();
    out.add("SOFT_PACKETS_OUT", now.packets_out);
    out.add("SOFT_PACKETS_OUT_AGAIN", now.packets_resent);
    out.add("SOFT_PACKETS_OUT_BY_RING", now.by_ring);
    out.add("SOFT_PACKETS_IN", now.packets_in);
    out.add("SOFT_PACKETS_IN_FETCHED", now.fetched);
    out.add("SOFT_PACKETS_IN_TWICE", now.duplicates);
    out.add("SOFT_PACKETS_IN_EARLY", now.early);
    out.add("SOFT_PACKETS_IN_DROPPED", now.dropped);
    out.add("SOFT_PACKETS_IN_CORRUPT", now.corrupt);
    out.add("SOFT_PACKETS_IN_NOT_READY", now.not_ready);
    out.add("SOFT_TIMEOUTS", now.timeouts);
    out.add("SOFT_RDMA_DIRECT", now.direct);
    out.add("SOFT_RDMA_INDIRECT", now.indirect);
}

void transport::dapls_ib_qp_query(qp &q, qp_attr &out)
{
    if (q.parent->foreign())
        return;
    q.pair.enter();
    const soft_hca::agreed_reads reads = q.pair.record.reads;
    const std::uint8_t tos = q.pair.connection().path().peer().traffic_class();
    out.number = q.pair.identity.id;
    q.pair.leave();
    out.qos = q.parent->params.quality_of(tos);
    out.max_rdma_read_in = reads.in;
    out.max_rdma_read_out = reads.out;
}

status transport::dapls_ib_qp_reset(qp &q)
{
    if (q.parent->device.reset_pair(q.pair))
        return success;
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: resetting a queue pair failed: no free id",
             q.parent->interface.name);
    return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
}

} // namespace dapl::soft
