// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The data path of DAT 1.2, as the macros of its headers make the calls: through the first word
// behind a handle. Segments are DAT 2.0 segments. Success and an empty queue have equal codes in
// both.
#pragma once

#include "dat12_types.hpp"

#include <cstring>

namespace bench::dat12_calls {

inline const v1::DAT_PROVIDER &vector_of(DAT_HANDLE handle)
{
    const v1::DAT_PROVIDER *vector;
    std::memcpy(&vector, handle, sizeof vector); // copied, since it is not aligned
    return *vector;
}

inline v1::DAT_LMR_TRIPLET to_one(const DAT_LMR_TRIPLET &two)
{
    return {two.lmr_context, 0, two.virtual_address, two.segment_length};
}

inline v1::DAT_RMR_TRIPLET to_one(const DAT_RMR_TRIPLET &two)
{
    return {two.rmr_context, 0, two.virtual_address, two.segment_length};
}

inline DAT_RETURN post_recv(DAT_EP_HANDLE ep, const DAT_LMR_TRIPLET &segment, DAT_DTO_COOKIE cookie)
{
    v1::DAT_LMR_TRIPLET local = to_one(segment);
    return vector_of(ep).ep_post_recv_func(ep, 1, &local, cookie, v1::DAT_COMPLETION_DEFAULT_FLAG);
}

inline DAT_RETURN post_send(DAT_EP_HANDLE ep, const DAT_LMR_TRIPLET &segment, DAT_DTO_COOKIE cookie)
{
    v1::DAT_LMR_TRIPLET local = to_one(segment);
    return vector_of(ep).ep_post_send_func(ep, 1, &local, cookie, v1::DAT_COMPLETION_DEFAULT_FLAG);
}

inline DAT_RETURN post_read(DAT_EP_HANDLE ep, const DAT_LMR_TRIPLET &segment, DAT_DTO_COOKIE cookie,
                            const DAT_RMR_TRIPLET &source)
{
    v1::DAT_LMR_TRIPLET local = to_one(segment);
    const v1::DAT_RMR_TRIPLET remote = to_one(source);
    return vector_of(ep).ep_post_rdma_read_func(ep, 1, &local, cookie, &remote,
                                                v1::DAT_COMPLETION_DEFAULT_FLAG);
}

inline DAT_RETURN post_write(DAT_EP_HANDLE ep, const DAT_LMR_TRIPLET &segment,
                             DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET &target,
                             DAT_COMPLETION_FLAGS flags)
{
    v1::DAT_LMR_TRIPLET local = to_one(segment);
    const v1::DAT_RMR_TRIPLET remote = to_one(target);
    return vector_of(ep).ep_post_rdma_write_func(ep, 1, &local, cookie, &remote,
                                                 static_cast<v1::DAT_COMPLETION_FLAGS>(flags));
}

inline DAT_RETURN dequeue(DAT_EVD_HANDLE evd, DAT_DTO_COMPLETION_STATUS &status)
{
    v1::DAT_EVENT event;
    const DAT_RETURN code = vector_of(evd).evd_dequeue_func(evd, &event);
    if (code == DAT_SUCCESS)
        status = static_cast<DAT_DTO_COMPLETION_STATUS>(
            event.event_data.dto_completion_event_data.status);
    return code;
}

} // namespace bench::dat12_calls
