// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Endpoints: all but posting.
#include "calls.hpp"
#include "ep_attributes.hpp"
#include "segments.hpp"

#include <cstdint>

using dat12::object;

namespace dat12 {
namespace {

/// Translates a mask of endpoint fields. Behind the state DAT 2.0 has one field more, so bits move
/// by one; the bits of the attributes do not.
constexpr DAT_UINT64 ep_mask(DAT_UINT64 one)
{
    constexpr DAT_UINT64 before = v1::EP_FIELD_IA_HANDLE | v1::EP_FIELD_EP_STATE;
    constexpr DAT_UINT64 behind = v1::EP_FIELD_EP_ATTR_ALL;
    return (one & (before | behind)) | (one & ~(before | behind)) << 1;
}

static_assert(ep_mask(v1::EP_FIELD_LOCAL_IA_ADDRESS_PTR) == DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR);
static_assert(ep_mask(v1::EP_FIELD_SRQ_HANDLE) == DAT_EP_FIELD_SRQ_HANDLE);
static_assert(ep_mask(v1::EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR) ==
              DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR);

/// Translates a state. DAT 2.0 tells connections with one path and several apart, DAT 1.2 does not.
v1::DAT_EP_STATE state_to_one(DAT_EP_STATE two)
{
    return two <= DAT_EP_STATE_COMPLETION_PENDING ? static_cast<v1::DAT_EP_STATE>(two)
                                                  : v1::DAT_EP_STATE_CONNECTED;
}

bool has(DAT_UINT64 mask, DAT_UINT64 field)
{
    return (mask & field) != 0;
}

/// Whether the attributes that count can be said in DAT 2.0, and posted.
bool is_possible(const v1::DAT_EP_ATTR &attr, DAT_UINT64 mask)
{
    return !(has(mask, v1::EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE) &&
             attr.max_message_size > UINT32_MAX) &&
           !(has(mask, v1::EP_FIELD_EP_ATTR_MAX_RDMA_SIZE) && attr.max_rdma_size > UINT32_MAX) &&
           !(has(mask, v1::EP_FIELD_EP_ATTR_MAX_RECV_IOV) && attr.max_recv_iov > most_segments) &&
           !(has(mask, v1::EP_FIELD_EP_ATTR_MAX_REQUEST_IOV) &&
             attr.max_request_iov > most_segments) &&
           !(has(mask, v1::EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV) &&
             attr.max_rdma_read_iov > most_segments) &&
           !(has(mask, v1::EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV) &&
             attr.max_rdma_write_iov > most_segments);
}

/// The attributes of a new endpoint, or none.
struct attributes {
    explicit attributes(const v1::DAT_EP_ATTR *one)
        : good(one == nullptr || is_possible(*one, v1::EP_FIELD_EP_ATTR_ALL)), given(one != nullptr)
    {
        if (good && given)
            copy_attributes(*one, two);
    }
    const DAT_EP_ATTR *pointer() const { return given ? &two : nullptr; }

    bool good;
    bool given;
    DAT_EP_ATTR two{};
};

/// Translates the fields in the mask: the others may never have been set.
void translate(const v1::DAT_EP_PARAM &one, DAT_UINT64 mask, DAT_EP_PARAM &two)
{
    if (has(mask, v1::EP_FIELD_PZ_HANDLE))
        two.pz_handle = two_of<DAT_HANDLE_TYPE_PZ>(one.pz_handle);
    if (has(mask, v1::EP_FIELD_RECV_EVD_HANDLE))
        two.recv_evd_handle = two_of<DAT_HANDLE_TYPE_EVD>(one.recv_evd_handle);
    if (has(mask, v1::EP_FIELD_REQUEST_EVD_HANDLE))
        two.request_evd_handle = two_of<DAT_HANDLE_TYPE_EVD>(one.request_evd_handle);
    if (has(mask, v1::EP_FIELD_CONNECT_EVD_HANDLE))
        two.connect_evd_handle = two_of<DAT_HANDLE_TYPE_EVD>(one.connect_evd_handle);
    if (has(mask, v1::EP_FIELD_SRQ_HANDLE))
        two.srq_handle = two_of<DAT_HANDLE_TYPE_SRQ>(one.srq_handle);
    if (has(mask, v1::EP_FIELD_EP_ATTR_ALL))
        copy_attributes(one.ep_attr, two.ep_attr);
}

void ep_to_one(const object &ep, const DAT_EP_PARAM &two, v1::DAT_EP_PARAM &one)
{
    one.ia_handle = handle_of(ep.ia);
    one.ep_state = state_to_one(two.ep_state);
    one.local_ia_address_ptr = two.local_ia_address_ptr;
    one.local_port_qual = two.local_port_qual;
    one.remote_ia_address_ptr = two.remote_ia_address_ptr;
    one.remote_port_qual = two.remote_port_qual;
    one.pz_handle = one_of(two.pz_handle);
    one.recv_evd_handle = one_of(two.recv_evd_handle);
    one.request_evd_handle = one_of(two.request_evd_handle);
    one.connect_evd_handle = one_of(two.connect_evd_handle);
    one.srq_handle = one_of(two.srq_handle);
    copy_attributes(two.ep_attr, one.ep_attr);
}

} // namespace
} // namespace dat12

DAT_RETURN dat12_ep_create(DAT_IA_HANDLE handle, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
                           DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
                           const v1::DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep)
{
    object *ia = dat12::object_of<DAT_HANDLE_TYPE_IA>(handle);
    if (ia == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_IA>;
    const dat12::attributes two(attr);
    if (!two.good)
        return dat12::bad_argument(6);
    return dat12::create<DAT_HANDLE_TYPE_EP>(*ia, ep, 7, [&](DAT_HANDLE *made, object &) {
        return dat12::call<&DAT_PROVIDER::ep_create_func>(
            *ia, dat12::two_of<DAT_HANDLE_TYPE_PZ>(pz),
            dat12::two_of<DAT_HANDLE_TYPE_EVD>(recv_evd),
            dat12::two_of<DAT_HANDLE_TYPE_EVD>(request_evd),
            dat12::two_of<DAT_HANDLE_TYPE_EVD>(connect_evd), two.pointer(), made);
    });
}

DAT_RETURN dat12_ep_create_with_srq(DAT_IA_HANDLE handle, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
                                    DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
                                    DAT_SRQ_HANDLE srq, const v1::DAT_EP_ATTR *attr,
                                    DAT_EP_HANDLE *ep)
{
    object *ia = dat12::object_of<DAT_HANDLE_TYPE_IA>(handle);
    if (ia == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_IA>;
    const dat12::attributes two(attr);
    if (!two.good)
        return dat12::bad_argument(7);
    return dat12::create<DAT_HANDLE_TYPE_EP>(*ia, ep, 8, [&](DAT_HANDLE *made, object &) {
        return dat12::call<&DAT_PROVIDER::ep_create_with_srq_func>(
            *ia, dat12::two_of<DAT_HANDLE_TYPE_PZ>(pz),
            dat12::two_of<DAT_HANDLE_TYPE_EVD>(recv_evd),
            dat12::two_of<DAT_HANDLE_TYPE_EVD>(request_evd),
            dat12::two_of<DAT_HANDLE_TYPE_EVD>(connect_evd),
            dat12::two_of<DAT_HANDLE_TYPE_SRQ>(srq), two.pointer(), made);
    });
}

DAT_RETURN dat12_ep_query(DAT_EP_HANDLE handle, DAT_UINT64 mask, v1::DAT_EP_PARAM *param)
{
    return dat12::query<DAT_HANDLE_TYPE_EP, &DAT_PROVIDER::ep_query_func, DAT_EP_PARAM>(
        handle, mask, v1::EP_FIELD_ALL, dat12::ep_mask(mask), param, dat12::ep_to_one);
}

DAT_RETURN dat12_ep_modify(DAT_EP_HANDLE handle, DAT_UINT64 mask, const v1::DAT_EP_PARAM *param)
{
    object *ep = dat12::object_of<DAT_HANDLE_TYPE_EP>(handle);
    if (ep == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_EP>;
    const DAT_RETURN status = dat12::check_query(mask, v1::EP_FIELD_ALL, param);
    if (status != DAT_SUCCESS)
        return status;
    if (!dat12::is_possible(param->ep_attr, mask))
        return dat12::bad_argument(3);
    DAT_EP_PARAM two{};
    dat12::translate(*param, mask, two);
    return dat12::call<&DAT_PROVIDER::ep_modify_func>(*ep, dat12::ep_mask(mask), &two);
}

DAT_RETURN dat12_ep_connect(DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR address, DAT_CONN_QUAL qualifier,
                            DAT_TIMEOUT timeout, DAT_COUNT size, const DAT_PVOID data, DAT_QOS qos,
                            v1::DAT_CONNECT_FLAGS flags)
{
    return dat12::forward<DAT_HANDLE_TYPE_EP, &DAT_PROVIDER::ep_connect_func>(
        ep, address, qualifier, timeout, size, data, qos, static_cast<DAT_CONNECT_FLAGS>(flags));
}

DAT_RETURN dat12_ep_dup_connect(DAT_EP_HANDLE ep, DAT_EP_HANDLE model, DAT_TIMEOUT timeout,
                                DAT_COUNT size, const DAT_PVOID data, DAT_QOS qos)
{
    return dat12::forward<DAT_HANDLE_TYPE_EP, &DAT_PROVIDER::ep_dup_connect_func>(
        ep, dat12::two_of<DAT_HANDLE_TYPE_EP>(model), timeout, size, data, qos);
}

DAT_RETURN dat12_ep_disconnect(DAT_EP_HANDLE ep, DAT_CLOSE_FLAGS flags)
{
    return dat12::forward<DAT_HANDLE_TYPE_EP, &DAT_PROVIDER::ep_disconnect_func>(ep, flags);
}

DAT_RETURN dat12_ep_get_status(DAT_EP_HANDLE handle, v1::DAT_EP_STATE *state,
                               DAT_BOOLEAN *recv_idle, DAT_BOOLEAN *request_idle)
{
    object *ep = dat12::object_of<DAT_HANDLE_TYPE_EP>(handle);
    if (ep == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_EP>;
    DAT_EP_STATE two = DAT_EP_STATE_UNCONNECTED;
    const DAT_RETURN status =
        dat12::call<&DAT_PROVIDER::ep_get_status_func>(*ep, &two, recv_idle, request_idle);
    if (status == DAT_SUCCESS && state != nullptr)
        *state = dat12::state_to_one(two);
    return status;
}

DAT_RETURN dat12_ep_free(DAT_EP_HANDLE ep)
{
    return dat12::release<DAT_HANDLE_TYPE_EP, &DAT_PROVIDER::ep_free_func>(ep);
}

DAT_RETURN dat12_ep_reset(DAT_EP_HANDLE ep)
{
    return dat12::forward<DAT_HANDLE_TYPE_EP, &DAT_PROVIDER::ep_reset_func>(ep);
}

DAT_RETURN dat12_ep_recv_query(DAT_EP_HANDLE ep, DAT_COUNT *allocated, DAT_COUNT *span)
{
    return dat12::forward<DAT_HANDLE_TYPE_EP, &DAT_PROVIDER::ep_recv_query_func>(ep, allocated,
                                                                                 span);
}

DAT_RETURN dat12_ep_set_watermark(DAT_EP_HANDLE ep, DAT_COUNT soft, DAT_COUNT hard)
{
    return dat12::forward<DAT_HANDLE_TYPE_EP, &DAT_PROVIDER::ep_set_watermark_func>(ep, soft, hard);
}
