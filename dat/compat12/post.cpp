// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Posting: the data path. Nothing here locks or allocates.
#include "calls.hpp"
#include "segments.hpp"

using dat12::object;

namespace dat12 {
namespace {

/// Posts an unusual operation: without segments, with more than most_at_once, with an illegal
/// number of them, or without a remote segment.
template <auto Slot, typename... Rest>
OSD_COLD DAT_RETURN post_odd(DAT_HANDLE handle, DAT_COUNT count, const v1::DAT_LMR_TRIPLET *iov,
                             DAT_DTO_COOKIE cookie, Rest... rest)
{
    if (count < 0 || count > most_segments)
        return bad_argument(2);
    DAT_LMR_TRIPLET two[most_segments];
    if (iov != nullptr && !all_to_two(iov, count, two))
        return too_long;
    return call<Slot>(*unchecked(handle), count, iov != nullptr ? two : nullptr, cookie, rest...);
}

/// Posts to a live object by `Slot` of its provider: segments, cookie, and further arguments.
/// `high` is the upper half of the remote segment's length; it has to be 0, as in the local
/// segments.
template <auto Slot, typename... Rest>
OSD_ALWAYS_INLINE DAT_RETURN post(DAT_HANDLE handle, std::uint32_t high, DAT_COUNT count,
                                  const v1::DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
                                  Rest... rest)
{
    if (iov == nullptr) [[unlikely]]
        return high != 0 ? too_long : post_odd<Slot>(handle, count, iov, cookie, rest...);
    DAT_LMR_TRIPLET two[most_at_once];
    if (!to_two(iov, count, two, high)) [[unlikely]]
        return high != 0 ? too_long : post_odd<Slot>(handle, count, iov, cookie, rest...);
    if (high != 0) [[unlikely]]
        return too_long;
    return to_one(call_at_once<Slot>(*unchecked(handle), count, two, cookie, rest...));
}

/// Posts an operation without a remote segment.
template <DAT_HANDLE_TYPE Type, auto Slot, typename... Rest>
OSD_ALWAYS_INLINE DAT_RETURN post_local(DAT_HANDLE handle, DAT_COUNT count,
                                        const v1::DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
                                        Rest... rest)
{
    if (object_of<Type>(handle) == nullptr) [[unlikely]]
        return refused<Type>;
    return post<Slot>(handle, 0, count, iov, cookie, rest...);
}

/// Posts an RDMA operation; `remote` is null or one segment.
template <auto Slot>
OSD_ALWAYS_INLINE DAT_RETURN post_rdma(DAT_EP_HANDLE ep, DAT_COUNT count,
                                       const v1::DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
                                       const v1::DAT_RMR_TRIPLET *remote,
                                       v1::DAT_COMPLETION_FLAGS flags)
{
    const auto two_flags = static_cast<DAT_COMPLETION_FLAGS>(flags);
    if (object_of<DAT_HANDLE_TYPE_EP>(ep) == nullptr) [[unlikely]]
        return refused<DAT_HANDLE_TYPE_EP>;
    if (remote == nullptr) [[unlikely]]
        return post_odd<Slot>(ep, count, iov, cookie, static_cast<const DAT_RMR_TRIPLET *>(nullptr),
                              two_flags);
    DAT_RMR_TRIPLET target;
    const std::uint32_t high = convert(*remote, target);
    return post<Slot>(ep, high, count, iov, cookie, static_cast<const DAT_RMR_TRIPLET *>(&target),
                      two_flags);
}

} // namespace
} // namespace dat12

DAT_RETURN dat12_ep_post_send(DAT_EP_HANDLE ep, DAT_COUNT count, v1::DAT_LMR_TRIPLET *iov,
                              DAT_DTO_COOKIE cookie, v1::DAT_COMPLETION_FLAGS flags)
{
    return dat12::post_local<DAT_HANDLE_TYPE_EP, &DAT_PROVIDER::ep_post_send_func>(
        ep, count, iov, cookie, static_cast<DAT_COMPLETION_FLAGS>(flags));
}

DAT_RETURN dat12_ep_post_recv(DAT_EP_HANDLE ep, DAT_COUNT count, v1::DAT_LMR_TRIPLET *iov,
                              DAT_DTO_COOKIE cookie, v1::DAT_COMPLETION_FLAGS flags)
{
    return dat12::post_local<DAT_HANDLE_TYPE_EP, &DAT_PROVIDER::ep_post_recv_func>(
        ep, count, iov, cookie, static_cast<DAT_COMPLETION_FLAGS>(flags));
}

DAT_RETURN dat12_srq_post_recv(DAT_SRQ_HANDLE srq, DAT_COUNT count, v1::DAT_LMR_TRIPLET *iov,
                               DAT_DTO_COOKIE cookie)
{
    return dat12::post_local<DAT_HANDLE_TYPE_SRQ, &DAT_PROVIDER::srq_post_recv_func>(srq, count,
                                                                                     iov, cookie);
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
    DAT_LMR_HANDLE region = nullptr; // ignored if the bind unbinds
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
