// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Other values for arguments and results of DAT calls. An adapter's attributes and the like have
// some of their fields changed, so that comparisons fail.
#pragma once

#include <dat2/dat_registry.h>

#include <type_traits>

namespace dapl::DAPL_TRANSPORT::faults {

/// Leaves a type that has no other value as it is.
template <class T>
void spoil(T &)
{}
inline void spoil(DAT_COUNT &count)
{
    if (count > 0)
        --count;
}
inline void spoil(bool &answer)
{
    answer = !answer;
}
/// Gives all numbers one value, so that numbers that have to differ do not.
inline void spoil(DAT_UINT32 &number)
{
    number = number == 1 ? 2 : 1;
}
inline void spoil(DAT_CONN_QUAL &qualifier)
{
    ++qualifier;
}
/// The success is not told, although it is waited for; or the other way round.
inline void spoil(DAT_COMPLETION_FLAGS &flags)
{
    flags = static_cast<DAT_COMPLETION_FLAGS>(flags ^ DAT_COMPLETION_SUPPRESS_FLAG);
}
inline void spoil(DAT_CLOSE_FLAGS &how)
{
    how = how == DAT_CLOSE_ABRUPT_FLAG ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG;
}
inline void spoil(DAT_RMR_TRIPLET &remote)
{
    remote.virtual_address += 8;
}
/// Nothing for something, and something for nothing; not what an object could be behind.
inline void spoil(DAT_HANDLE &handle)
{
    handle = handle == nullptr ? reinterpret_cast<DAT_HANDLE>(8) : nullptr;
}
inline void spoil(DAT_CONTEXT &context)
{
    context.as_64 ^= 1;
}
inline void spoil(DAT_BOOLEAN &answer)
{
    answer = answer == DAT_FALSE ? DAT_TRUE : DAT_FALSE;
}
inline void spoil(DAT_EP_STATE &state)
{
    state = state == DAT_EP_STATE_CONNECTED ? DAT_EP_STATE_UNCONNECTED : DAT_EP_STATE_CONNECTED;
}
inline void spoil(DAT_HA_RELATIONSHIP &answer)
{
    answer = static_cast<DAT_HA_RELATIONSHIP>(answer ^ 1);
}
inline void spoil(DAT_HANDLE_TYPE &type)
{
    type = type == DAT_HANDLE_TYPE_IA ? DAT_HANDLE_TYPE_EP : DAT_HANDLE_TYPE_IA;
}
inline void spoil(DAT_EVD_FLAGS &streams)
{
    streams = static_cast<DAT_EVD_FLAGS>(streams ^ DAT_EVD_SOFTWARE_FLAG);
}
inline void spoil(DAT_EVD_STATE &state)
{
    state = static_cast<DAT_EVD_STATE>(state ^ (DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_DISABLED |
                                                DAT_EVD_STATE_WAITABLE | DAT_EVD_STATE_UNWAITABLE));
}
inline void spoil(DAT_MEM_PRIV_FLAGS &rights)
{
    rights = rights == DAT_MEM_PRIV_ALL_FLAG ? DAT_MEM_PRIV_NONE_FLAG : DAT_MEM_PRIV_ALL_FLAG;
}
inline void spoil(DAT_MEM_TYPE &type)
{
    type = type == DAT_MEM_TYPE_VIRTUAL ? DAT_MEM_TYPE_LMR : DAT_MEM_TYPE_VIRTUAL;
}
inline void spoil(const char *&text)
{
    text = "another";
}

template <class... Values>
void spoil_all(Values &...values)
{
    (spoil(values), ...);
}

/// Neither true nor false.
template <class... Answers>
void spoil_answers(Answers &...answers)
{
    ((answers = static_cast<DAT_BOOLEAN>(2)), ...);
}

inline void spoil(DAT_IA_ATTR &attr)
{
    spoil_all(attr.max_eps, attr.max_evds, attr.max_evd_qlen, attr.max_iov_segments_per_dto,
              attr.max_lmrs, attr.max_pzs, attr.max_rmrs, attr.num_transport_attr,
              attr.num_vendor_attr);
    spoil_answers(attr.max_rdma_read_per_ep_in_guaranteed, attr.max_rdma_read_per_ep_out_guaranteed,
                  attr.zb_supported);
    attr.adapter_name[0] ^= 1;
    attr.ia_address_ptr = nullptr;
    attr.extension_supported = DAT_EXTENSION_NONE;
}
inline void spoil(DAT_PROVIDER_ATTR &attr)
{
    spoil_all(attr.provider_version_major, attr.dapl_version_major, attr.max_private_data_size,
              attr.lmr_mem_types_supported, attr.completion_flags_supported);
    spoil_answers(attr.is_thread_safe, attr.srq_ep_pz_difference_supported, attr.lmr_sync_req);
    attr.provider_name[0] ^= 1;
    attr.srq_supported = DAT_FALSE;
    attr.ep_creator = static_cast<DAT_EP_CREATOR_FOR_PSP>(attr.ep_creator ^ 1);
}
inline void spoil(DAT_EVD_PARAM &param)
{
    spoil_all(param.ia_handle, param.evd_qlen, param.evd_state, param.cno_handle, param.evd_flags);
}
inline void spoil(DAT_EP_PARAM &param)
{
    spoil_all(param.ia_handle, param.ep_state, param.remote_port_qual, param.pz_handle,
              param.recv_evd_handle, param.request_evd_handle, param.connect_evd_handle,
              param.srq_handle, param.ep_attr.max_recv_dtos, param.ep_attr.max_request_dtos,
              param.ep_attr.max_recv_iov, param.ep_attr.max_request_iov,
              param.ep_attr.max_rdma_read_in, param.ep_attr.max_rdma_read_out);
    param.remote_ia_address_ptr = nullptr;
}
inline void spoil(DAT_CNO_PARAM &param)
{
    spoil_all(param.ia_handle, param.proxy.agent.instance_data);
    param.proxy_type = static_cast<DAT_PROXY_TYPE>(param.proxy_type + 1);
}
inline void spoil(DAT_CR_PARAM &param)
{
    spoil_all(param.private_data_size, param.local_ep_handle, param.remote_port_qual);
}
inline void spoil(DAT_LMR_PARAM &param)
{
    spoil_all(param.ia_handle, param.mem_type, param.length, param.pz_handle, param.mem_priv,
              param.lmr_context, param.rmr_context, param.registered_size,
              param.registered_address);
}
inline void spoil(DAT_RMR_PARAM &param)
{
    spoil_all(param.ia_handle, param.pz_handle, param.lmr_triplet.virtual_address, param.mem_priv,
              param.rmr_context);
}
inline void spoil(DAT_PZ_PARAM &param)
{
    spoil(param.ia_handle);
}
inline void spoil(DAT_PSP_PARAM &param)
{
    spoil_all(param.ia_handle, param.conn_qual, param.evd_handle);
}
inline void spoil(DAT_RSP_PARAM &param)
{
    spoil_all(param.ia_handle, param.conn_qual, param.evd_handle, param.ep_handle);
}
inline void spoil(DAT_CSP_PARAM &param)
{
    spoil_all(param.ia_handle, param.evd_handle);
    param.address_ptr = nullptr;
}
inline void spoil(DAT_SRQ_PARAM &param)
{
    spoil_all(param.ia_handle, param.pz_handle, param.max_recv_dtos, param.max_recv_iov,
              param.low_watermark, param.available_dto_count, param.outstanding_dto_count);
}
inline void spoil(DAT_EP_ATTR &attr)
{
    spoil_all(attr.max_recv_dtos, attr.max_request_dtos);
}
inline void spoil(DAT_SRQ_ATTR &attr)
{
    spoil(attr.max_recv_dtos);
}
inline void spoil(DAT_PROVIDER_INFO &info)
{
    spoil_all(info.dapl_version_minor, info.is_thread_safe);
    info.ia_name[0] ^= 1;
}

inline void spoil(DAT_PROVIDER_INFO *&at)
{
    if (at != nullptr)
        spoil(*at);
}

/// A structure that is only read: another one.
template <class T>
void spoil(const T *&at)
{
    if constexpr (std::is_copy_assignable_v<T>) {
        static thread_local T other;
        if (at == nullptr)
            return;
        other = *at;
        spoil(other);
        at = &other;
    }
}

} // namespace dapl::DAPL_TRANSPORT::faults
