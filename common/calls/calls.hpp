// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The calls behind the provider vector, one per DAT function.
#pragma once

#include "core/thread_safety.hpp"
#include "core/transport.hpp"
#include "osd_cancellation.hpp"

#include <cstdarg>

namespace dapl::DAPL_TRANSPORT::core {

/// The part of the provider vector that does not depend on thread safety; provider.cpp adds the
/// rest. Each call is documented where consumers look, in dat2/dat.h and dat2/udat.h.
DAT_RETURN dapl_ia_query(DAT_IA_HANDLE, DAT_EVD_HANDLE *, DAT_IA_ATTR_MASK, DAT_IA_ATTR *,
                         DAT_PROVIDER_ATTR_MASK, DAT_PROVIDER_ATTR *);
DAT_RETURN dapl_ia_close(DAT_IA_HANDLE, DAT_CLOSE_FLAGS);
DAT_RETURN dapl_set_consumer_context(DAT_HANDLE, DAT_CONTEXT);
DAT_RETURN dapl_get_consumer_context(DAT_HANDLE, DAT_CONTEXT *);
DAT_RETURN dapl_get_handle_type(DAT_HANDLE, DAT_HANDLE_TYPE *);

DAT_RETURN dapl_cno_create(DAT_IA_HANDLE, DAT_OS_WAIT_PROXY_AGENT, DAT_CNO_HANDLE *);
DAT_RETURN dapl_cno_fd_create(DAT_IA_HANDLE, DAT_FD *, DAT_CNO_HANDLE *);
DAT_RETURN dapl_cno_trigger(DAT_CNO_HANDLE, DAT_EVD_HANDLE *);
DAT_RETURN dapl_cno_modify_agent(DAT_CNO_HANDLE, DAT_OS_WAIT_PROXY_AGENT);
DAT_RETURN dapl_cno_query(DAT_CNO_HANDLE, DAT_CNO_PARAM_MASK, DAT_CNO_PARAM *);
DAT_RETURN dapl_cno_free(DAT_CNO_HANDLE);
DAT_RETURN dapl_cno_wait(DAT_CNO_HANDLE, DAT_TIMEOUT, DAT_EVD_HANDLE *);

DAT_RETURN dapl_cr_query(DAT_CR_HANDLE, DAT_CR_PARAM_MASK, DAT_CR_PARAM *);
DAT_RETURN dapl_cr_accept(DAT_CR_HANDLE, DAT_EP_HANDLE, DAT_COUNT, const DAT_PVOID);
DAT_RETURN dapl_cr_reject(DAT_CR_HANDLE, DAT_COUNT, const DAT_PVOID);
DAT_RETURN dapl_cr_handoff(DAT_CR_HANDLE, DAT_CONN_QUAL);

DAT_RETURN dapl_evd_create(DAT_IA_HANDLE, DAT_COUNT, DAT_CNO_HANDLE, DAT_EVD_FLAGS,
                           DAT_EVD_HANDLE *);
DAT_RETURN dapl_evd_query(DAT_EVD_HANDLE, DAT_EVD_PARAM_MASK, DAT_EVD_PARAM *);
DAT_RETURN dapl_evd_modify_cno(DAT_EVD_HANDLE, DAT_CNO_HANDLE);
DAT_RETURN dapl_evd_enable(DAT_EVD_HANDLE);
DAT_RETURN dapl_evd_disable(DAT_EVD_HANDLE);
DAT_RETURN dapl_evd_set_unwaitable(DAT_EVD_HANDLE);
DAT_RETURN dapl_evd_clear_unwaitable(DAT_EVD_HANDLE);
DAT_RETURN dapl_evd_wait(DAT_EVD_HANDLE, DAT_TIMEOUT, DAT_COUNT, DAT_EVENT *, DAT_COUNT *);
DAT_RETURN dapl_evd_post_se(DAT_EVD_HANDLE, const DAT_EVENT *);
DAT_RETURN dapl_evd_free(DAT_EVD_HANDLE);
DAT_RETURN dapl_evd_resize(DAT_EVD_HANDLE, DAT_COUNT);
template <class Safety>
DAT_RETURN dapl_evd_dequeue(DAT_EVD_HANDLE, DAT_EVENT *);

DAT_RETURN dapl_ep_create(DAT_IA_HANDLE, DAT_PZ_HANDLE, DAT_EVD_HANDLE, DAT_EVD_HANDLE,
                          DAT_EVD_HANDLE, const DAT_EP_ATTR *, DAT_EP_HANDLE *);
DAT_RETURN dapl_ep_create_with_srq(DAT_IA_HANDLE, DAT_PZ_HANDLE, DAT_EVD_HANDLE, DAT_EVD_HANDLE,
                                   DAT_EVD_HANDLE, DAT_SRQ_HANDLE, const DAT_EP_ATTR *,
                                   DAT_EP_HANDLE *);
DAT_RETURN dapl_ep_query(DAT_EP_HANDLE, DAT_EP_PARAM_MASK, DAT_EP_PARAM *);
DAT_RETURN dapl_ep_modify(DAT_EP_HANDLE, DAT_EP_PARAM_MASK, const DAT_EP_PARAM *);
DAT_RETURN dapl_ep_connect(DAT_EP_HANDLE, DAT_IA_ADDRESS_PTR, DAT_CONN_QUAL, DAT_TIMEOUT, DAT_COUNT,
                           const DAT_PVOID, DAT_QOS, DAT_CONNECT_FLAGS);
DAT_RETURN dapl_ep_dup_connect(DAT_EP_HANDLE, DAT_EP_HANDLE, DAT_TIMEOUT, DAT_COUNT,
                               const DAT_PVOID, DAT_QOS);
DAT_RETURN dapl_ep_common_connect(DAT_EP_HANDLE, DAT_IA_ADDRESS_PTR, DAT_TIMEOUT, DAT_COUNT,
                                  const DAT_PVOID);
DAT_RETURN dapl_ep_disconnect(DAT_EP_HANDLE, DAT_CLOSE_FLAGS);
DAT_RETURN dapl_ep_get_status(DAT_EP_HANDLE, DAT_EP_STATE *, DAT_BOOLEAN *, DAT_BOOLEAN *);
DAT_RETURN dapl_ep_reset(DAT_EP_HANDLE);
DAT_RETURN dapl_ep_free(DAT_EP_HANDLE);
template <class Safety>
DAT_RETURN dapl_ep_post_send(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, DAT_DTO_COOKIE,
                             DAT_COMPLETION_FLAGS);
template <class Safety>
DAT_RETURN dapl_ep_post_recv(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, DAT_DTO_COOKIE,
                             DAT_COMPLETION_FLAGS);
template <class Safety>
DAT_RETURN dapl_ep_post_rdma_read(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, DAT_DTO_COOKIE,
                                  const DAT_RMR_TRIPLET *, DAT_COMPLETION_FLAGS);
template <class Safety>
DAT_RETURN dapl_ep_post_rdma_write(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, DAT_DTO_COOKIE,
                                   const DAT_RMR_TRIPLET *, DAT_COMPLETION_FLAGS);

DAT_RETURN dapl_lmr_create(DAT_IA_HANDLE, DAT_MEM_TYPE, DAT_REGION_DESCRIPTION, DAT_VLEN,
                           DAT_PZ_HANDLE, DAT_MEM_PRIV_FLAGS, DAT_VA_TYPE, DAT_LMR_HANDLE *,
                           DAT_LMR_CONTEXT *, DAT_RMR_CONTEXT *, DAT_VLEN *, DAT_VADDR *);
DAT_RETURN dapl_lmr_query(DAT_LMR_HANDLE, DAT_LMR_PARAM_MASK, DAT_LMR_PARAM *);
DAT_RETURN dapl_lmr_free(DAT_LMR_HANDLE);
DAT_RETURN dapl_lmr_sync_rdma_read(DAT_IA_HANDLE, const DAT_LMR_TRIPLET *, DAT_VLEN);
DAT_RETURN dapl_lmr_sync_rdma_write(DAT_IA_HANDLE, const DAT_LMR_TRIPLET *, DAT_VLEN);

DAT_RETURN dapl_rmr_create(DAT_PZ_HANDLE, DAT_RMR_HANDLE *);
DAT_RETURN dapl_rmr_query(DAT_RMR_HANDLE, DAT_RMR_PARAM_MASK, DAT_RMR_PARAM *);
DAT_RETURN dapl_rmr_bind(DAT_RMR_HANDLE, DAT_LMR_HANDLE, const DAT_LMR_TRIPLET *,
                         DAT_MEM_PRIV_FLAGS, DAT_VA_TYPE, DAT_EP_HANDLE, DAT_RMR_COOKIE,
                         DAT_COMPLETION_FLAGS, DAT_RMR_CONTEXT *);
DAT_RETURN dapl_rmr_free(DAT_RMR_HANDLE);

DAT_RETURN dapl_psp_create(DAT_IA_HANDLE, DAT_CONN_QUAL, DAT_EVD_HANDLE, DAT_PSP_FLAGS,
                           DAT_PSP_HANDLE *);
DAT_RETURN dapl_psp_create_any(DAT_IA_HANDLE, DAT_CONN_QUAL *, DAT_EVD_HANDLE, DAT_PSP_FLAGS,
                               DAT_PSP_HANDLE *);
DAT_RETURN dapl_psp_query(DAT_PSP_HANDLE, DAT_PSP_PARAM_MASK, DAT_PSP_PARAM *);
DAT_RETURN dapl_psp_free(DAT_PSP_HANDLE);
DAT_RETURN dapl_rsp_create(DAT_IA_HANDLE, DAT_CONN_QUAL, DAT_EP_HANDLE, DAT_EVD_HANDLE,
                           DAT_RSP_HANDLE *);
DAT_RETURN dapl_rsp_query(DAT_RSP_HANDLE, DAT_RSP_PARAM_MASK, DAT_RSP_PARAM *);
DAT_RETURN dapl_rsp_free(DAT_RSP_HANDLE);
DAT_RETURN dapl_csp_create(DAT_IA_HANDLE, DAT_COMM *, DAT_IA_ADDRESS_PTR, DAT_EVD_HANDLE,
                           DAT_CSP_HANDLE *);
DAT_RETURN dapl_csp_query(DAT_CSP_HANDLE, DAT_CSP_PARAM_MASK, DAT_CSP_PARAM *);
DAT_RETURN dapl_csp_free(DAT_CSP_HANDLE);

DAT_RETURN dapl_srq_create(DAT_IA_HANDLE, DAT_PZ_HANDLE, DAT_SRQ_ATTR *, DAT_SRQ_HANDLE *);
DAT_RETURN dapl_srq_query(DAT_SRQ_HANDLE, DAT_SRQ_PARAM_MASK, DAT_SRQ_PARAM *);
DAT_RETURN dapl_srq_resize(DAT_SRQ_HANDLE, DAT_COUNT);
DAT_RETURN dapl_srq_set_lw(DAT_SRQ_HANDLE, DAT_COUNT);
DAT_RETURN dapl_srq_free(DAT_SRQ_HANDLE);
template <class Safety>
DAT_RETURN dapl_srq_post_recv(DAT_SRQ_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, DAT_DTO_COOKIE);

DAT_RETURN dapl_pz_create(DAT_IA_HANDLE, DAT_PZ_HANDLE *);
DAT_RETURN dapl_pz_query(DAT_PZ_HANDLE, DAT_PZ_PARAM_MASK, DAT_PZ_PARAM *);
DAT_RETURN dapl_pz_free(DAT_PZ_HANDLE);

template <class Safety>
DAT_RETURN dapl_extension_op(DAT_HANDLE, DAT_EXTENDED_OP, va_list);

/// A call during which its thread cannot be cancelled. All calls are made so but the waits, which
/// can be cancelled while they sleep, and operations of the data path that have no cancellation
/// point in them.
template <auto call>
struct uncancelled_call;
template <class... Arguments, DAT_RETURN (*call)(Arguments...)>
struct uncancelled_call<call> {
    static DAT_RETURN made(Arguments... arguments)
    {
        const osd::cancellation_hold held;
        return call(arguments...);
    }
};
template <auto call>
inline constexpr auto uncancelled = uncancelled_call<call>::made;
template <auto call>
inline constexpr auto on_data_path =
    transport::has_cancellation_points ? uncancelled_call<call>::made : call;

} // namespace dapl::DAPL_TRANSPORT::core
