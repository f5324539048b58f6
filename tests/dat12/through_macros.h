/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every call that has a redirection macro goes through it: as programs that were built for speed. */
#ifndef DAT12_THROUGH_MACROS_H
#define DAT12_THROUGH_MACROS_H

#include <dat/udat.h>
#include <dat/udat_redirection.h>

#define dat_ia_query DAT_IA_QUERY
#define dat_set_consumer_context DAT_SET_CONSUMER_CONTEXT
#define dat_get_consumer_context DAT_GET_CONSUMER_CONTEXT
#define dat_get_handle_type DAT_GET_HANDLE_TYPE
#define dat_cno_create DAT_CNO_CREATE
#define dat_cno_modify_agent DAT_CNO_MODIFY_AGENT
#define dat_cno_query DAT_CNO_QUERY
#define dat_cno_free DAT_CNO_FREE
#define dat_cno_wait DAT_CNO_WAIT
#define dat_cr_query DAT_CR_QUERY
#define dat_cr_accept DAT_CR_ACCEPT
#define dat_cr_reject DAT_CR_REJECT
#define dat_cr_handoff DAT_CR_HANDOFF
#define dat_evd_create DAT_EVD_CREATE
#define dat_evd_query DAT_EVD_QUERY
#define dat_evd_modify_cno DAT_EVD_MODIFY_CNO
#define dat_evd_enable DAT_EVD_ENABLE
#define dat_evd_disable DAT_EVD_DISABLE
#define dat_evd_wait DAT_EVD_WAIT
#define dat_evd_resize DAT_EVD_RESIZE
#define dat_evd_post_se DAT_EVD_POST_SE
#define dat_evd_dequeue DAT_EVD_DEQUEUE
#define dat_evd_free DAT_EVD_FREE
#define dat_evd_set_unwaitable DAT_EVD_SET_UNWAITABLE
#define dat_evd_clear_unwaitable DAT_EVD_CLEAR_UNWAITABLE
#define dat_ep_create DAT_EP_CREATE
#define dat_ep_create_with_srq DAT_EP_CREATE_WITH_SRQ
#define dat_ep_query DAT_EP_QUERY
#define dat_ep_modify DAT_EP_MODIFY
#define dat_ep_connect DAT_EP_CONNECT
#define dat_ep_dup_connect DAT_EP_DUP_CONNECT
#define dat_ep_disconnect DAT_EP_DISCONNECT
#define dat_ep_post_send DAT_EP_POST_SEND
#define dat_ep_post_recv DAT_EP_POST_RECV
#define dat_ep_post_rdma_read DAT_EP_POST_RDMA_READ
#define dat_ep_post_rdma_write DAT_EP_POST_RDMA_WRITE
#define dat_ep_get_status DAT_EP_GET_STATUS
#define dat_ep_free DAT_EP_FREE
#define dat_ep_reset DAT_EP_RESET
#define dat_ep_recv_query DAT_EP_RECV_QUERY
#define dat_ep_set_watermark DAT_EP_SET_WATERMARK
#define dat_lmr_create DAT_LMR_CREATE
#define dat_lmr_query DAT_LMR_QUERY
#define dat_lmr_free DAT_LMR_FREE
#define dat_lmr_sync_rdma_read DAT_LMR_SYNC_RDMA_READ
#define dat_lmr_sync_rdma_write DAT_LMR_SYNC_RDMA_WRITE
#define dat_rmr_create DAT_RMR_CREATE
#define dat_rmr_query DAT_RMR_QUERY
#define dat_rmr_bind DAT_RMR_BIND
#define dat_rmr_free DAT_RMR_FREE
#define dat_psp_create DAT_PSP_CREATE
#define dat_psp_create_any DAT_PSP_CREATE_ANY
#define dat_psp_query DAT_PSP_QUERY
#define dat_psp_free DAT_PSP_FREE
#define dat_rsp_create DAT_RSP_CREATE
#define dat_rsp_query DAT_RSP_QUERY
#define dat_rsp_free DAT_RSP_FREE
#define dat_pz_create DAT_PZ_CREATE
#define dat_pz_query DAT_PZ_QUERY
#define dat_pz_free DAT_PZ_FREE
#define dat_srq_create DAT_SRQ_CREATE
#define dat_srq_free DAT_SRQ_FREE
#define dat_srq_post_recv DAT_SRQ_POST_RECV
#define dat_srq_query DAT_SRQ_QUERY
#define dat_srq_resize DAT_SRQ_RESIZE
#define dat_srq_set_lw DAT_SRQ_SET_LW

#endif /* DAT12_THROUGH_MACROS_H */
