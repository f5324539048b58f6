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

status create_srq(adapter &ia, pz &zone, const DAT_SRQ_ATTR &attr, DAT_SRQ_HANDLE *out)
{
    if (ia.live<shared_recv_queue>() >= static_cast<std::size_t>(ia.attr.max_srqs))
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ);
    shared_recv_queue *made = ia.make<shared_recv_queue>(zone, attr);
    if (made == nullptr)
        return out_of_memory;
    const status ready = made->set_up();
    if (ready.ok())
        *out = to_handle(made);
    else
        ia.destroy(*made);
    return ready;
}

status free_srq(shared_recv_queue &victim)
{
    if (in_use(victim))
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_SRQ_IN_USE);
    if (!victim.condemn())
        return invalid_handle(DAT_INVALID_HANDLE_SRQ);
    victim.release();
    victim.ia->destroy(victim);
    return success;
}

} // namespace

DAT_RETURN dapl_srq_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_SRQ_ATTR *attr,
                           DAT_SRQ_HANDLE *out)
{
    adapter *ia = from_handle<adapter>(ia_handle);
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA).code();
    if (!claims.srq || ia->attr.max_srqs == 0)
        return not_supported.code();
    pz *zone = from_handle<pz>(pz_handle);
    if (zone == nullptr || zone->ia != ia)
        return invalid_handle(DAT_INVALID_HANDLE_PZ).code();
    if (attr == nullptr || !fits(*attr, ia->attr))
        return invalid_parameter(3).code();
    if (out == nullptr)
        return invalid_parameter(4).code();
    return create_srq(*ia, *zone, *attr, out).code();
}

DAT_RETURN dapl_srq_query(DAT_SRQ_HANDLE handle, DAT_SRQ_PARAM_MASK mask, DAT_SRQ_PARAM *param)
{
    shared_recv_queue *srq = from_handle<shared_recv_queue>(handle);
    const status checked = check_query(srq, DAT_INVALID_HANDLE_SRQ, mask, DAT_SRQ_FIELD_ALL, param);
    if (checked.ok())
        srq->fill(*param);
    return checked.code();
}

template <class Safety>
DAT_RETURN dapl_srq_post_recv(DAT_SRQ_HANDLE handle, DAT_COUNT segments, DAT_LMR_TRIPLET *local,
                              DAT_DTO_COOKIE cookie)
{
    return on_object<shared_recv_queue>(
        handle, DAT_INVALID_HANDLE_SRQ,
        [=](shared_recv_queue &srq) { return srq.post_recv<Safety>(segments, local, cookie); });
}
template DAT_RETURN dapl_srq_post_recv<one_thread_per_object>(DAT_SRQ_HANDLE, DAT_COUNT,
                                                              DAT_LMR_TRIPLET *, DAT_DTO_COOKIE);
template DAT_RETURN dapl_srq_post_recv<any_thread>(DAT_SRQ_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *,
                                                   DAT_DTO_COOKIE);

DAT_RETURN dapl_srq_resize(DAT_SRQ_HANDLE handle, DAT_COUNT max_recv)
{
    return on_object<shared_recv_queue>(
        handle, DAT_INVALID_HANDLE_SRQ,
        [=](shared_recv_queue &srq) { return srq.resize(max_recv); });
}

DAT_RETURN dapl_srq_set_lw(DAT_SRQ_HANDLE handle, DAT_COUNT low)
{
    return on_object<shared_recv_queue>(
        handle, DAT_INVALID_HANDLE_SRQ,
        [=](shared_recv_queue &srq) { return srq.set_low_watermark(low); });
}

DAT_RETURN dapl_srq_free(DAT_SRQ_HANDLE handle)
{
    return on_object<shared_recv_queue>(handle, DAT_INVALID_HANDLE_SRQ, free_srq);
}

} // namespace dapl::DAPL_TRANSPORT::core
