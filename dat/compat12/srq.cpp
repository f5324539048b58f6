// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shared receive queues: all but posting.
#include "calls.hpp"
#include "segments.hpp"

using dat12::object;

DAT_RETURN dat12_srq_create(DAT_IA_HANDLE handle, DAT_PZ_HANDLE pz, DAT_SRQ_ATTR *attr,
                            DAT_SRQ_HANDLE *srq)
{
    object *ia = dat12::object_of<DAT_HANDLE_TYPE_IA>(handle);
    if (ia == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_IA>;
    if (attr != nullptr && attr->max_recv_iov > dat12::most_segments)
        return dat12::bad_argument(3);
    return dat12::create<DAT_HANDLE_TYPE_SRQ>(*ia, srq, 4, [&](DAT_HANDLE *made, object &) {
        return dat12::call<&DAT_PROVIDER::srq_create_func>(
            *ia, dat12::two_of<DAT_HANDLE_TYPE_PZ>(pz), attr, made);
    });
}

DAT_RETURN dat12_srq_free(DAT_SRQ_HANDLE srq)
{
    return dat12::release<DAT_HANDLE_TYPE_SRQ, &DAT_PROVIDER::srq_free_func>(srq);
}

DAT_RETURN dat12_srq_query(DAT_SRQ_HANDLE handle, DAT_SRQ_PARAM_MASK mask, v1::DAT_SRQ_PARAM *param)
{
    return dat12::query<DAT_HANDLE_TYPE_SRQ, &DAT_PROVIDER::srq_query_func, DAT_SRQ_PARAM>(
        handle, mask, DAT_SRQ_FIELD_ALL, mask, param,
        [](const object &srq, const DAT_SRQ_PARAM &two, v1::DAT_SRQ_PARAM &one) {
            one.ia_handle = dat12::handle_of(srq.ia);
            one.srq_state = two.srq_state == DAT_SRQ_STATE_OPERATIONAL
                                ? v1::DAT_SRQ_STATE_OPERATIONAL
                                : v1::DAT_SRQ_STATE_ERROR;
            one.pz_handle = dat12::one_of(two.pz_handle);
            one.max_recv_dtos = two.max_recv_dtos;
            one.max_recv_iov = two.max_recv_iov;
            one.low_watermark = two.low_watermark;
            one.available_dto_count = two.available_dto_count;
            one.outstanding_dto_count = two.outstanding_dto_count;
        });
}

DAT_RETURN dat12_srq_resize(DAT_SRQ_HANDLE srq, DAT_COUNT max_recv_dto)
{
    return dat12::forward<DAT_HANDLE_TYPE_SRQ, &DAT_PROVIDER::srq_resize_func>(srq, max_recv_dto);
}

DAT_RETURN dat12_srq_set_lw(DAT_SRQ_HANDLE srq, DAT_COUNT low_watermark)
{
    return dat12::forward<DAT_HANDLE_TYPE_SRQ, &DAT_PROVIDER::srq_set_lw_func>(srq, low_watermark);
}
