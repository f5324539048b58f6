// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The calls of the data path, for each promise of a consumer about threads, and the waits.
#pragma once

#include "core/cno.hpp"
#include "core/endpoint.hpp"
#include "core/evd.hpp"
#include "core/shared_recv_queue.hpp"

namespace dapl::DAPL_TRANSPORT::core {

OSD_ALWAYS_INLINE DAT_RETURN dapl_evd_dequeue(evd &e, DAT_EVENT *event)
{
    if (event == nullptr) [[unlikely]]
        return invalid_parameter(2).code();
    return e.dequeue(*event);
}

OSD_ALWAYS_INLINE status dapl_evd_wait(evd &e, DAT_TIMEOUT timeout, DAT_COUNT threshold,
                                       DAT_EVENT *event, DAT_COUNT *nmore)
{
    if (event == nullptr)
        return invalid_parameter(4);
    if (nmore == nullptr)
        return invalid_parameter(5);
    return e.wait(timeout, threshold, *event, *nmore);
}

OSD_ALWAYS_INLINE status dapl_cno_wait(cno &c, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *triggered_by)
{
    return triggered_by == nullptr ? invalid_parameter(3) : c.wait(timeout, triggered_by);
}

template <class Safety>
OSD_ALWAYS_INLINE DAT_RETURN dapl_ep_post_send(endpoint &ep, DAT_COUNT segments,
                                               DAT_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie,
                                               DAT_COMPLETION_FLAGS flags)
{
    return ep.post_request<Safety, opcode::send>(segments, local, nullptr, cookie, flags);
}

template <class Safety>
DAT_RETURN dapl_ep_post_send_with_invalidate(endpoint &ep, DAT_COUNT segments,
                                             DAT_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie,
                                             DAT_COMPLETION_FLAGS flags, DAT_BOOLEAN invalidate,
                                             DAT_RMR_CONTEXT key)
{
    if (claims.send_invalidate && invalidate == DAT_FALSE)
        return dapl_ep_post_send<Safety>(ep, segments, local, cookie, flags);
    const extended_request wanted{.segments = segments, .local = local, .flags = flags, .key = key};
    return ep.post_extended<Safety>(opcode::send_invalidate, wanted, cookie).code();
}

template <class Safety>
DAT_RETURN dapl_ep_post_rdma_read_to_rmr(endpoint &ep, const DAT_RMR_TRIPLET *to,
                                         DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *from,
                                         DAT_COMPLETION_FLAGS flags)
{
    const extended_request wanted{.remote = from, .flags = flags, .to = to};
    return ep.post_extended<Safety>(opcode::read_to_rmr, wanted, cookie).code();
}

template <class Safety>
OSD_ALWAYS_INLINE DAT_RETURN dapl_ep_post_recv(endpoint &ep, DAT_COUNT segments,
                                               DAT_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie,
                                               DAT_COMPLETION_FLAGS flags)
{
    return ep.post_recv<Safety>(segments, local, cookie, flags);
}

template <class Safety>
OSD_ALWAYS_INLINE DAT_RETURN dapl_ep_post_rdma_read(endpoint &ep, DAT_COUNT segments,
                                                    DAT_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie,
                                                    const DAT_RMR_TRIPLET *remote,
                                                    DAT_COMPLETION_FLAGS flags)
{
    return ep.post_request<Safety, opcode::rdma_read>(segments, local, remote, cookie, flags);
}

template <class Safety>
OSD_ALWAYS_INLINE DAT_RETURN dapl_ep_post_rdma_write(endpoint &ep, DAT_COUNT segments,
                                                     DAT_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie,
                                                     const DAT_RMR_TRIPLET *remote,
                                                     DAT_COMPLETION_FLAGS flags)
{
    return ep.post_request<Safety, opcode::rdma_write>(segments, local, remote, cookie, flags);
}

template <class Safety>
OSD_ALWAYS_INLINE DAT_RETURN dapl_srq_post_recv(shared_recv_queue &srq, DAT_COUNT segments,
                                                DAT_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie)
{
    return srq.post_recv<Safety>(segments, local, cookie).code();
}

} // namespace dapl::DAPL_TRANSPORT::core
