/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/**
 * @file udat.h
 * User-level DAT 1.2: the header that a consumer includes. It brings in
 * all of dat.h and adds what exists at user level only: CNOs, waiting, memory
 * registration, and the attributes of adapters and providers.
 *
 * How to read the descriptions of calls is said at the top of dat.h.
 */
#if defined(DAT_VERSION_MAJOR) && DAT_VERSION_MAJOR != 1
#error "the headers of DAT 1.2 (dat/) and DAT 2.0 (dat2/) cannot be used in one source file"
#endif
#ifndef _UDAT_H_
#define _UDAT_H_

#include <dat/udat_config.h>
#include <dat/dat_platform_specific.h>
#include <dat/dat.h>
#include <dat/udat_vendor_specific.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Event dispatchers and CNOs ========================================== */

typedef DAT_HANDLE DAT_CNO_HANDLE; /**< consumer notification object */

struct dat_evd_param {
    DAT_IA_HANDLE  ia_handle;
    DAT_COUNT      evd_qlen;
    DAT_EVD_STATE  evd_state;
    DAT_CNO_HANDLE cno_handle;
    DAT_EVD_FLAGS  evd_flags;
};

/*
 * Stand-ins for the asynchronous error EVD of dat_ia_open() and dat_ia_query():
 * another instance of the adapter has one already, and it is out of reach of
 * this one. The reference implementation refuses the first.
 */
#define DAT_EVD_ASYNC_EXISTS (DAT_EVD_HANDLE) 0x1
#define DAT_EVD_OUT_OF_SCOPE (DAT_EVD_HANDLE) 0x2

/** Called once when a CNO is triggered, from a thread of the provider's. */
typedef void (DAT_API *DAT_AGENT_FUNC)(DAT_PVOID instance_data, DAT_EVD_HANDLE evd_handle);

typedef struct dat_os_wait_proxy_agent {
    DAT_PVOID      instance_data;
    DAT_AGENT_FUNC proxy_agent_func;
} DAT_OS_WAIT_PROXY_AGENT;

/** No agent: the initialiser of a variable, or an argument. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define DAT_OS_WAIT_PROXY_AGENT_NULL (DAT_OS_WAIT_PROXY_AGENT{NULL, NULL})
#elif defined(__GNUC__)
#define DAT_OS_WAIT_PROXY_AGENT_NULL \
    __extension__ (DAT_OS_WAIT_PROXY_AGENT) {(DAT_PVOID) NULL, (DAT_AGENT_FUNC) NULL}
#else
#define DAT_OS_WAIT_PROXY_AGENT_NULL \
    (DAT_OS_WAIT_PROXY_AGENT) {(DAT_PVOID) NULL, (DAT_AGENT_FUNC) NULL}
#endif

typedef struct dat_cno_param {
    DAT_IA_HANDLE           ia_handle;
    DAT_OS_WAIT_PROXY_AGENT agent;
} DAT_CNO_PARAM;

typedef enum dat_cno_param_mask {
    DAT_CNO_FIELD_IA_HANDLE = 0x1,
    DAT_CNO_FIELD_AGENT     = 0x2,
    DAT_CNO_FIELD_ALL       = 0x3
} DAT_CNO_PARAM_MASK;

/* ==== Memory ============================================================== */

#define DAT_LMR_COOKIE_SIZE 40                          /**< bytes */
typedef char (*DAT_LMR_COOKIE)[DAT_LMR_COOKIE_SIZE];    /**< names shared memory across processes */

typedef struct dat_shared_memory {
    DAT_PVOID      virtual_address;
    DAT_LMR_COOKIE shared_memory_id; /**< equal in all processes, which agree on the length */
} DAT_SHARED_MEMORY;

/** The memory of an LMR; which member counts follows from its DAT_MEM_TYPE. */
typedef union dat_region_description {
    DAT_PVOID         for_va;
    DAT_LMR_HANDLE    for_lmr_handle;
    DAT_SHARED_MEMORY for_shared_memory;
} DAT_REGION_DESCRIPTION;

struct dat_lmr_param {
    DAT_IA_HANDLE          ia_handle;
    DAT_MEM_TYPE           mem_type;
    DAT_REGION_DESCRIPTION region_desc;
    DAT_VLEN               length;             /**< requested length, bytes */
    DAT_PZ_HANDLE          pz_handle;
    DAT_MEM_PRIV_FLAGS     mem_priv;
    DAT_LMR_CONTEXT        lmr_context;
    DAT_RMR_CONTEXT        rmr_context;
    DAT_VLEN               registered_size;    /**< length in effect, bytes */
    DAT_VADDR              registered_address;
};

/* ==== Adapter attributes ================================================== */

struct dat_ia_attr {
    char               adapter_name[DAT_NAME_MAX_LENGTH];
    char               vendor_name[DAT_NAME_MAX_LENGTH];
    DAT_UINT32         hardware_version_major;
    DAT_UINT32         hardware_version_minor;
    DAT_UINT32         firmware_version_major;
    DAT_UINT32         firmware_version_minor;
    DAT_IA_ADDRESS_PTR ia_address_ptr;                      /**< lives as long as the adapter */
    DAT_COUNT          max_eps;
    DAT_COUNT          max_dto_per_ep;
    DAT_COUNT          max_rdma_read_per_ep_in;             /**< reads of its memory */
    DAT_COUNT          max_rdma_read_per_ep_out;            /**< reads it posted */
    DAT_COUNT          max_evds;
    DAT_COUNT          max_evd_qlen;
    DAT_COUNT          max_iov_segments_per_dto;            /**< sends and receives */
    DAT_COUNT          max_lmrs;
    DAT_VLEN           max_lmr_block_size;                  /**< bytes */
    DAT_VADDR          max_lmr_virtual_address;
    DAT_COUNT          max_pzs;
    DAT_VLEN           max_message_size;                    /**< bytes */
    DAT_VLEN           max_rdma_size;                       /**< bytes */
    DAT_COUNT          max_rmrs;
    DAT_VADDR          max_rmr_target_address;
    DAT_COUNT          max_srqs;
    DAT_COUNT          max_ep_per_srq;
    DAT_COUNT          max_recv_per_srq;
    DAT_COUNT          max_iov_segments_per_rdma_read;
    DAT_COUNT          max_iov_segments_per_rdma_write;
    DAT_COUNT          max_rdma_read_in;                    /**< all endpoints together */
    DAT_COUNT          max_rdma_read_out;                   /**< all endpoints together */
    DAT_BOOLEAN        max_rdma_read_per_ep_in_guaranteed;  /**< holds for all endpoints at once */
    DAT_BOOLEAN        max_rdma_read_per_ep_out_guaranteed; /**< holds for all endpoints at once */
    DAT_COUNT          num_transport_attr;
    DAT_NAMED_ATTR    *transport_attr;
    DAT_COUNT          num_vendor_attr;
    DAT_NAMED_ATTR    *vendor_attr;
};

#define DAT_IA_FIELD_IA_NUM_TRANSPORT_ATTR UINT64_C(0x080000000)
#define DAT_IA_FIELD_IA_TRANSPORT_ATTR     UINT64_C(0x100000000)
#define DAT_IA_FIELD_IA_NUM_VENDOR_ATTR    UINT64_C(0x200000000)
#define DAT_IA_FIELD_IA_VENDOR_ATTR        UINT64_C(0x400000000)
#define DAT_IA_FIELD_ALL                   UINT64_C(0x7FFFFFFFF)

/* ==== Provider attributes ================================================= */

typedef enum dat_pz_support {
    DAT_PZ_UNIQUE    = 0,
    DAT_PZ_SAME      = 1,
    DAT_PZ_SHAREABLE = 2
} DAT_PZ_SUPPORT;

/**
 * What a provider promises.
 *
 * evd_stream_merging_supported[i][j] says whether one EVD may take in the
 * streams i and j: 0 software, 1 connection requests, 2 DTO completions,
 * 3 connection events, 4 RMR binds, 5 asynchronous errors. It is `const`, so in
 * C++ a variable of this type needs an initialiser: `DAT_PROVIDER_ATTR a{};`.
 */
struct dat_provider_attr {
    char                   provider_name[DAT_NAME_MAX_LENGTH];
    DAT_UINT32             provider_version_major;
    DAT_UINT32             provider_version_minor;
    DAT_UINT32             dapl_version_major;
    DAT_UINT32             dapl_version_minor;
    DAT_MEM_TYPE           lmr_mem_types_supported;
    DAT_IOV_OWNERSHIP      iov_ownership_on_return;
    DAT_QOS                dat_qos_supported;
    DAT_COMPLETION_FLAGS   completion_flags_supported;
    DAT_BOOLEAN            is_thread_safe;
    DAT_COUNT              max_private_data_size;          /**< bytes */
    DAT_BOOLEAN            supports_multipath;
    DAT_EP_CREATOR_FOR_PSP ep_creator;
    DAT_PZ_SUPPORT         pz_support;
    DAT_UINT32             optimal_buffer_alignment;       /**< bytes */
    const DAT_BOOLEAN      evd_stream_merging_supported[6][6];
    DAT_BOOLEAN            srq_supported;
    DAT_COUNT              srq_watermarks_supported;
    DAT_BOOLEAN            srq_ep_pz_difference_supported;
    DAT_COUNT              srq_info_supported;             /**< counts of dat_srq_query() */
    DAT_COUNT              ep_recv_info_supported;         /**< counts of dat_ep_recv_query() */
    DAT_BOOLEAN            lmr_sync_req;                   /**< dat_lmr_sync_rdma_read() and _write() are needed */
    DAT_BOOLEAN            dto_async_return_guaranteed;    /**< posts never wait for the transfer */
    DAT_BOOLEAN            rdma_write_for_rdma_read_req;   /**< what a read goes into needs remote write */
    DAT_COUNT              num_provider_specific_attr;
    DAT_NAMED_ATTR        *provider_specific_attr;         /**< lives as long as the adapter */
};

#define DAT_PROVIDER_FIELD_NONE                           UINT64_C(0x0000000)
#define DAT_PROVIDER_FIELD_PROVIDER_NAME                  UINT64_C(0x0000001)
#define DAT_PROVIDER_FIELD_PROVIDER_VERSION_MAJOR         UINT64_C(0x0000002)
#define DAT_PROVIDER_FIELD_PROVIDER_VERSION_MINOR         UINT64_C(0x0000004)
#define DAT_PROVIDER_FIELD_DAPL_VERSION_MAJOR             UINT64_C(0x0000008)
#define DAT_PROVIDER_FIELD_DAPL_VERSION_MINOR             UINT64_C(0x0000010)
#define DAT_PROVIDER_FIELD_LMR_MEM_TYPE_SUPPORTED         UINT64_C(0x0000020)
#define DAT_PROVIDER_FIELD_IOV_OWNERSHIP                  UINT64_C(0x0000040)
#define DAT_PROVIDER_FIELD_DAT_QOS_SUPPORTED              UINT64_C(0x0000080)
#define DAT_PROVIDER_FIELD_COMPLETION_FLAGS_SUPPORTED     UINT64_C(0x0000100)
#define DAT_PROVIDER_FIELD_IS_THREAD_SAFE                 UINT64_C(0x0000200)
#define DAT_PROVIDER_FIELD_MAX_PRIVATE_DATA_SIZE          UINT64_C(0x0000400)
#define DAT_PROVIDER_FIELD_SUPPORTS_MULTIPATH             UINT64_C(0x0000800)
#define DAT_PROVIDER_FIELD_EP_CREATOR                     UINT64_C(0x0001000)
#define DAT_PROVIDER_FIELD_PZ_SUPPORT                     UINT64_C(0x0002000)
#define DAT_PROVIDER_FIELD_OPTIMAL_BUFFER_ALIGNMENT       UINT64_C(0x0004000)
#define DAT_PROVIDER_FIELD_EVD_STREAM_MERGING_SUPPORTED   UINT64_C(0x0008000)
#define DAT_PROVIDER_FIELD_SRQ_SUPPORTED                  UINT64_C(0x0010000)
#define DAT_PROVIDER_FIELD_SRQ_WATERMARKS_SUPPORTED       UINT64_C(0x0020000)
#define DAT_PROVIDER_FIELD_SRQ_EP_PZ_DIFFERENCE_SUPPORTED UINT64_C(0x0040000)
#define DAT_PROVIDER_FIELD_SRQ_INFO_SUPPORTED             UINT64_C(0x0080000)
#define DAT_PROVIDER_FIELD_EP_RECV_INFO_SUPPORTED         UINT64_C(0x0100000)
#define DAT_PROVIDER_FIELD_LMR_SYNC_REQ                   UINT64_C(0x0200000)
#define DAT_PROVIDER_FIELD_DTO_ASYNC_RETURN_GUARANTEED    UINT64_C(0x0400000)
#define DAT_PROVIDER_FIELD_RDMA_WRITE_FOR_RDMA_READ_REQ   UINT64_C(0x0800000)
#define DAT_PROVIDER_FIELD_NUM_PROVIDER_SPECIFIC_ATTR     UINT64_C(0x1000000)
#define DAT_PROVIDER_FIELD_PROVIDER_SPECIFIC_ATTR         UINT64_C(0x2000000)
#define DAT_PROVIDER_FIELD_ALL                            UINT64_C(0x3FFFFFF)

/* ==== Calls: memory ======================================================= */

/**
 * Registers memory with the adapter, for local and possibly remote use.
 *
 * @param[in]  ia_handle  the adapter
 * @param[in]  mem_type   what kind of memory
 * @param[in]  region_description where. The memory stays the caller's, and
 *                        must stay mapped until dat_lmr_free()
 * @param[in]  length     bytes
 * @param[in]  pz_handle  its protection zone
 * @param[in]  privileges DAT_MEM_PRIV_*, or-ed
 * @param[out] lmr_handle ended by dat_lmr_free()
 * @param[out] lmr_context names it in local segments; may be NULL
 * @param[out] rmr_context names it to peers; 0 without remote privileges; may
 *                        be NULL
 * @param[out] registered_length bytes, possibly rounded up; may be NULL
 * @param[out] registered_address possibly rounded down; may be NULL
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `IA`, `PZ`; `LMR`: the region to take after
 * @retval DAT_INVALID_PARAMETER `ARG2`: mem_type. `ARG6`: privileges. `ARG7`:
 *         lmr_handle is NULL
 * @retval DAT_LENGTH_ERROR length is 0, or not that of the regions which
 *         have the cookie
 * @retval DAT_INVALID_STATE the memory is not shared
 * @retval DAT_MODEL_NOT_SUPPORTED this mem_type
 * @retval DAT_INSUFFICIENT_RESOURCES `MEMORY`, `MEMORY_REGION`
 * @retval DAT_PROTECTION_VIOLATION not all of the memory is there, or it is
 *         read-only and privileges ask for more
 *
 * Threads: safe. Rule: dat_lmr_create(3DAT); length 0 is reference
 * implementation practice, and so is that a device refuses memory, whose
 * code for it differs.
 */
DAT_RETURN DAT_API dat_lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE mem_type,
                                  DAT_REGION_DESCRIPTION region_description, DAT_VLEN length,
                                  DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS privileges,
                                  DAT_LMR_HANDLE *lmr_handle, DAT_LMR_CONTEXT *lmr_context,
                                  DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_length,
                                  DAT_VADDR *registered_address);

/**
 * Tells what an LMR was made with, and the registration that it got.
 *
 * @param[in]  lmr_handle the region
 * @param[in]  lmr_param_mask DAT_LMR_FIELD_*
 * @param[out] lmr_param  caller's storage
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `LMR`
 * @retval DAT_INVALID_PARAMETER `ARG2`: unknown bits. `ARG3`: lmr_param is NULL
 *
 * Threads: per object. Rule: dat_lmr_query(3DAT).
 */
DAT_RETURN DAT_API dat_lmr_query(DAT_LMR_HANDLE lmr_handle, DAT_LMR_PARAM_MASK lmr_param_mask,
                                 DAT_LMR_PARAM *lmr_param);

/* ==== Calls: event dispatchers ============================================ */

/**
 * Creates an event dispatcher, enabled and waitable.
 *
 * @param[in]  ia_handle    the adapter
 * @param[in]  evd_min_qlen least length, in events; positive
 * @param[in]  cno_handle   the CNO it triggers, or DAT_HANDLE_NULL
 * @param[in]  evd_flags    the streams it takes in, or-ed
 * @param[out] evd_handle   ended by dat_evd_free()
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `IA`, `CNO`
 * @retval DAT_INVALID_PARAMETER `ARG2`: length not positive. `ARG4`: no or
 *         unknown streams, or such as cannot be merged. `ARG5`: evd_handle is
 *         NULL
 * @retval DAT_INSUFFICIENT_RESOURCES `TEVD`: longer than the adapter's
 *         max_evd_qlen; `MEMORY`
 *
 * Threads: safe. Rule: reference implementation practice (there is no page in
 * 3DAT).
 */
DAT_RETURN DAT_API dat_evd_create(DAT_IA_HANDLE ia_handle, DAT_COUNT evd_min_qlen,
                                  DAT_CNO_HANDLE cno_handle, DAT_EVD_FLAGS evd_flags,
                                  DAT_EVD_HANDLE *evd_handle);

/**
 * Gives an EVD another CNO. Events that are pending trigger it at once.
 *
 * @param[in] evd_handle the EVD
 * @param[in] cno_handle the CNO, or DAT_HANDLE_NULL for none
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE the EVD; `CNO`
 *
 * Threads: per object. Rule: dat_evd_modify_cno(3DAT).
 */
DAT_RETURN DAT_API dat_evd_modify_cno(DAT_EVD_HANDLE evd_handle, DAT_CNO_HANDLE cno_handle);

/**
 * Lets an EVD trigger its CNO. Events that are pending do so at once.
 *
 * @param[in] evd_handle the EVD
 *
 * @retval DAT_SUCCESS also if it was enabled before
 * @retval DAT_INVALID_HANDLE
 *
 * Threads: safe. Rule: dat_evd_enable(3DAT).
 */
DAT_RETURN DAT_API dat_evd_enable(DAT_EVD_HANDLE evd_handle);

/**
 * Keeps an EVD from triggering its CNO. Threads in dat_evd_wait() are woken as
 * before, and events gather as before.
 *
 * @param[in] evd_handle the EVD
 *
 * @retval DAT_SUCCESS also if it was disabled before
 * @retval DAT_INVALID_HANDLE
 *
 * Threads: safe. Rule: dat_evd_disable(3DAT).
 */
DAT_RETURN DAT_API dat_evd_disable(DAT_EVD_HANDLE evd_handle);

/**
 * Waits until an EVD holds a number of events, and takes the first one.
 *
 * @param[in]  evd_handle the EVD; no other thread may wait in it
 * @param[in]  timeout    microseconds for the whole wait; 0 looks only;
 *                        DAT_TIMEOUT_INFINITE
 * @param[in]  threshold  how many events; 1 where the completion flags of an
 *                        endpoint choose which completions notify
 * @param[out] event      the event
 * @param[out] nmore      how many are left; valid after a timeout too
 *
 * @retval DAT_SUCCESS
 * @retval DAT_TIMEOUT_EXPIRED the bare code; no event was taken
 * @retval DAT_INTERRUPTED_CALL a handler of a signal ran that was installed without SA_RESTART;
 * the bare code
 * @retval DAT_ABORT the EVD or its adapter went away
 * @retval DAT_INVALID_HANDLE
 * @retval DAT_INVALID_PARAMETER `ARG3`: threshold not positive, or above the
 *         length. `ARG4`, `ARG5`: a NULL pointer
 * @retval DAT_INVALID_STATE another thread waits, the queue has overflowed, or
 *         the threshold has to be 1; `EVD_UNWAITABLE`: also when that is set
 *         during the wait
 *
 * Threads: safe. Rule: dat_evd_wait(3DAT).
 */
DAT_RETURN DAT_API dat_evd_wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout,
                                DAT_COUNT threshold, DAT_EVENT *event, DAT_COUNT *nmore);

/**
 * Forbids dat_evd_wait() on an EVD; a thread in it returns.
 *
 * @param[in] evd_handle the EVD
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE
 *
 * Threads: safe. Rule: dat_evd_set_unwaitable(3DAT).
 */
DAT_RETURN DAT_API dat_evd_set_unwaitable(DAT_EVD_HANDLE evd_handle);

/**
 * Allows dat_evd_wait() again.
 *
 * @param[in] evd_handle the EVD
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE
 *
 * Threads: safe. Rule: dat_evd_clear_unwaitable(3DAT).
 */
DAT_RETURN DAT_API dat_evd_clear_unwaitable(DAT_EVD_HANDLE evd_handle);

/* ==== Calls: consumer notification objects ================================ */

/**
 * Creates a CNO: a place to wait for several EVDs at once.
 *
 * @param[in]  ia_handle  the adapter
 * @param[in]  agent      called at the next trigger and then forgotten, or
 *                        DAT_OS_WAIT_PROXY_AGENT_NULL
 * @param[out] cno_handle ended by dat_cno_free()
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `IA`
 * @retval DAT_INVALID_PARAMETER `ARG2`: bad agent. `ARG3`: cno_handle is NULL
 * @retval DAT_INSUFFICIENT_RESOURCES `MEMORY`
 *
 * Threads: safe. Rule: dat_cno_create(3DAT).
 */
DAT_RETURN DAT_API dat_cno_create(DAT_IA_HANDLE ia_handle, DAT_OS_WAIT_PROXY_AGENT agent,
                                  DAT_CNO_HANDLE *cno_handle);

/**
 * Replaces the agent of a CNO.
 *
 * @param[in] cno_handle the CNO
 * @param[in] agent      as in dat_cno_create()
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `CNO`
 * @retval DAT_INVALID_PARAMETER `ARG2`: bad agent
 *
 * Threads: per object. Rule: dat_cno_modify_agent(3DAT).
 */
DAT_RETURN DAT_API dat_cno_modify_agent(DAT_CNO_HANDLE cno_handle, DAT_OS_WAIT_PROXY_AGENT agent);

/**
 * Tells adapter and agent of a CNO.
 *
 * @param[in]  cno_handle the CNO
 * @param[in]  cno_param_mask DAT_CNO_FIELD_*
 * @param[out] cno_param  caller's storage
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `CNO`
 * @retval DAT_INVALID_PARAMETER `ARG2`: unknown bits. `ARG3`: cno_param is NULL
 *
 * Threads: per object. Rule: dat_cno_query(3DAT).
 */
DAT_RETURN DAT_API dat_cno_query(DAT_CNO_HANDLE cno_handle, DAT_CNO_PARAM_MASK cno_param_mask,
                                 DAT_CNO_PARAM *cno_param);

/**
 * Frees a CNO.
 *
 * @param[in] cno_handle the CNO; no longer valid after success
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `CNO`
 * @retval DAT_INVALID_STATE `CNO_IN_USE`: an EVD has it, or a thread waits
 *
 * Threads: per object. Rule: dat_cno_free(3DAT).
 */
DAT_RETURN DAT_API dat_cno_free(DAT_CNO_HANDLE cno_handle);

/**
 * Waits until an EVD triggers the CNO. A trigger before the wait counts; each
 * trigger releases one waiter.
 *
 * @param[in]  cno_handle the CNO
 * @param[in]  timeout    microseconds; 0 looks only; DAT_TIMEOUT_INFINITE
 * @param[out] evd_handle the first EVD that triggered. A hint: it may be empty
 *                        by now, and others may have events too. DAT_HANDLE_NULL
 *                        on timeout, or when its last EVD is gone
 *
 * @retval DAT_SUCCESS
 * @retval DAT_QUEUE_EMPTY the time is up; the bare code
 * @retval DAT_INTERRUPTED_CALL a handler of a signal ran that was installed without SA_RESTART;
 * the bare code
 * @retval DAT_INVALID_HANDLE `CNO`
 * @retval DAT_INVALID_PARAMETER `ARG2`: bad timeout. `ARG3`: evd_handle is NULL
 * @retval DAT_INVALID_STATE `CNO_DEAD`: it is being freed
 *
 * Threads: safe. Rule: dat_cno_wait(3DAT).
 */
DAT_RETURN DAT_API dat_cno_wait(DAT_CNO_HANDLE cno_handle, DAT_TIMEOUT timeout,
                                DAT_EVD_HANDLE *evd_handle);

#ifdef __cplusplus
}
#endif

#endif /* _UDAT_H_ */
