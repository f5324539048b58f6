/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/**
 * @file dat_event_names.h
 * Names of events and of completion statuses, for messages: what dat_strerror()
 * is for return codes. Included by consumers that want it, after udat.h or
 * alone. It is no part of DAT: other kits do not have it, and copies of it work
 * with any of them.
 */
#ifndef _DAT_EVENT_NAMES_H_
#define _DAT_EVENT_NAMES_H_

#include <dat2/udat.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Names the kind of an event, those of dat_ib_extensions.h too.
 *
 * @param[in] event_number event_number of a DAT_EVENT
 *
 * @return the identifier as text, never NULL and never to be freed
 *
 * Threads: safe. Rule: no part of DAT.
 */
static __inline__ const char *dat_event_name(DAT_EVENT_NUMBER event_number)
{
    switch ((DAT_UINT32)event_number) {
    case DAT_DTO_COMPLETION_EVENT: return "DAT_DTO_COMPLETION_EVENT";
    case DAT_RMR_BIND_COMPLETION_EVENT: return "DAT_RMR_BIND_COMPLETION_EVENT";
    case DAT_CONNECTION_REQUEST_EVENT: return "DAT_CONNECTION_REQUEST_EVENT";
    case DAT_CONNECTION_EVENT_ESTABLISHED: return "DAT_CONNECTION_EVENT_ESTABLISHED";
    case DAT_CONNECTION_EVENT_PEER_REJECTED: return "DAT_CONNECTION_EVENT_PEER_REJECTED";
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED: return "DAT_CONNECTION_EVENT_NON_PEER_REJECTED";
    case DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR: return "DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR";
    case DAT_CONNECTION_EVENT_DISCONNECTED: return "DAT_CONNECTION_EVENT_DISCONNECTED";
    case DAT_CONNECTION_EVENT_BROKEN: return "DAT_CONNECTION_EVENT_BROKEN";
    case DAT_CONNECTION_EVENT_TIMED_OUT: return "DAT_CONNECTION_EVENT_TIMED_OUT";
    case DAT_CONNECTION_EVENT_UNREACHABLE: return "DAT_CONNECTION_EVENT_UNREACHABLE";
    case DAT_ASYNC_ERROR_EVD_OVERFLOW: return "DAT_ASYNC_ERROR_EVD_OVERFLOW";
    case DAT_ASYNC_ERROR_IA_CATASTROPHIC: return "DAT_ASYNC_ERROR_IA_CATASTROPHIC";
    case DAT_ASYNC_ERROR_EP_BROKEN: return "DAT_ASYNC_ERROR_EP_BROKEN";
    case DAT_ASYNC_ERROR_TIMED_OUT: return "DAT_ASYNC_ERROR_TIMED_OUT";
    case DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR: return "DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR";
    case DAT_HA_DOWN_TO_1: return "DAT_HA_DOWN_TO_1";
    case DAT_HA_UP_TO_MULTI_PATH: return "DAT_HA_UP_TO_MULTI_PATH";
    case DAT_SOFTWARE_EVENT: return "DAT_SOFTWARE_EVENT";
    case DAT_EXTENSION_EVENT: return "DAT_EXTENSION_EVENT";
    /* DAT_IB_EVENT_NUMBER */
    case DAT_IB_EXTENSION_RANGE_BASE: return "DAT_IB_DTO_EVENT";
    case DAT_IB_EXTENSION_RANGE_BASE + 1: return "DAT_IB_UD_CONNECTION_REQUEST_EVENT";
    case DAT_IB_EXTENSION_RANGE_BASE + 2: return "DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED";
    case DAT_IB_EXTENSION_RANGE_BASE + 3: return "DAT_IB_UD_CONNECTION_REJECT_EVENT";
    case DAT_IB_EXTENSION_RANGE_BASE + 4: return "DAT_IB_UD_CONNECTION_ERROR_EVENT";
    case DAT_IB_EXTENSION_RANGE_BASE + 5: return "DAT_IB_COLLECTIVE_EVENT";
    default: return "unknown event";
    }
}

/**
 * Names the status of a completion, that of a bind too.
 *
 * @param[in] status member of DAT_DTO_COMPLETION_EVENT_DATA or
 *                   DAT_RMR_BIND_COMPLETION_EVENT_DATA
 *
 * @return the identifier as text, never NULL and never to be freed
 *
 * Threads: safe. Rule: no part of DAT.
 */
static __inline__ const char *dat_dto_status_name(DAT_DTO_COMPLETION_STATUS status)
{
    switch ((DAT_UINT32)status) {
    case DAT_DTO_SUCCESS: return "DAT_DTO_SUCCESS";
    case DAT_DTO_ERR_FLUSHED: return "DAT_DTO_ERR_FLUSHED";
    case DAT_DTO_ERR_LOCAL_LENGTH: return "DAT_DTO_ERR_LOCAL_LENGTH";
    case DAT_DTO_ERR_LOCAL_EP: return "DAT_DTO_ERR_LOCAL_EP";
    case DAT_DTO_ERR_LOCAL_PROTECTION: return "DAT_DTO_ERR_LOCAL_PROTECTION";
    case DAT_DTO_ERR_BAD_RESPONSE: return "DAT_DTO_ERR_BAD_RESPONSE";
    case DAT_DTO_ERR_REMOTE_ACCESS: return "DAT_DTO_ERR_REMOTE_ACCESS";
    case DAT_DTO_ERR_REMOTE_RESPONDER: return "DAT_DTO_ERR_REMOTE_RESPONDER";
    case DAT_DTO_ERR_TRANSPORT: return "DAT_DTO_ERR_TRANSPORT";
    case DAT_DTO_ERR_RECEIVER_NOT_READY: return "DAT_DTO_ERR_RECEIVER_NOT_READY";
    case DAT_DTO_ERR_PARTIAL_PACKET: return "DAT_DTO_ERR_PARTIAL_PACKET";
    case DAT_RMR_OPERATION_FAILED: return "DAT_RMR_OPERATION_FAILED";
    case DAT_DTO_ERR_LOCAL_MM_ERROR: return "DAT_DTO_ERR_LOCAL_MM_ERROR";
    default: return "unknown completion status";
    }
}

#ifdef __cplusplus
}
#endif

#endif /* _DAT_EVENT_NAMES_H_ */
