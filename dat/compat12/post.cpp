// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Posting: the data path. Nothing here locks or allocates.
#include "calls.hpp"
#include "segments.hpp"

using dat12::object;

namespace dat12 {
namespace {

OSD_ALWAYS_INLINE DAT_RETURN answer(DAT_RETURN status)
{
    return status == DAT_SUCCESS ? status : answered(status);
}

/// No segments, more than most_at_once, or a number of them that is none.
template <DAT_HANDLE_TYPE Type, auto Slot, typename... Rest>
OSD_COLD DAT_RETURN post_odd(DAT_HANDLE handle, DAT_COUNT count, const v1::DAT_LMR_TRIPLET *iov,
                             DAT_DTO_COOKIE cookie, Rest... rest)
{
    object *queue = unchecked(handle);
    if (count < 0 || count > most_segments)
        return bad_argument(2);
    DAT_LMR_TRIPLET two[most_segments];
    if (iov != nullptr && !all_to_two(iov, count, two))
        return too_long;
    return call<Slot>(*queue, count, iov != nullptr ? two : nullptr, cookie, rest...);
}

/// Posts to the object what `Slot` of its provider takes: segments, cookie, and the rest.
template <DAT_HANDLE_TYPE Type, auto Slot, typename... Rest>
OSD_ALWAYS_INLINE DAT_RETURN post(DAT_HANDLE handle, DAT_COUNT count,
                                  const v1::DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
                                  Rest... rest)
{
    object *queue = object_of<Type>(handle);
    if (queue == nullptr) [[unlikely]]
        return refused<Type>;
    if (iov == nullptr) [[unlikely]]
        return post_odd<Type, Slot>(handle, count, iov, cookie, rest...);
    if (count == 1) [[likely]] {
        DAT_LMR_TRIPLET two;
        if (convert(*iov, two) != 0) [[unlikely]]
            return too_long;
        return answer(call_at_once<Slot>(*queue, count, &two, cookie, rest...));
    }
    DAT_LMR_TRIPLET two[most_at_once];
    const conversion how = to_two(iov, count, two);
    if (how == conversion::not_at_once) [[unlikely]]
        return post_odd<Type, Slot>(handle, count, iov, cookie, rest...);
    if (how == conversion::too_long) [[unlikely]]
        return too_long;
    return answer(call_at_once<Slot>(*queue, count, two, cookie, rest...));
}

/// The same for RDMA; `remote` is null or one segment.
template <auto Slot>
OSD_ALWAYS_INLINE DAT_RETURN post_rdma(DAT_HANDLE ep, DAT_COUNT count,
                                       const v1::DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
                                       const v1::DAT_RMR_TRIPLET *remote,
                                       v1::DAT_COMPLETION_FLAGS flags)
{
    const auto two_flags = static_cast<DAT_COMPLETION_FLAGS>(flags);
    if (remote == nullptr) [[unlikely]]
        return post<DAT_HANDLE_TYPE_EP, Slot>(
            ep, count, iov, cookie, static_cast<const DAT_RMR_TRIPLET *>(nullptr), two_flags);
    DAT_RMR_TRIPLET target;
    if (convert(*remote, target) != 0) [[unlikely]]
        return object_of<DAT_HANDLE_TYPE_EP>(ep) != nullptr ? too_long
                                                            : refused<DAT_HANDLE_TYPE_EP>;
    return post<DAT_HANDLE_TYPE_EP, Slot>(ep, count, iov, cookie,
                                          static_cast<const DAT_RMR_TRIPLET *>(&target), two_flags);
}

} // namespace
} // namespace dat12

DAT_RETURN dat12_ep_post_send(DAT_EP_HANDLE ep, DAT_COUNT count, v1::DAT_LMR_TRIPLET *iov,
                              DAT_DTO_COOKIE cookie, v1::DAT_COMPLETION_FLAGS flags)
{
    return dat12::post<DAT_HANDLE_TYPE_EP, &DAT_PROVIDER::ep_post_send_func>(
        ep, count, iov, cookie, static_cast<DAT_COMPLETION_FLAGS>(flags));
}

DAT_RETURN dat12_ep_post_recv(DAT_EP_HANDLE ep, DAT_COUNT count, v1::DAT_LMR_TRIPLET *iov,
                              DAT_DTO_COOKIE cookie, v1::DAT_COMPLETION_FLAGS flags)
{
    return dat12::post<DAT_HANDLE_TYPE_EP, &DAT_PROVIDER::ep_post_recv_func>(
        ep, count, iov, cookie, static_cast<DAT_COMPLETION_FLAGS>(flags));
}

DAT_RETURN dat12_srq_post_recv(DAT_SRQ_HANDLE srq, DAT_COUNT count, v1::DAT_LMR_TRIPLET *iov,
                               DAT_DTO_COOKIE cookie)
{
    return dat12::post<DAT_HANDLE_TYPE_SRQ, &DAT_PROVIDER::srq_post_recv_func>(srq, count, iov,
                                                                               cookie);
}

DAT_RETURN dat12_ep_post_rdma_read(DAT_EP_HANDLE ep, DAT_COUNT count, v1::DAT_LMR_TRIPLET *iov,
                                   DAT_DTO_COOKIE cookie, const v1::DAT_RMR_TRIPLET *remote,
                                   v1::DAT_COMPLETION_FLAGS flags)
{
    return dat12::post_rdma<&DAT_PROVIDER::ep_post_rdma_read_func>(ep, count, iov, cookie, remote,
                                                                   flags);
}

DAT_RETURN dat12_ep_post_rdma_write(DAT_EP_HANDLE ep, DAT_COUNT count, v1::DAT_LMR_TRIPLET *iov,
                                    DAT_DTO_COOKIE cookie, const v1::DAT_RMR_TRIPLET *remote,
                                    v1::DAT_COMPLETION_FLAGS flags)
{
    return dat12::post_rdma<&DAT_PROVIDER::ep_post_rdma_write_func>(ep, count, iov, cookie, remote,
                                                                    flags);
}

/// DAT 1.2 names the region by the context in the segment alone.
DAT_RETURN dat12_rmr_bind(DAT_RMR_HANDLE handle, const v1::DAT_LMR_TRIPLET *segment,
                          v1::DAT_MEM_PRIV_FLAGS privileges, DAT_EP_HANDLE ep,
                          DAT_RMR_COOKIE cookie, v1::DAT_COMPLETION_FLAGS flags,
                          DAT_RMR_CONTEXT *context)
{
    object *rmr = dat12::object_of<DAT_HANDLE_TYPE_RMR>(handle);
    if (rmr == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_RMR>;
    if (segment == nullptr)
        return dat12::bad_argument(2);
    DAT_LMR_TRIPLET two;
    if (dat12::convert(*segment, two) != 0)
        return dat12::too_long;
    DAT_LMR_HANDLE region = nullptr; // not looked at where the bind ends one
    if (two.segment_length != 0) {
        object *lmr = dat12::found_by_context(rmr->ia, two.lmr_context);
        if (lmr == nullptr)
            return dat12::bad_argument(2);
        region = dat12::two(*lmr);
    }
    const DAT_RETURN status = dat12::call_two<&DAT_PROVIDER::rmr_bind_func>(
        *rmr, region, &two, static_cast<DAT_MEM_PRIV_FLAGS>(privileges), DAT_VA_TYPE_VA,
        dat12::two_of<DAT_HANDLE_TYPE_EP>(ep), cookie, static_cast<DAT_COMPLETION_FLAGS>(flags),
        context);
    // Two parameters more: the region, which is the second, and the kind of address.
    return dat12::to_one(dat12::without_position(dat12::without_position(status, 5), 2));
}
