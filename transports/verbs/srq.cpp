// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shared receive queues.
#include "internal.hpp"

#include "dapl_debug.hpp"
#include "osd_system.hpp"

#include <cerrno>
#include <cstring>

namespace dapl::verbs {

using namespace vrb;

namespace {

status srq_error(const srq &shared, const char *call, int error)
{
    if (error == EOPNOTSUPP)
        return not_supported;
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: %s failed: %s%s", shared.device->name, call,
             std::strerror(error), osd::limit_text::of_locking(error).text);
    return status_of_errno(error);
}

} // namespace

namespace vrb {

work_queue *receiver_of(srq &shared, std::uint32_t qp_num)
{
    osd::lock_guard hold(shared.lock);
    work_queue *newest = nullptr; // a number that is free again may have two for a moment
    auto &bucket = shared.drawing[qp_num % srq::buckets];
    for (qp *q = bucket.front(); q != nullptr; q = bucket.after(*q))
        if (q->number == qp_num)
            newest = q->params.receiver;
    return newest;
}

void begin_drawing(qp &q, std::uint32_t number)
{
    q.number = number;
    osd::lock_guard hold(q.shared->lock);
    q.shared->drawing[number % srq::buckets].push(q);
}

void end_drawing(qp &q)
{
    osd::lock_guard hold(q.shared->lock);
    static_cast<drawing_link &>(q).unlink();
}

} // namespace vrb

status transport::dapls_ib_srq_alloc(pd &domain, srq &shared, const srq_params &params)
{
    shared.device = domain.device;
    shared.owner = params.owner;
    ibv_srq_init_attr attr{};
    attr.srq_context = &shared;
    attr.attr.max_wr = static_cast<std::uint32_t>(params.max_recv);
    attr.attr.max_sge = static_cast<std::uint32_t>(params.max_recv_iov);
    shared.handle = ibv_create_srq(domain.handle, &attr);
    return shared.handle != nullptr ? success : srq_error(shared, "ibv_create_srq", errno);
}

void transport::dapls_ib_srq_free(srq &shared)
{
    hca &device = *shared.device;
    if (device.foreign())
        return;
    osd::lock_guard hold(device.lock);
    destroy_srq(device, shared.handle);
    device.wait_quiet(&shared);
}

status transport::dapls_ib_srq_resize(srq &shared, DAT_COUNT max_recv)
{
    ibv_srq_attr attr{};
    attr.max_wr = static_cast<std::uint32_t>(max_recv);
    const int error = ibv_modify_srq(shared.handle, &attr, IBV_SRQ_MAX_WR);
    return error == 0 ? success : srq_error(shared, "ibv_modify_srq of the depth", error);
}

status transport::dapls_ib_srq_set_limit(srq &shared, DAT_COUNT low_watermark)
{
    ibv_srq_attr attr{};
    attr.srq_limit = static_cast<std::uint32_t>(low_watermark);
    const int error = ibv_modify_srq(shared.handle, &attr, IBV_SRQ_LIMIT);
    return error == 0 ? success : srq_error(shared, "ibv_modify_srq of the limit", error);
}

status transport::dapls_ib_post_srq_recv(srq &shared, wr &w, DAT_COUNT segments,
                                         const DAT_LMR_TRIPLET *local)
{
    ibv_sge none[1];
    ibv_sge built[built_entries];
    ibv_recv_wr request;
    request.wr_id = reinterpret_cast<std::uint64_t>(&w);
    request.next = nullptr;
    request.sg_list = gather(built, segments, local);
    request.num_sge = segments;
    if (segments == 0 && shared.device->siw) [[unlikely]] {
        request.sg_list = none;
        request.num_sge = no_bytes(none);
    }
    w.shared = &shared;
    w.plain = false;
    w.finished = false;
    ibv_recv_wr *bad;
    const int error = ibv_post_srq_recv(shared.handle, &request, &bad);
    return error == 0 ? success : refused_post(error);
}

} // namespace dapl::verbs
