// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The dat_ia_* calls but dat_ia_open: their arguments are checked here, their work is done in
// core/adapter_life.cpp.
#include "checks.hpp"
#include "core/adapter_life.hpp"
#include "core/async_events.hpp"
#include "counting.hpp"
#include "dat_calls.hpp"
#include "osd_sharing.hpp"

#include <cstdio>
#include <cstring>

namespace dapl::DAPL_TRANSPORT::core {

namespace {

void fill(const adapter &ia, DAT_IA_ATTR &out)
{
    const hca_attr &attr = ia.attr;
    out = {};
    std::snprintf(out.adapter_name, sizeof out.adapter_name, "%s", attr.hca_name);
    std::snprintf(out.vendor_name, sizeof out.vendor_name, "%s", attr.vendor_name);
    out.hardware_version_major = attr.hardware_version_major;
    out.hardware_version_minor = attr.hardware_version_minor;
    out.firmware_version_major = attr.firmware_version_major;
    out.firmware_version_minor = attr.firmware_version_minor;
    out.ia_address_ptr = const_cast<DAT_SOCK_ADDR *>(attr.address);
    out.max_eps = attr.max_eps;
    out.max_dto_per_ep = attr.max_dto_per_ep;
    out.max_rdma_read_per_ep_in = attr.max_rdma_read_per_ep_in;
    out.max_rdma_read_per_ep_out = attr.max_rdma_read_per_ep_out;
    out.max_evds = attr.max_cqs;
    out.max_evd_qlen = attr.max_cq_depth;
    out.max_iov_segments_per_dto = attr.max_iov_per_dto;
    out.max_lmrs = attr.max_mrs;
    out.max_lmr_block_size = // 32 bits in DAT
        static_cast<DAT_SEG_LENGTH>(attr.max_mr_size < 0xffffffff ? attr.max_mr_size : 0xffffffff);
    out.max_lmr_virtual_address = ~DAT_VADDR{0};
    out.max_pzs = attr.max_pds;
    out.max_message_size = attr.max_message_size;
    out.max_rdma_size = attr.max_rdma_size;
    out.max_rmrs = attr.max_mws;
    out.max_rmr_target_address = ~DAT_VADDR{0};
    out.max_srqs = attr.max_srqs;
    out.max_ep_per_srq = attr.max_srqs == 0 ? 0 : attr.max_eps;
    out.max_recv_per_srq = attr.max_recv_per_srq;
    out.max_iov_segments_per_rdma_read = attr.max_iov_per_rdma_read;
    out.max_iov_segments_per_rdma_write = attr.max_iov_per_rdma_write;
    out.max_rdma_read_in = attr.max_rdma_read_per_ep_in;
    out.max_rdma_read_out = attr.max_rdma_read_per_ep_out;
    out.max_rdma_read_per_ep_in_guaranteed = DAT_TRUE;
    out.max_rdma_read_per_ep_out_guaranteed = DAT_TRUE;
    const bool extended = attr.has_extension() || counting();
    out.extension_supported = extended ? DAT_EXTENSION_IB : DAT_EXTENSION_NONE;
    out.extension_version = extended ? DAT_IB_EXTENSION_VERSION : 0;
}

/// Every port can send solicited. An endpoint with DAT_COMPLETION_SOLICITED_WAIT_FLAG for receives
/// needs a port that can wait for such messages only.
constexpr int all_completion_flags =
    DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_SOLICITED_WAIT_FLAG |
    DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG |
    DAT_COMPLETION_EVD_THRESHOLD_FLAG | DAT_COMPLETION_LMR_INVALIDATE_FENCE_FLAG;

/// Rows and columns: software, connection request, DTO, connection, RMR bind, async.
constexpr DAT_BOOLEAN stream_merging[6][6] = {
    {DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_FALSE},
    {DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_FALSE},
    {DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_FALSE},
    {DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_FALSE},
    {DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_FALSE},
    {DAT_FALSE, DAT_FALSE, DAT_FALSE, DAT_FALSE, DAT_FALSE, DAT_TRUE},
};

void fill(const adapter &ia, DAT_PROVIDER_ATTR &out)
{
    const DAT_PROVIDER_INFO &info = ia.line.info;
    const hca_attr &attr = ia.attr;
    // The matrix is const in the structure, so the structure cannot be assigned.
    std::memset(static_cast<void *>(&out), 0, sizeof out);
    std::memcpy(const_cast<DAT_BOOLEAN(*)[6]>(out.evd_stream_merging_supported), stream_merging,
                sizeof stream_merging);
    std::snprintf(out.provider_name, sizeof out.provider_name, "%s", info.ia_name);
    out.provider_version_major = DAPLS_IB_VERSION;
    out.dapl_version_major = info.dapl_version_major;
    out.dapl_version_minor = info.dapl_version_minor;
    out.lmr_mem_types_supported =
        static_cast<DAT_MEM_TYPE>(DAT_MEM_TYPE_VIRTUAL | DAT_MEM_TYPE_LMR |
                                  (osd::can_share() ? DAT_MEM_TYPE_SHARED_VIRTUAL : 0));
    out.iov_ownership_on_return = DAT_IOV_CONSUMER;
    out.dat_qos_supported = attr.qos;
    out.completion_flags_supported = static_cast<DAT_COMPLETION_FLAGS>(
        attr.solicited_wait ? all_completion_flags
                            : all_completion_flags & ~DAT_COMPLETION_SOLICITED_WAIT_FLAG);
    out.is_thread_safe = info.is_thread_safe;
    out.max_private_data_size = attr.max_private_data_size;
    out.ep_creator = DAT_PSP_CREATES_EP_IFASKED;
    out.pz_support = DAT_PZ_UNIQUE;
    out.optimal_buffer_alignment = DAT_OPTIMAL_ALIGNMENT;
    out.dto_async_return_guaranteed = DAT_TRUE;
    const bool srqs = claims.srq && attr.max_srqs != 0;
    out.srq_supported = srqs ? DAT_TRUE : DAT_FALSE;
    out.srq_watermarks_supported = !srqs ? 0 : claims.ep_watermarks ? 3 : 1;
    out.srq_info_supported = srqs ? 1 : 0;
    out.ep_recv_info_supported = srqs && !claims.ep_watermarks ? 0 : 2;
    out.rmr_scope_supported = attr.ep_windows ? DAT_RMR_SCOPE_ANY : DAT_RMR_SCOPE_PZ;
    out.ha_loadbalancing = DAT_HA_LB_NONE;
    out.num_provider_specific_attr = attr.num_named_attrs;
    out.provider_specific_attr = const_cast<DAT_NAMED_ATTR *>(attr.named_attrs);
}

} // namespace

/// Answers no: as ha_supported says, no adapter stands in for another.
status dapl_ia_ha_related(adapter &, const DAT_NAME_PTR other, DAT_BOOLEAN *answer)
{
    if (other == nullptr)
        return invalid_parameter(2);
    if (answer == nullptr)
        return invalid_parameter(3);
    *answer = DAT_FALSE;
    return success;
}

status dapl_ia_query(adapter &ia, DAT_EVD_HANDLE *async_evd, DAT_IA_ATTR_MASK ia_mask,
                     DAT_IA_ATTR *ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,
                     DAT_PROVIDER_ATTR *provider_attr)
{
    if (has_unknown_bits(ia_mask, DAT_IA_FIELD_ALL))
        return invalid_parameter(3);
    if (ia_mask != 0 && ia_attr == nullptr)
        return invalid_parameter(4);
    if (has_unknown_bits(provider_mask, DAT_PROVIDER_FIELD_ALL))
        return invalid_parameter(5);
    if (provider_mask != 0 && provider_attr == nullptr)
        return invalid_parameter(6);
    if (async_evd != nullptr) {
        evd *events = async_evd_of(ia);
        *async_evd = events == nullptr ? DAT_HANDLE_NULL : to_handle(events);
    }
    if (ia_attr != nullptr)
        fill(ia, *ia_attr);
    if (provider_attr != nullptr)
        fill(ia, *provider_attr);
    return success;
}

} // namespace dapl::DAPL_TRANSPORT::core
