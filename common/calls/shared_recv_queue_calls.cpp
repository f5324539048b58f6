// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The dat_srq_* calls: their arguments are checked here, their work is done in
// core/shared_recv_queue.cpp.
#include "checks.hpp"
#include "core/adapter.hpp"
#include "core/shared_recv_queue.hpp"
#include "dat_calls.hpp"

namespace dapl::DAPL_TRANSPORT::core {

namespace {

bool fits(const DAT_SRQ_ATTR &attr, const hca_attr &limits)
{
    return attr.max_recv_dtos > 0 && attr.max_recv_dtos <= limits.max_recv_per_srq &&
           attr.max_recv_iov > 0 && attr.max_recv_iov <= limits.max_iov_per_dto &&
           attr.low_watermark >= 0 && attr.low_watermark <= attr.max_recv_dtos;
}

} // namespace

status dapl_srq_create(adapter &ia, DAT_PZ_HANDLE pz_handle, DAT_SRQ_ATTR *attr,
                       DAT_SRQ_HANDLE *out)
{
    pz *zone = from_handle<pz>(pz_handle);
    if (zone == nullptr || zone->ia != &ia)
        return invalid_handle(DAT_INVALID_HANDLE_PZ);
    if (attr == nullptr)
        return invalid_parameter(3);
    if (out == nullptr)
        return invalid_parameter(4);
    if (!claims.srq || ia.attr.max_srqs == 0)
        return not_supported;
    if (!fits(*attr, ia.attr))
        return invalid_parameter(3);
    if (ia.has_most<shared_recv_queue>(ia.attr.max_srqs))
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ);
    shared_recv_queue *made = ia.make<shared_recv_queue>(*zone, *attr);
    if (made == nullptr)
        return out_of_memory;
    const status ready = made->set_up();
    if (ready.ok())
        *out = to_handle(made);
    else
        ia.destroy(*made);
    return ready;
}

void dapl_srq_query(shared_recv_queue &srq, DAT_SRQ_PARAM &out)
{
    srq.fill(out);
}

status dapl_srq_resize(shared_recv_queue &srq, DAT_COUNT max_recv)
{
    return srq.resize(max_recv);
}

status dapl_srq_set_lw(shared_recv_queue &srq, DAT_COUNT low)
{
    return srq.set_low_watermark(low);
}

status dapl_srq_free(shared_recv_queue &victim)
{
    if (in_use(victim))
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_SRQ_IN_USE);
    if (!victim.condemn())
        return invalid_handle(DAT_INVALID_HANDLE_SRQ);
    victim.release();
    victim.ia->destroy(victim);
    return success;
}

} // namespace dapl::DAPL_TRANSPORT::core
