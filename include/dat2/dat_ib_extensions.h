/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/**
 * @file dat_ib_extensions.h
 * The InfiniBand extension of DAT 2.0: atomics, writes with immediate data,
 * unreliable datagrams, counters, quick queries, collectives.
 *
 * An adapter has the extension if its attributes say
 * `extension_supported == DAT_EXTENSION_IB`; the parts it has are said by the
 * provider's named attributes (DAT_IB_ATTR_*, value "TRUE"). An operation that
 * a provider does not have returns DAT_NOT_IMPLEMENTED or
 * DAT_MODEL_NOT_SUPPORTED.
 *
 * All operations are macros around dat_extension_op(). The casts in them matter:
 * the arguments travel through a variable argument list.
 */
#ifndef _DAT_IB_EXTENSIONS_H_
#define _DAT_IB_EXTENSIONS_H_

#include <dat2/udat.h>

#if !defined(_WIN32)
#include <netinet/in.h>
#endif

/* ==== Names and numbers =================================================== */

/**
 * The version of the extension, in extension_version. 2.0.1 atomics and
 * immediate data; 2.0.2 datagrams; 2.0.3 counters; 2.0.4, 2.0.5 datagram
 * connection errors; 2.0.6 collectives; 2.0.7 more counters; 2.0.8 quick
 * queries; 2.0.9 freeing of datagram connections and addresses.
 */
#define DAT_IB_EXTENSION_VERSION 209

/* Named attributes of a provider. */
#define DAT_IB_ATTR_COUNTERS       "DAT_COUNTERS"
#define DAT_IB_ATTR_FETCH_AND_ADD  "DAT_IB_FETCH_AND_ADD"
#define DAT_IB_ATTR_CMP_AND_SWAP   "DAT_IB_CMP_AND_SWAP"
#define DAT_IB_ATTR_IMMED_DATA     "DAT_IB_IMMED_DATA"
#define DAT_IB_ATTR_UD             "DAT_IB_UD"
#define DAT_IB_COLL_SET_CLOCK      "DAT_COLL_SET_CLOCK"
#define DAT_IB_COLL_READ_CLOCK     "DAT_COLL_READ_CLOCK"
#define DAT_IB_COLL_BROADCAST      "DAT_COLL_BROADCAST"
#define DAT_IB_COLL_BARRIER        "DAT_COLL_BARRIER"
#define DAT_IB_COLL_SCATTER        "DAT_COLL_SCATTER"
#define DAT_IB_COLL_SCATTERV       "DAT_COLL_SCATTERV"
#define DAT_IB_COLL_GATHER         "DAT_COLL_GATHER"
#define DAT_IB_COLL_GATHERV        "DAT_COLL_GATHERV"
#define DAT_IB_COLL_ALLGATHER      "DAT_COLL_ALLGATHER"
#define DAT_IB_COLL_ALLGATHERV     "DAT_COLL_ALLGATHERV"
#define DAT_IB_COLL_ALLTOALL       "DAT_COLL_ALLTOALL"
#define DAT_IB_COLL_ALLTOALLV      "DAT_COLL_ALLTOALLV"
#define DAT_IB_COLL_REDUCE         "DAT_COLL_REDUCE"
#define DAT_IB_COLL_ALLREDUCE      "DAT_COLL_ALLREDUCE"
#define DAT_IB_COLL_REDUCE_SCATTER "DAT_COLL_REDUCE_SCATTER"
#define DAT_IB_COLL_SCAN           "DAT_COLL_SCAN"

/** Events beyond DAT_EVENT_NUMBER; the first stands for every data transfer. */
typedef enum dat_ib_event_number {
    DAT_IB_DTO_EVENT                       = DAT_IB_EXTENSION_RANGE_BASE,
    DAT_IB_UD_CONNECTION_REQUEST_EVENT     = DAT_IB_DTO_EVENT + 1,
    DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED = DAT_IB_DTO_EVENT + 2,
    DAT_IB_UD_CONNECTION_REJECT_EVENT      = DAT_IB_DTO_EVENT + 3,
    DAT_IB_UD_CONNECTION_ERROR_EVENT       = DAT_IB_DTO_EVENT + 4,
    DAT_IB_COLLECTIVE_EVENT                = DAT_IB_DTO_EVENT + 5
} DAT_IB_EVENT_NUMBER;

/** What dat_extension_op() is asked for. */
typedef enum dat_ib_op {
    DAT_IB_FETCH_AND_ADD_OP             = 0,
    DAT_IB_CMP_AND_SWAP_OP              = 1,
    DAT_IB_RDMA_WRITE_IMMED_OP          = 2,
    DAT_IB_UD_SEND_OP                   = 3,
    DAT_IB_QUERY_COUNTERS_OP            = 4,
    DAT_IB_PRINT_COUNTERS_OP            = 5,
    DAT_IB_COLLECTIVE_CREATE_MEMBER_OP  = 6,
    DAT_IB_COLLECTIVE_FREE_MEMBER_OP    = 7,
    DAT_IB_COLLECTIVE_CREATE_GROUP_OP   = 8,
    DAT_IB_COLLECTIVE_FREE_GROUP_OP     = 9,
    DAT_IB_COLLECTIVE_SET_CLOCK_OP      = 10,
    DAT_IB_COLLECTIVE_READ_CLOCK_OP     = 11,
    DAT_IB_COLLECTIVE_SCATTER_OP        = 12,
    DAT_IB_COLLECTIVE_SCATTERV_OP       = 13,
    DAT_IB_COLLECTIVE_GATHER_OP         = 14,
    DAT_IB_COLLECTIVE_GATHERV_OP        = 15,
    DAT_IB_COLLECTIVE_ALLGATHER_OP      = 16,
    DAT_IB_COLLECTIVE_ALLGATHERV_OP     = 17,
    DAT_IB_COLLECTIVE_ALLTOALL_OP       = 18,
    DAT_IB_COLLECTIVE_ALLTOALLV_OP      = 19,
    DAT_IB_COLLECTIVE_REDUCE_OP         = 20,
    DAT_IB_COLLECTIVE_ALLREDUCE_OP      = 21,
    DAT_IB_COLLECTIVE_REDUCE_SCATTER_OP = 22,
    DAT_IB_COLLECTIVE_SCAN_OP           = 23,
    DAT_IB_COLLECTIVE_BROADCAST_OP      = 24,
    DAT_IB_COLLECTIVE_BARRIER_OP        = 25,
    DAT_IB_START_COUNTERS_OP            = 26,
    DAT_IB_STOP_COUNTERS_OP             = 27,
    DAT_IB_UD_CM_FREE_OP                = 28,
    DAT_IB_UD_AH_FREE_OP                = 29,
    DAT_IB_OPEN_QUERY_OP                = DAT_OPEN_EXTENSION_BASE,
    DAT_IB_CLOSE_QUERY_OP               = DAT_CLOSE_EXTENSION_BASE
} DAT_IB_OP;

/** The operation an extension event reports: the type field of its data. */
typedef enum dat_ib_ext_type {
    DAT_IB_FETCH_AND_ADD                    = 0,
    DAT_IB_CMP_AND_SWAP                     = 1,
    DAT_IB_RDMA_WRITE_IMMED                 = 2,
    DAT_IB_RDMA_WRITE_IMMED_DATA            = 3,
    DAT_IB_RECV_IMMED_DATA                  = 4,
    DAT_IB_UD_CONNECT_REQUEST               = 5,
    DAT_IB_UD_REMOTE_AH                     = 6,
    DAT_IB_UD_PASSIVE_REMOTE_AH             = 7,
    DAT_IB_UD_SEND                          = 8,
    DAT_IB_UD_RECV                          = 9,
    DAT_IB_UD_CONNECT_REJECT                = 10,
    DAT_IB_UD_CONNECT_ERROR                 = 11,
    DAT_IB_COLLECTIVE_CREATE_STATUS         = 12,
    DAT_IB_COLLECTIVE_CREATE_DATA           = 13,
    DAT_IB_COLLECTIVE_CLOCK_SET_STATUS      = 14,
    DAT_IB_COLLECTIVE_SCATTER_STATUS        = 15,
    DAT_IB_COLLECTIVE_SCATTERV_STATUS       = 16,
    DAT_IB_COLLECTIVE_GATHER_STATUS         = 17,
    DAT_IB_COLLECTIVE_GATHERV_STATUS        = 18,
    DAT_IB_COLLECTIVE_ALLGATHER_STATUS      = 19,
    DAT_IB_COLLECTIVE_ALLGATHERV_STATUS     = 20,
    DAT_IB_COLLECTIVE_ALLTOALL_STATUS       = 21,
    DAT_IB_COLLECTIVE_ALLTOALLV_STATUS      = 22,
    DAT_IB_COLLECTIVE_REDUCE_STATUS         = 23,
    DAT_IB_COLLECTIVE_ALLREDUCE_STATUS      = 24,
    DAT_IB_COLLECTIVE_REDUCE_SCATTER_STATUS = 25,
    DAT_IB_COLLECTIVE_SCAN_STATUS           = 26,
    DAT_IB_COLLECTIVE_BROADCAST_STATUS      = 27,
    DAT_IB_COLLECTIVE_BARRIER_STATUS        = 28
} DAT_IB_EXT_TYPE;

/** Transfers beyond DAT_DTOS. */
typedef enum dat_ib_dtos {
    DAT_IB_DTO_RDMA_WRITE_IMMED = DAT_DTO_EXTENSION_BASE,
    DAT_IB_DTO_RECV_IMMED       = DAT_IB_DTO_RDMA_WRITE_IMMED + 1,
    DAT_IB_DTO_FETCH_ADD        = DAT_IB_DTO_RDMA_WRITE_IMMED + 2,
    DAT_IB_DTO_CMP_SWAP         = DAT_IB_DTO_RDMA_WRITE_IMMED + 3,
    DAT_IB_DTO_RECV_MSG_IMMED   = DAT_IB_DTO_RDMA_WRITE_IMMED + 4,
    DAT_IB_DTO_SEND_UD          = DAT_IB_DTO_RDMA_WRITE_IMMED + 5,
    DAT_IB_DTO_RECV_UD          = DAT_IB_DTO_RDMA_WRITE_IMMED + 6,
    DAT_IB_DTO_RECV_UD_IMMED    = DAT_IB_DTO_RDMA_WRITE_IMMED + 7,
    DAT_IB_DTO_COLLECTIVES      = DAT_IB_DTO_RDMA_WRITE_IMMED + 8
} DAT_IB_DTOS;

/** How the operation behind an extension event went. */
typedef enum dat_ib_status {
    DAT_OP_SUCCESS       = DAT_SUCCESS,
    DAT_IB_OP_ERR        = 1,
    DAT_IB_COLL_COMP_ERR = 2
} DAT_IB_STATUS;

/** Return codes beyond DAT_RETURN_TYPE. */
typedef enum dat_ib_return {
    DAT_IB_ERR            = DAT_EXTENSION_BASE,
    DAT_IB_COLLECTIVE_ERR = DAT_IB_ERR + 1
} DAT_IB_RETURN;

/** Types beyond DAT_HANDLE_TYPE. */
typedef enum dat_ib_handle_type {
    DAT_IB_HANDLE_TYPE_EXT        = DAT_HANDLE_TYPE_EXTENSION_BASE,
    DAT_IB_HANDLE_TYPE_COLLECTIVE = DAT_IB_HANDLE_TYPE_EXT + 1
} DAT_IB_HANDLE_TYPE;

/** Streams beyond DAT_EVD_FLAGS. */
typedef enum dat_ib_evd_extension_flags {
    DAT_IB_EVD_EXTENSION_FLAG = DAT_EVD_EXTENSION_BASE
} DAT_IB_EVD_EXTENSION_FLAGS;

/** Privileges beyond DAT_MEM_PRIV_FLAGS. */
typedef enum dat_ib_mem_priv_flags {
    DAT_IB_MEM_PRIV_REMOTE_ATOMIC = DAT_MEM_PRIV_EXTENSION_BASE
} DAT_IB_MEM_PRIV_FLAGS;

/** Services beyond DAT_SERVICE_TYPE: unreliable datagrams. */
typedef enum dat_ib_service_type {
    DAT_IB_SERVICE_TYPE_UD = DAT_SERVICE_TYPE_EXTENSION_BASE
} DAT_IB_SERVICE_TYPE;

/* ==== Event data ========================================================== */

struct ibv_ah;

/** The address of a receiver of datagrams. */
typedef struct dat_ib_addr_handle {
    struct ibv_ah *ah;
    DAT_UINT32     qpn;
    DAT_SOCK_ADDR6 ia_addr;
} DAT_IB_ADDR_HANDLE;

typedef struct dat_ib_immed_data {
    DAT_UINT32 data;
} DAT_IB_IMMED_DATA;

typedef struct dat_ib_collective_event_data {
    DAT_HANDLE  handle;
    DAT_CONTEXT context;
} DAT_IB_COLLECTIVE_EVENT_DATA;

/**
 * The data of an extension event: event_extension_data of a DAT_EVENT whose
 * number is a DAT_IB_EVENT_NUMBER. It fills those 64 bytes exactly.
 *
 * With DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED, remote_ah is the peer's address,
 * ended by dat_ib_ud_ah_free(), and context is for dat_ib_ud_cm_free().
 */
typedef struct dat_ib_extension_event_data {
    DAT_IB_EXT_TYPE type;
    DAT_IB_STATUS   status;
    union {
        DAT_IB_IMMED_DATA immed;
    } val;
#if defined(__GNUC__)
    __extension__
#endif
    union {
        DAT_IB_ADDR_HANDLE           remote_ah;
        DAT_IB_COLLECTIVE_EVENT_DATA coll;
    };
    DAT_CONTEXT context;
} DAT_IB_EXTENSION_EVENT_DATA;

/* ==== Texts =============================================================== */

/**
 * dat_strerror() that knows the codes of the extension too.
 *
 * @param[in]  value   a return code
 * @param[out] message the identifier of its type; constant, not to be freed
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_PARAMETER no such type
 *
 * Threads: safe. Rule: reference implementation practice.
 */
static __inline__ DAT_RETURN DAT_API dat_strerror_extension(DAT_IB_RETURN value,
                                                            const char **message)
{
    if (DAT_GET_TYPE(value) != (DAT_UINT32)DAT_IB_ERR)
        return dat_strerror((DAT_RETURN)value, message, NULL);

    *message = "DAT_IB_ERR";
    return DAT_SUCCESS;
}

/**
 * Puts the status of an extension event into words.
 *
 * @param[in]  value   the status
 * @param[out] message its identifier, " " for success; constant, not to be
 *                     freed
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_PARAMETER no text for it
 *
 * Threads: safe. Rule: reference implementation practice.
 */
static __inline__ DAT_RETURN DAT_API dat_strerror_ext_status(DAT_IB_STATUS value,
                                                             const char **message)
{
    if (value == DAT_OP_SUCCESS) {
        *message = " ";
        return DAT_SUCCESS;
    }
    if (value == DAT_IB_OP_ERR) {
        *message = "DAT_IB_OP_ERR";
        return DAT_SUCCESS;
    }
    *message = "unknown extension status";
    return DAT_INVALID_PARAMETER;
}

/* ==== Calls: transfers ==================================================== */

/* Takes a DAT_CONTEXT, in GNU C also one of its members. */
#if defined(__GNUC__)
#define DAT_IB_CONTEXT_ARG_(value) __extension__ (DAT_CONTEXT) (value)
#else
#define DAT_IB_CONTEXT_ARG_(value) (value)
#endif

/**
 * Posts an atomic add to a 64-bit word of the peer's. What the word held before
 * arrives in the local segment.
 *
 * @param[in] ep      DAT_EP_HANDLE, connected
 * @param[in] add_val 64 bits, added
 * @param[in] lbuf    DAT_LMR_TRIPLET *: one local segment of 8 bytes
 * @param[in] cookie  DAT_DTO_COOKIE: returned in the completion
 * @param[in] rbuf    DAT_RMR_TRIPLET *: the word, aligned to 8 bytes, in memory
 *                    with DAT_IB_MEM_PRIV_REMOTE_ATOMIC
 * @param[in] flgs    DAT_COMPLETION_*
 *
 * Returns as dat_ep_post_rdma_read(). Completes as DAT_IB_DTO_EVENT of type
 * DAT_IB_FETCH_AND_ADD. Threads: as dat_ep_post_send().
 * Rule: IB extension 2.0.1.
 */
#define dat_ib_post_fetch_and_add(ep, add_val, lbuf, cookie, rbuf, flgs) \
    dat_extension_op((DAT_EP_HANDLE) (ep), (DAT_IB_OP) DAT_IB_FETCH_AND_ADD_OP, \
        (DAT_UINT64) (add_val), (DAT_LMR_TRIPLET *) (lbuf), (cookie), \
        (DAT_RMR_TRIPLET *) (rbuf), (DAT_COMPLETION_FLAGS) (flgs))

/**
 * Posts an atomic compare-and-swap of a 64-bit word of the peer's: if it equals
 * cmp_val, it becomes swap_val. The word's value before arrives in the local segment.
 *
 * @param[in] ep       DAT_EP_HANDLE, connected
 * @param[in] cmp_val  64 bits, compared
 * @param[in] swap_val 64 bits, stored if equal
 * @param[in] lbuf     DAT_LMR_TRIPLET *: one local segment of 8 bytes
 * @param[in] cookie   DAT_DTO_COOKIE: returned in the completion
 * @param[in] rbuf     DAT_RMR_TRIPLET *: the word, as for
 *                     dat_ib_post_fetch_and_add()
 * @param[in] flgs     DAT_COMPLETION_*
 *
 * Returns as dat_ep_post_rdma_read(). Completes as DAT_IB_DTO_EVENT of type
 * DAT_IB_CMP_AND_SWAP. Threads: as dat_ep_post_send().
 * Rule: IB extension 2.0.1.
 */
#define dat_ib_post_cmp_and_swap(ep, cmp_val, swap_val, lbuf, cookie, rbuf, flgs) \
    dat_extension_op((DAT_EP_HANDLE) (ep), (DAT_IB_OP) DAT_IB_CMP_AND_SWAP_OP, \
        (DAT_UINT64) (cmp_val), (DAT_UINT64) (swap_val), (DAT_LMR_TRIPLET *) (lbuf), \
        (cookie), (DAT_RMR_TRIPLET *) (rbuf), (DAT_COMPLETION_FLAGS) (flgs))

/**
 * Posts an RDMA write that ends in 32 bits of immediate data. These take up a
 * receive of the peer's, whose completion carries them.
 *
 * @param[in] ep     DAT_EP_HANDLE, connected
 * @param[in] size   DAT_COUNT: number of local segments
 * @param[in] lbuf   DAT_LMR_TRIPLET *: where from
 * @param[in] cookie DAT_DTO_COOKIE: returned in the completion
 * @param[in] rbuf   DAT_RMR_TRIPLET *: where to, one segment
 * @param[in] idata  32 bits
 * @param[in] flgs   DAT_COMPLETION_*
 *
 * Returns as dat_ep_post_rdma_write(). Completes as DAT_IB_DTO_EVENT: here of
 * type DAT_IB_RDMA_WRITE_IMMED, at the peer DAT_IB_RDMA_WRITE_IMMED_DATA with the
 * data in val.immed. Threads: as dat_ep_post_send(). Rule: IB extension 2.0.1.
 */
#define dat_ib_post_rdma_write_immed(ep, size, lbuf, cookie, rbuf, idata, flgs) \
    dat_extension_op((DAT_EP_HANDLE) (ep), (DAT_IB_OP) DAT_IB_RDMA_WRITE_IMMED_OP, \
        (DAT_COUNT) (size), (DAT_LMR_TRIPLET *) (lbuf), (cookie), \
        (DAT_RMR_TRIPLET *) (rbuf), (DAT_UINT32) (idata), (DAT_COMPLETION_FLAGS) (flgs))

/**
 * Posts an unreliable datagram.
 *
 * @param[in] ep       DAT_EP_HANDLE of service type DAT_IB_SERVICE_TYPE_UD
 * @param[in] segments DAT_COUNT: how many
 * @param[in] lbuf     DAT_LMR_TRIPLET *: the segments
 * @param[in] ah_ptr   DAT_IB_ADDR_HANDLE *: to whom, as a connection event gave it
 * @param[in] cookie   DAT_DTO_COOKIE: returned in the completion
 * @param[in] flgs     DAT_COMPLETION_*
 *
 * Returns as dat_ep_post_send(). Completes as DAT_IB_DTO_EVENT: here of type
 * DAT_IB_UD_SEND, at the receiver DAT_IB_UD_RECV. Threads: as dat_ep_post_send().
 * Rule: IB extension 2.0.2.
 */
#define dat_ib_post_send_ud(ep, segments, lbuf, ah_ptr, cookie, flgs) \
    dat_extension_op((DAT_EP_HANDLE) (ep), (DAT_IB_OP) DAT_IB_UD_SEND_OP, \
        (DAT_COUNT) (segments), (DAT_LMR_TRIPLET *) (lbuf), (DAT_IB_ADDR_HANDLE *) (ah_ptr), \
        (cookie), (DAT_COMPLETION_FLAGS) (flgs))

/** Posts a receive for a datagram, just as for a message. */
#define dat_ib_post_recv_ud dat_ep_post_recv

/**
 * Frees what the provider keeps of a datagram connection, once address and
 * private data are copied. Allowed from its establishment to the end of the
 * endpoint.
 *
 * @param[in] ep DAT_EP_HANDLE
 * @param[in] cm DAT_CONTEXT of the DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED event
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE
 * @retval DAT_INVALID_PARAMETER
 *
 * Threads: per object. Rule: IB extension 2.0.9.
 */
#define dat_ib_ud_cm_free(ep, cm) \
    dat_extension_op((DAT_EP_HANDLE) (ep), (DAT_IB_OP) DAT_IB_UD_CM_FREE_OP, \
        DAT_IB_CONTEXT_ARG_(cm))

/**
 * Frees a datagram address. Required after the last send to it and before the
 * endpoint is freed.
 *
 * @param[in] ep DAT_EP_HANDLE
 * @param[in] ah DAT_IB_ADDR_HANDLE *
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE
 * @retval DAT_INVALID_PARAMETER
 *
 * Threads: per object. Rule: IB extension 2.0.9.
 */
#define dat_ib_ud_ah_free(ep, ah) \
    dat_extension_op((DAT_EP_HANDLE) (ep), (DAT_IB_OP) DAT_IB_UD_AH_FREE_OP, \
        (DAT_IB_ADDR_HANDLE *) (ah))

/* ==== Calls: quick queries ================================================ */

/**
 * Reads the attributes of an adapter without opening it for use.
 *
 * @param[in]  name      the adapter's name in dat.conf
 * @param[out] ia_handle DAT_HANDLE *: good for dat_ib_close_query() only
 * @param[in]  ia_mask   DAT_IA_FIELD_*
 * @param[out] ia_attr   caller's storage; may be NULL if the mask is 0
 * @param[in]  prov_mask DAT_PROVIDER_FIELD_*
 * @param[out] prov_attr caller's storage; may be NULL if the mask is 0
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_PARAMETER `ARG1`: bad name. `ARG3`, `ARG5`: unknown bits.
 *         `ARG4`, `ARG6`: NULL, and asked for
 * @retval DAT_INVALID_HANDLE `IA`: ia_handle is NULL
 * @retval DAT_PROVIDER_NOT_FOUND
 * @retval DAT_NOT_IMPLEMENTED
 *
 * Threads: safe. Rule: IB extension 2.0.8.
 */
#define dat_ib_open_query(name, ia_handle, ia_mask, ia_attr, prov_mask, prov_attr) \
    dat_extension_op((DAT_HANDLE) (NULL), (DAT_IB_OP) DAT_IB_OPEN_QUERY_OP, \
        (DAT_NAME_PTR) (name), (DAT_HANDLE *) (ia_handle), \
        (DAT_IA_ATTR_MASK) (ia_mask), (DAT_IA_ATTR *) (ia_attr), \
        (DAT_PROVIDER_ATTR_MASK) (prov_mask), (DAT_PROVIDER_ATTR *) (prov_attr))

/**
 * Ends dat_ib_open_query(). Attributes it pointed at go with it.
 *
 * @param[in] ia_handle the handle
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `IA`
 * @retval DAT_NOT_IMPLEMENTED
 *
 * Threads: per object. Rule: IB extension 2.0.8.
 */
#define dat_ib_close_query(ia_handle) \
    dat_extension_op((DAT_HANDLE) (ia_handle), (DAT_IB_OP) DAT_IB_CLOSE_QUERY_OP)

/* ==== Counters ============================================================ */

/** 64-bit counters of an adapter. DCNT_IA_ALL_COUNTERS stays the last. */
typedef enum dat_ia_counters {
    DCNT_IA_PZ_CREATE               = 0,
    DCNT_IA_PZ_FREE                 = 1,
    DCNT_IA_LMR_CREATE              = 2,
    DCNT_IA_LMR_FREE                = 3,
    DCNT_IA_RMR_CREATE              = 4,
    DCNT_IA_RMR_FREE                = 5,
    DCNT_IA_PSP_CREATE              = 6,
    DCNT_IA_PSP_CREATE_ANY          = 7,
    DCNT_IA_PSP_FREE                = 8,
    DCNT_IA_RSP_CREATE              = 9,
    DCNT_IA_RSP_FREE                = 10,
    DCNT_IA_EVD_CREATE              = 11,
    DCNT_IA_EVD_FREE                = 12,
    DCNT_IA_EP_CREATE               = 13,
    DCNT_IA_EP_FREE                 = 14,
    DCNT_IA_SRQ_CREATE              = 15,
    DCNT_IA_SRQ_FREE                = 16,
    DCNT_IA_SP_CR                   = 17,
    DCNT_IA_SP_CR_ACCEPTED          = 18,
    DCNT_IA_SP_CR_REJECTED          = 19,
    DCNT_IA_MEM_ALLOC               = 20,
    DCNT_IA_MEM_ALLOC_DATA          = 21,
    DCNT_IA_MEM_FREE                = 22,
    DCNT_IA_ASYNC_ERROR             = 23,
    DCNT_IA_ASYNC_QP_ERROR          = 24,
    DCNT_IA_ASYNC_CQ_ERROR          = 25,
    DCNT_IA_CM_LISTEN               = 26,
    DCNT_IA_CM_REQ_TX               = 27,
    DCNT_IA_CM_REQ_RX               = 28,
    DCNT_IA_CM_REP_TX               = 29,
    DCNT_IA_CM_REP_RX               = 30,
    DCNT_IA_CM_RTU_TX               = 31,
    DCNT_IA_CM_RTU_RX               = 32,
    DCNT_IA_CM_USER_REJ_TX          = 33,
    DCNT_IA_CM_USER_REJ_RX          = 34,
    DCNT_IA_CM_ACTIVE_EST           = 35,
    DCNT_IA_CM_PASSIVE_EST          = 36,
    DCNT_IA_CM_AH_REQ_TX            = 37,
    DCNT_IA_CM_AH_REQ_RX            = 38,
    DCNT_IA_CM_AH_RESOLVED          = 39,
    DCNT_IA_CM_DREQ_TX              = 40,
    DCNT_IA_CM_DREQ_RX              = 41,
    DCNT_IA_CM_DREP_TX              = 42,
    DCNT_IA_CM_DREP_RX              = 43,
    DCNT_IA_CM_MRA_TX               = 44,
    DCNT_IA_CM_MRA_RX               = 45,
    DCNT_IA_CM_REQ_FULLQ_POLL       = 46,
    DCNT_IA_CM_ERR                  = 47,
    DCNT_IA_CM_ERR_REQ_FULLQ        = 48,
    DCNT_IA_CM_ERR_REQ_DUP          = 49,
    DCNT_IA_CM_ERR_REQ_RETRY        = 50,
    DCNT_IA_CM_ERR_REP_DUP          = 51,
    DCNT_IA_CM_ERR_REP_RETRY        = 52,
    DCNT_IA_CM_ERR_RTU_DUP          = 53,
    DCNT_IA_CM_ERR_RTU_RETRY        = 54,
    DCNT_IA_CM_ERR_REFUSED          = 55,
    DCNT_IA_CM_ERR_RESET            = 56,
    DCNT_IA_CM_ERR_TIMEOUT          = 57,
    DCNT_IA_CM_ERR_REJ_TX           = 58,
    DCNT_IA_CM_ERR_REJ_RX           = 59,
    DCNT_IA_CM_ERR_DREQ_DUP         = 60,
    DCNT_IA_CM_ERR_DREQ_RETRY       = 61,
    DCNT_IA_CM_ERR_DREP_DUP         = 62,
    DCNT_IA_CM_ERR_DREP_RETRY       = 63,
    DCNT_IA_CM_ERR_MRA_DUP          = 64,
    DCNT_IA_CM_ERR_MRA_RETRY        = 65,
    DCNT_IA_CM_ERR_UNEXPECTED       = 66,
    DCNT_IA_LNK_ERR_RCV             = 67,
    DCNT_IA_LNK_ERR_RCV_REM_PHYS    = 68,
    DCNT_IA_LNK_ERR_RCV_CONSTRAINT  = 69,
    DCNT_IA_LNK_ERR_XMT_DISCARDS    = 70,
    DCNT_IA_LNK_ERR_XMT_CONTRAINT   = 71,
    DCNT_IA_LNK_ERR_INTEGRITY       = 72,
    DCNT_IA_LNK_ERR_EXC_BUF_OVERRUN = 73,
    DCNT_IA_LNK_WARN_RCV_SW_RELAY   = 74,
    DCNT_IA_LNK_WARN_XMT_WAIT       = 75,
    DCNT_IA_DIAG_ERR_RQ_RAE         = 76,
    DCNT_IA_DIAG_ERR_RQ_OOS         = 77,
    DCNT_IA_DIAG_ERR_RQ_RIRE        = 78,
    DCNT_IA_DIAG_ERR_RQ_UDSDPRD     = 79,
    DCNT_IA_DIAG_ERR_SQ_RAE         = 80,
    DCNT_IA_DIAG_ERR_SQ_OOS         = 81,
    DCNT_IA_DIAG_ERR_SQ_RIRE        = 82,
    DCNT_IA_DIAG_ERR_SQ_RREE        = 83,
    DCNT_IA_DIAG_ERR_SQ_TREE        = 84,
    DCNT_IA_ALL_COUNTERS            = 85
} DAT_IA_COUNTERS;

/** 64-bit counters of an endpoint. DCNT_EP_ALL_COUNTERS stays the last. */
typedef enum dat_ep_counters {
    DCNT_EP_CONNECT             = 0,
    DCNT_EP_DISCONNECT          = 1,
    DCNT_EP_POST_SEND           = 2,
    DCNT_EP_POST_SEND_DATA      = 3,
    DCNT_EP_POST_SEND_UD        = 4,
    DCNT_EP_POST_SEND_UD_DATA   = 5,
    DCNT_EP_POST_RECV           = 6,
    DCNT_EP_POST_RECV_DATA      = 7,
    DCNT_EP_POST_WRITE          = 8,
    DCNT_EP_POST_WRITE_DATA     = 9,
    DCNT_EP_POST_WRITE_IMM      = 10,
    DCNT_EP_POST_WRITE_IMM_DATA = 11,
    DCNT_EP_POST_READ           = 12,
    DCNT_EP_POST_READ_DATA      = 13,
    DCNT_EP_POST_CMP_SWAP       = 14,
    DCNT_EP_POST_FETCH_ADD      = 15,
    DCNT_EP_RECV                = 16,
    DCNT_EP_RECV_DATA           = 17,
    DCNT_EP_RECV_UD             = 18,
    DCNT_EP_RECV_UD_DATA        = 19,
    DCNT_EP_RECV_IMM            = 20,
    DCNT_EP_RECV_IMM_DATA       = 21,
    DCNT_EP_RECV_RDMA_IMM       = 22,
    DCNT_EP_RECV_RDMA_IMM_DATA  = 23,
    DCNT_EP_ALL_COUNTERS        = 24
} DAT_EP_COUNTERS;

/** 64-bit counters of an EVD. DCNT_EVD_ALL_COUNTERS stays the last. */
typedef enum dat_evd_counters {
    DCNT_EVD_WAIT               = 0,
    DCNT_EVD_WAIT_BLOCKED       = 1,
    DCNT_EVD_WAIT_NOTIFY        = 2,
    DCNT_EVD_DEQUEUE            = 3,
    DCNT_EVD_DEQUEUE_FOUND      = 4,
    DCNT_EVD_DEQUEUE_NOT_FOUND  = 5,
    DCNT_EVD_DEQUEUE_POLL       = 6,
    DCNT_EVD_DEQUEUE_POLL_FOUND = 7,
    DCNT_EVD_CONN_CALLBACK      = 8,
    DCNT_EVD_DTO_CALLBACK       = 9,
    DCNT_EVD_ALL_COUNTERS       = 10
} DAT_EVD_COUNTERS;

/** Groups of adapter counters that can be sampled. */
typedef enum dat_ia_counter_type {
    DCNT_IA_CM   = 0,
    DCNT_IA_LNK  = 1,
    DCNT_IA_DIAG = 2
} DAT_IA_COUNTER_TYPE;

/* The names of DAT 1.2. */
#define DAT_ATTR_COUNTERS     DAT_IB_ATTR_COUNTERS
#define DAT_QUERY_COUNTERS_OP DAT_IB_QUERY_COUNTERS_OP
#define DAT_PRINT_COUNTERS_OP DAT_IB_PRINT_COUNTERS_OP
#define dat_query_counters    dat_ib_query_counters
#define dat_print_counters    dat_ib_print_counters

/**
 * Reads counters of an adapter, endpoint or event dispatcher.
 *
 * @param[in]  dat_handle  the object
 * @param[in]  cntr        one of DCNT_IA_*, DCNT_EP_*, DCNT_EVD_*, or the last of
 *                         these for all
 * @param[out] p_cntrs_out DAT_UINT64 *: room for one, or for all
 * @param[in]  reset       non-zero: reset to 0 after reading
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE
 * @retval DAT_INVALID_PARAMETER
 * @retval DAT_NOT_IMPLEMENTED built without counters
 *
 * Threads: safe; counters are not exact under load. Rule: IB extension 2.0.3.
 */
#define dat_ib_query_counters(dat_handle, cntr, p_cntrs_out, reset) \
    dat_extension_op((DAT_HANDLE) (dat_handle), (DAT_IB_OP) DAT_QUERY_COUNTERS_OP, \
        (int) (cntr), (DAT_UINT64 *) (p_cntrs_out), (int) (reset))

/**
 * Prints counters of an adapter, endpoint or event dispatcher to standard output.
 *
 * @param[in] dat_handle the object
 * @param[in] cntr       which, as in dat_ib_query_counters()
 * @param[in] reset      non-zero: reset to 0 after reading
 *
 * Returns as dat_ib_query_counters(). Threads: safe; counters are not exact under load.
 * Rule: IB extension 2.0.3.
 */
#define dat_ib_print_counters(dat_handle, cntr, reset) \
    dat_extension_op((DAT_HANDLE) (dat_handle), (DAT_IB_OP) DAT_PRINT_COUNTERS_OP, \
        (int) (cntr), (int) (reset))

/**
 * Starts to sample the counters that the device itself keeps, after dat_ib_stop_counter(). An
 * adapter samples them from its opening on.
 *
 * @param[in] dat_handle DAT_IA_HANDLE
 * @param[in] type       DAT_IA_COUNTER_TYPE: which group
 *
 * @retval DAT_SUCCESS           also if the group is sampled already
 * @retval DAT_INVALID_HANDLE
 * @retval DAT_INVALID_PARAMETER there is no such group
 * @retval DAT_NOT_IMPLEMENTED   nothing is counted, or the device does not count this group
 *
 * Threads: safe. Rule: IB extension 2.0.7.
 */
#define dat_ib_start_counter(dat_handle, type) \
    dat_extension_op((DAT_HANDLE) (dat_handle), (DAT_IB_OP) DAT_IB_START_COUNTERS_OP, \
        (DAT_IA_COUNTER_TYPE) (type))

/**
 * Stops the sampling of a group: its counters stand still until dat_ib_start_counter(), and leave
 * out what the device counts meanwhile.
 *
 * @param[in] dat_handle DAT_IA_HANDLE
 * @param[in] type       DAT_IA_COUNTER_TYPE: which group
 *
 * @retval DAT_SUCCESS           also if the group is stopped already
 * @retval DAT_INVALID_HANDLE
 * @retval DAT_INVALID_PARAMETER there is no such group
 * @retval DAT_NOT_IMPLEMENTED   nothing is counted, or the device does not count this group
 *
 * Threads: safe. Rule: IB extension 2.0.7.
 */
#define dat_ib_stop_counter(dat_handle, type) \
    dat_extension_op((DAT_HANDLE) (dat_handle), (DAT_IB_OP) DAT_IB_STOP_COUNTERS_OP, \
        (DAT_IA_COUNTER_TYPE) (type))

/* ==== Collectives ========================================================= */

typedef DAT_HANDLE   DAT_IB_COLLECTIVE_HANDLE; /**< a group */
typedef unsigned int DAT_IB_COLLECTIVE_RANK;   /**< position in a group, from 0 */
typedef unsigned int DAT_IB_COLLECTIVE_ID;     /**< names a group in the network */
typedef void        *DAT_IB_COLLECTIVE_MEMBER; /**< address of a process */

/** Elements of a reduction. */
typedef enum dat_ib_collective_data_type {
    DAT_IB_COLLECTIVE_TYPE_INT8        = 0,
    DAT_IB_COLLECTIVE_TYPE_UINT8       = 1,
    DAT_IB_COLLECTIVE_TYPE_INT16       = 2,
    DAT_IB_COLLECTIVE_TYPE_UINT16      = 3,
    DAT_IB_COLLECTIVE_TYPE_INT32       = 4,
    DAT_IB_COLLECTIVE_TYPE_UINT32      = 5,
    DAT_IB_COLLECTIVE_TYPE_INT64       = 6,
    DAT_IB_COLLECTIVE_TYPE_UINT64      = 7,
    DAT_IB_COLLECTIVE_TYPE_FLOAT       = 8,
    DAT_IB_COLLECTIVE_TYPE_DOUBLE      = 9,
    DAT_IB_COLLECTIVE_TYPE_LONG_DOUBLE = 10,
    DAT_IB_COLLECTIVE_TYPE_SHORT_INT   = 11,
    DAT_IB_COLLECTIVE_TYPE_2INT        = 12,
    DAT_IB_COLLECTIVE_TYPE_FLOAT_INT   = 13,
    DAT_IB_COLLECTIVE_TYPE_LONG_INT    = 14,
    DAT_IB_COLLECTIVE_TYPE_DOUBLE_INT  = 15
} DAT_IB_COLLECTIVE_DATA_TYPE;

/** Operations of a reduction. */
typedef enum dat_ib_collective_reduce_data_op {
    DAT_IB_COLLECTIVE_REDUCE_OP_MAX    = 0,
    DAT_IB_COLLECTIVE_REDUCE_OP_MIN    = 1,
    DAT_IB_COLLECTIVE_REDUCE_OP_SUM    = 2,
    DAT_IB_COLLECTIVE_REDUCE_OP_PROD   = 3,
    DAT_IB_COLLECTIVE_REDUCE_OP_LAND   = 4,
    DAT_IB_COLLECTIVE_REDUCE_OP_BAND   = 5,
    DAT_IB_COLLECTIVE_REDUCE_OP_LOR    = 6,
    DAT_IB_COLLECTIVE_REDUCE_OP_BOR    = 7,
    DAT_IB_COLLECTIVE_REDUCE_OP_LXOR   = 8,
    DAT_IB_COLLECTIVE_REDUCE_OP_BXOR   = 9,
    DAT_IB_COLLECTIVE_REDUCE_OP_MAXLOC = 10,
    DAT_IB_COLLECTIVE_REDUCE_OP_MINLOC = 11
} DAT_IB_COLLECTIVE_REDUCE_DATA_OP;

/** The members of a group by node. One process of each node, the external one, represents it. */
typedef struct dat_ib_collective_group {
    int  local_size;      /**< processes on this node */
    int  local_rank;      /**< rank of this process on its node */
    int *local_ranks;     /**< their ranks in the group */
    int  external_size;   /**< nodes */
    int  external_rank;   /**< rank among the external processes, or -1 */
    int *external_ranks;  /**< their ranks in the group */
    int *intranode_table; /**< rank in the group to rank on this node, or -1 */
    int *internode_table; /**< rank in the group to external rank, or -1 */
    int  is_comm_world;   /**< the group is all processes */
} DAT_IB_COLLECTIVE_GROUP;

/**
 * No adapter of ours has collectives: the calls return DAT_NOT_IMPLEMENTED there. Buffers belong to the
 * provider until the event of the operation arrives on the EVD of the group, with user_context in it.
 */

/**
 * Makes the address by which this process joins groups. The processes exchange
 * these before they create a group. Returns when done.
 *
 * @param[in]  ia_handle     the adapter
 * @param[in]  progress_func called by the provider to let the program progress
 * @param[out] member        the address; ended by dat_ib_collective_free_member()
 * @param[out] member_size   its size in bytes
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE
 * @retval DAT_INVALID_PARAMETER
 * @retval DAT_INSUFFICIENT_RESOURCES
 * @retval DAT_NOT_IMPLEMENTED the provider has no collectives
 *
 * Threads: per object. Rule: IB extension 2.0.6.
 */
#define dat_ib_collective_create_member(ia_handle, progress_func, member, member_size) \
    dat_extension_op((DAT_IA_HANDLE) (ia_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_CREATE_MEMBER_OP, (void *) (progress_func), \
        (DAT_IB_COLLECTIVE_MEMBER *) (member), (DAT_UINT32 *) (member_size))

/**
 * Frees what dat_ib_collective_create_member() made.
 *
 * @param[in] ia_handle the adapter
 * @param[in] member    the address
 *
 * Otherwise as dat_ib_collective_create_member().
 */
#define dat_ib_collective_free_member(ia_handle, member) \
    dat_extension_op((DAT_IA_HANDLE) (ia_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_FREE_MEMBER_OP, (DAT_IB_COLLECTIVE_MEMBER) (member))

/**
 * Joins a group; every member calls it with equal members and id. An event of
 * type DAT_IB_COLLECTIVE_CREATE_DATA brings the handle of the group.
 *
 * @param[in] members      the addresses, in order of rank
 * @param[in] group_size   how many
 * @param[in] self         rank of the caller
 * @param[in] group_id     equal for all, different from other groups'
 * @param[in] group_info   who is on which node
 * @param[in] evd          all completions of the group arrive here
 * @param[in] pd           protection zone
 * @param[in] user_context returned in the event
 *
 * Otherwise as dat_ib_collective_create_member().
 */
#define dat_ib_collective_create_group(members, group_size, self, group_id, group_info, evd, \
    pd, user_context) \
    dat_extension_op((DAT_EVD_HANDLE) (evd), (DAT_IB_OP) DAT_IB_COLLECTIVE_CREATE_GROUP_OP, \
        (DAT_IB_COLLECTIVE_MEMBER *) (members), (DAT_COUNT) (group_size), \
        (DAT_IB_COLLECTIVE_RANK) (self), (DAT_IB_COLLECTIVE_ID) (group_id), \
        (DAT_IB_COLLECTIVE_GROUP *) (group_info), (DAT_PZ_HANDLE) (pd), \
        DAT_IB_CONTEXT_ARG_(user_context))

/**
 * Leaves a group. Outstanding operations end with an event.
 *
 * @param[in] coll_handle the group
 *
 * Otherwise as dat_ib_collective_create_member().
 */
#define dat_ib_collective_free_group(coll_handle) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_FREE_GROUP_OP)

/**
 * Sets the clock of a group; one member does it for all. An event follows.
 *
 * @param[in] coll_handle  the group
 * @param[in] clock_value  64 bits
 * @param[in] user_context returned in the event
 *
 * Otherwise as dat_ib_collective_create_member().
 */
#define dat_ib_collective_set_clock(coll_handle, clock_value, user_context) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_SET_CLOCK_OP, (DAT_UINT64) (clock_value), \
        DAT_IB_CONTEXT_ARG_(user_context))

/**
 * Reads the clock of a group, at once.
 *
 * @param[in]  coll_handle the group
 * @param[out] clock_value DAT_UINT64 *
 *
 * Otherwise as dat_ib_collective_create_member().
 */
#define dat_ib_collective_read_clock(coll_handle, clock_value) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_READ_CLOCK_OP, (DAT_UINT64 *) (clock_value))

/**
 * Sends each member its part of the root's buffer: equal parts, in order of rank. An event tells the end.
 *
 * @param[in]  coll_handle the group
 * @param[in]  sendbuf     the parts; looked at on the root only. The provider's until the event
 * @param[in]  sendsize    bytes of each part
 * @param[out] recvbuf     the part of this member; NULL on the root keeps it in place. The provider's until
 *                         the event
 * @param[in]  recvsize    bytes of it
 * @param[in]  root        rank of the member that gives
 * @param[in]  user_context returned in the event
 * @param[in]  flags       DAT_COMPLETION_*
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE
 * @retval DAT_INVALID_PARAMETER
 * @retval DAT_INSUFFICIENT_RESOURCES
 * @retval DAT_NOT_IMPLEMENTED the provider has no collectives
 *
 * Threads: per object. Rule: IB extension 2.0.6.
 */
#define dat_ib_collective_scatter(coll_handle, sendbuf, sendsize, recvbuf, recvsize, root, \
    user_context, flags) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_SCATTER_OP, (DAT_PVOID) (sendbuf), \
        (DAT_COUNT) (sendsize), (DAT_PVOID) (recvbuf), (DAT_COUNT) (recvsize), \
        (DAT_IB_COLLECTIVE_RANK) (root), DAT_IB_CONTEXT_ARG_(user_context), \
        (DAT_COMPLETION_FLAGS) (flags))

/**
 * Sends each member its part of the root's buffer: parts of different size.
 *
 * @param[in] sendsizes bytes of each part, one number for each rank
 * @param[in] displs    where each part begins in sendbuf, in bytes, one number for each rank
 *
 * Otherwise as dat_ib_collective_scatter().
 */
#define dat_ib_collective_scatterv(coll_handle, sendbuf, sendsizes, displs, recvbuf, \
    recvsize, root, user_context, flags) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_SCATTERV_OP, (DAT_PVOID) (sendbuf), \
        (DAT_COUNT *) (sendsizes), (DAT_COUNT *) (displs), (DAT_PVOID) (recvbuf), \
        (DAT_COUNT) (recvsize), (DAT_IB_COLLECTIVE_RANK) (root), \
        DAT_IB_CONTEXT_ARG_(user_context), (DAT_COMPLETION_FLAGS) (flags))

/**
 * Gathers a part of each member in the root's buffer: equal parts, in order of rank.
 *
 * @param[in]  sendbuf  the part of this member; NULL on the root: it is in place
 * @param[in]  sendsize bytes of it
 * @param[out] recvbuf  the parts; written on the root only
 * @param[in]  recvsize bytes of each part
 * @param[in]  root     rank of the member that gets
 *
 * Otherwise as dat_ib_collective_scatter().
 */
#define dat_ib_collective_gather(coll_handle, sendbuf, sendsize, recvbuf, recvsize, root, \
    user_context, flags) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_GATHER_OP, (DAT_PVOID) (sendbuf), \
        (DAT_COUNT) (sendsize), (DAT_PVOID) (recvbuf), (DAT_COUNT) (recvsize), \
        (DAT_IB_COLLECTIVE_RANK) (root), DAT_IB_CONTEXT_ARG_(user_context), \
        (DAT_COMPLETION_FLAGS) (flags))

/**
 * Gathers a part of each member in the root's buffer: parts of different size.
 *
 * @param[in]  sendbuf   the part of this member
 * @param[out] recvbuf   the parts; written on the root only
 * @param[in]  recvsizes bytes of each part, one number for each rank
 * @param[in]  displs    where each part begins in recvbuf, in bytes, one number for each rank
 * @param[in]  root      rank of the member that gets
 *
 * Otherwise as dat_ib_collective_scatter().
 */
#define dat_ib_collective_gatherv(coll_handle, sendbuf, sendsize, recvbuf, recvsizes, \
    displs, root, user_context, flags) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_GATHERV_OP, (DAT_PVOID) (sendbuf), \
        (DAT_COUNT) (sendsize), (DAT_PVOID) (recvbuf), (DAT_COUNT *) (recvsizes), \
        (DAT_COUNT *) (displs), (DAT_IB_COLLECTIVE_RANK) (root), \
        DAT_IB_CONTEXT_ARG_(user_context), (DAT_COMPLETION_FLAGS) (flags))

/**
 * Gathers a part of each member in the buffers of all: equal parts, in order of rank.
 *
 * @param[in]  sendbuf  the part of this member
 * @param[in]  sendsize bytes of it
 * @param[out] recvbuf  the parts
 * @param[in]  recvsize bytes of each part
 *
 * Otherwise as dat_ib_collective_scatter().
 */
#define dat_ib_collective_allgather(coll_handle, sendbuf, sendsize, recvbuf, recvsize, \
    user_context, flags) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_ALLGATHER_OP, (DAT_PVOID) (sendbuf), \
        (DAT_COUNT) (sendsize), (DAT_PVOID) (recvbuf), (DAT_COUNT) (recvsize), \
        DAT_IB_CONTEXT_ARG_(user_context), (DAT_COMPLETION_FLAGS) (flags))

/**
 * Gathers a part of each member in the buffers of all: parts of different size.
 *
 * @param[in]  sendbuf   the part of this member
 * @param[out] recvbuf   the parts
 * @param[in]  recvsizes bytes of each part, one number for each rank
 * @param[in]  displs    where each part begins in recvbuf, in bytes, one number for each rank
 *
 * Otherwise as dat_ib_collective_scatter().
 */
#define dat_ib_collective_allgatherv(coll_handle, sendbuf, sendsize, recvbuf, recvsizes, \
    displs, user_context, flags) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_ALLGATHERV_OP, (DAT_PVOID) (sendbuf), \
        (DAT_COUNT) (sendsize), (DAT_PVOID) (recvbuf), (DAT_COUNT *) (recvsizes), \
        (DAT_COUNT *) (displs), DAT_IB_CONTEXT_ARG_(user_context), \
        (DAT_COMPLETION_FLAGS) (flags))

/**
 * Sends a part of each member's buffer to each member: part j of rank i becomes
 * part i of rank j.
 *
 * @param[in]  sendbuf  a part for each member
 * @param[out] recvbuf  a part from each member
 * @param[in]  recvsize bytes of each part
 *
 * Otherwise as dat_ib_collective_scatter().
 */
#define dat_ib_collective_alltoall(coll_handle, sendbuf, sendsize, recvbuf, recvsize, \
    user_context, flags) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_ALLTOALL_OP, (DAT_PVOID) (sendbuf), \
        (DAT_COUNT) (sendsize), (DAT_PVOID) (recvbuf), (DAT_COUNT) (recvsize), \
        DAT_IB_CONTEXT_ARG_(user_context), (DAT_COMPLETION_FLAGS) (flags))

/**
 * Sends a part of each member's buffer to each member: parts of different size.
 *
 * @param[in]  sendbuf    a part for each member
 * @param[in]  sendsizes  bytes of each part, one number for each rank
 * @param[in]  senddispls where each begins in sendbuf, in bytes, one number for each rank
 * @param[out] recvbuf    a part from each member
 * @param[in]  recvsizes  bytes of each part, one number for each rank
 * @param[in]  recvdispls where each begins in recvbuf, in bytes, one number for each rank
 *
 * Otherwise as dat_ib_collective_scatter().
 */
#define dat_ib_collective_alltoallv(coll_handle, sendbuf, sendsizes, senddispls, recvbuf, \
    recvsizes, recvdispls, user_context, flags) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_ALLTOALLV_OP, (DAT_PVOID) (sendbuf), \
        (DAT_COUNT *) (sendsizes), (DAT_COUNT *) (senddispls), (DAT_PVOID) (recvbuf), \
        (DAT_COUNT *) (recvsizes), (DAT_COUNT *) (recvdispls), \
        DAT_IB_CONTEXT_ARG_(user_context), (DAT_COMPLETION_FLAGS) (flags))

/**
 * Combines the elements of all members by an operation, into the root's buffer.
 * Logical operations do not go with floating-point types; MINLOC and MAXLOC work
 * on pairs of a value and a rank.
 *
 * @param[in]  sendbuf  the elements of this member
 * @param[in]  sendsize bytes of them
 * @param[out] recvbuf  the results; written on the root only
 * @param[in]  recvsize bytes of them
 * @param[in]  op       DAT_IB_COLLECTIVE_REDUCE_OP_*
 * @param[in]  type     DAT_IB_COLLECTIVE_TYPE_*, of the elements
 * @param[in]  root     rank of the member that gets
 *
 * Otherwise as dat_ib_collective_scatter().
 */
#define dat_ib_collective_reduce(coll_handle, sendbuf, sendsize, recvbuf, recvsize, op, \
    type, root, user_context, flags) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_REDUCE_OP, (DAT_PVOID) (sendbuf), \
        (DAT_COUNT) (sendsize), (DAT_PVOID) (recvbuf), (DAT_COUNT) (recvsize), \
        (DAT_IB_COLLECTIVE_REDUCE_DATA_OP) (op), (DAT_IB_COLLECTIVE_DATA_TYPE) (type), \
        (DAT_IB_COLLECTIVE_RANK) (root), DAT_IB_CONTEXT_ARG_(user_context), \
        (DAT_COMPLETION_FLAGS) (flags))

/**
 * Combines the elements of all members by an operation, into the buffers of all.
 *
 * @param[out] recvbuf the results
 *
 * Otherwise as dat_ib_collective_reduce().
 */
#define dat_ib_collective_allreduce(coll_handle, sendbuf, sendsize, recvbuf, recvsize, op, \
    type, user_context, flags) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_ALLREDUCE_OP, (DAT_PVOID) (sendbuf), \
        (DAT_COUNT) (sendsize), (DAT_PVOID) (recvbuf), (DAT_COUNT) (recvsize), \
        (DAT_IB_COLLECTIVE_REDUCE_DATA_OP) (op), (DAT_IB_COLLECTIVE_DATA_TYPE) (type), \
        DAT_IB_CONTEXT_ARG_(user_context), (DAT_COMPLETION_FLAGS) (flags))

/**
 * Combines the elements of all members by an operation, and sends each member its part of the results.
 *
 * @param[out] recvbuf   the part of this member
 * @param[in]  recvsizes bytes of each part, one number for each rank
 *
 * Otherwise as dat_ib_collective_reduce().
 */
#define dat_ib_collective_reduce_scatter(coll_handle, sendbuf, sendsize, recvbuf, recvsizes, \
    op, type, user_context, flags) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_REDUCE_SCATTER_OP, (DAT_PVOID) (sendbuf), \
        (DAT_COUNT) (sendsize), (DAT_PVOID) (recvbuf), (DAT_COUNT *) (recvsizes), \
        (DAT_IB_COLLECTIVE_REDUCE_DATA_OP) (op), (DAT_IB_COLLECTIVE_DATA_TYPE) (type), \
        DAT_IB_CONTEXT_ARG_(user_context), (DAT_COMPLETION_FLAGS) (flags))

/**
 * Combines elements by an operation so that the member of rank i gets the result over ranks 0 to i.
 *
 * @param[out] recvbuf the results
 *
 * Otherwise as dat_ib_collective_reduce().
 */
#define dat_ib_collective_scan(coll_handle, sendbuf, sendsize, recvbuf, recvsize, op, type, \
    user_context, flags) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_SCAN_OP, (DAT_PVOID) (sendbuf), \
        (DAT_COUNT) (sendsize), (DAT_PVOID) (recvbuf), (DAT_COUNT) (recvsize), \
        (DAT_IB_COLLECTIVE_REDUCE_DATA_OP) (op), (DAT_IB_COLLECTIVE_DATA_TYPE) (type), \
        DAT_IB_CONTEXT_ARG_(user_context), (DAT_COMPLETION_FLAGS) (flags))

/**
 * Copies the root's buffer into this buffer of every member. An event tells the end.
 *
 * @param[in,out] buf  read on the root, written on the others. The provider's until the event
 * @param[in]     size bytes
 *
 * Otherwise as dat_ib_collective_scatter().
 */
#define dat_ib_collective_broadcast(coll_handle, buf, size, root, user_context, flags) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_BROADCAST_OP, (DAT_PVOID) (buf), (DAT_COUNT) (size), \
        (DAT_IB_COLLECTIVE_RANK) (root), DAT_IB_CONTEXT_ARG_(user_context), \
        (DAT_COMPLETION_FLAGS) (flags))

/**
 * Waits, by an event, until every member has called it.
 *
 * Otherwise as dat_ib_collective_scatter().
 */
#define dat_ib_collective_barrier(coll_handle, user_context, flags) \
    dat_extension_op((DAT_IB_COLLECTIVE_HANDLE) (coll_handle), \
        (DAT_IB_OP) DAT_IB_COLLECTIVE_BARRIER_OP, DAT_IB_CONTEXT_ARG_(user_context), \
        (DAT_COMPLETION_FLAGS) (flags))

#endif /* _DAT_IB_EXTENSIONS_H_ */
