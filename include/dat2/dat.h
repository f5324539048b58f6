/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/**
 * @file dat.h
 * The part of the DAT 2.0 API that does not depend on user level: types,
 * attributes, events, and most calls. Consumers include udat.h, which adds
 * the rest.
 *
 * @section dat_reading How to read the call descriptions
 *
 * - `TYPE/SUBTYPE` is a return code of that type and subtype. The prefixes
 *   are left out of subtypes: `DAT_INVALID_HANDLE/EP` is
 *   `DAT_INVALID_HANDLE` with `DAT_INVALID_HANDLE_EP`.
 * - Every call may return DAT_INVALID_HANDLE for a null, small-integer, stale
 *   or wrong-type handle, and DAT_INTERNAL_ERROR for a failure of the
 *   provider. Neither is repeated where nothing more is to be said.
 * - A required OUT pointer that is NULL gives DAT_INVALID_PARAMETER/ARGn,
 *   n being its position counted from 1 with the handle included. OUT values
 *   are written on success only, except where stated.
 * - Times are in microseconds, sizes in bytes.
 * - Handles, and what query calls point at, belong to the provider. Buffers,
 *   attribute structures and addresses belong to the caller and are needed
 *   only for the duration of a call, except where stated. Memory named by a
 *   posted operation belongs to the provider until its completion arrives.
 * - "Threads: safe" means from any thread at any time. "Threads: per object"
 *   means that two threads may make such calls at once on different objects;
 *   on one object only if the adapter was opened as thread-safe
 *   (DAT_THREADSAFE).
 * - The last line, "Rule", names the source: a page of the DAT manual section
 *   3DAT, the DAT 2.0 specification where no such page exists, or the
 *   practice of the reference implementation (OFED DAPL).
 */
#ifndef _DAT_H_
#define _DAT_H_

#include <dat2/udat_config.h>
#include <dat2/dat_platform_specific.h>
#include <dat2/dat_error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Basic types ========================================================= */

typedef enum dat_boolean {
    DAT_FALSE = 0,
    DAT_TRUE  = 1
} DAT_BOOLEAN;

typedef char *DAT_NAME_PTR;         /**< a name of at most DAT_NAME_MAX_LENGTH - 1 characters */
#define DAT_NAME_MAX_LENGTH 256

/** An attribute that DAT itself has no field for. */
typedef struct dat_named_attr {
    const char *name;
    const char *value;
} DAT_NAMED_ATTR;

/** A value of the consumer's that DAT only carries and hands back. */
typedef union dat_context {
    DAT_PVOID     as_ptr;
    DAT_UINT64    as_64;
    DAT_UVERYLONG as_index;
} DAT_CONTEXT;

typedef DAT_CONTEXT DAT_DTO_COOKIE; /**< returned with the completion of a transfer */
typedef DAT_CONTEXT DAT_RMR_COOKIE; /**< returned with the completion of a bind */

typedef DAT_UINT32 DAT_TIMEOUT;     /**< microseconds */
#define DAT_TIMEOUT_INFINITE ((DAT_TIMEOUT) ~0)

typedef DAT_UINT64 DAT_CONN_QUAL;   /**< the address on which a service point listens */
typedef DAT_UINT64 DAT_PORT_QUAL;   /**< the transport's port of an endpoint */

/** The address of an adapter; storage belongs to its creator. */
typedef DAT_SOCK_ADDR *DAT_IA_ADDRESS_PTR;

/* ==== Handles ============================================================= */

typedef DAT_PVOID  DAT_HANDLE;
typedef DAT_HANDLE DAT_IA_HANDLE;   /**< interface adapter */
typedef DAT_HANDLE DAT_CR_HANDLE;   /**< connection request */
typedef DAT_HANDLE DAT_CSP_HANDLE;  /**< common service point */
typedef DAT_HANDLE DAT_EP_HANDLE;   /**< endpoint */
typedef DAT_HANDLE DAT_EVD_HANDLE;  /**< event dispatcher */
typedef DAT_HANDLE DAT_LMR_HANDLE;  /**< local memory region */
typedef DAT_HANDLE DAT_PSP_HANDLE;  /**< public service point */
typedef DAT_HANDLE DAT_PZ_HANDLE;   /**< protection zone */
typedef DAT_HANDLE DAT_RMR_HANDLE;  /**< remote memory region (a window) */
typedef DAT_HANDLE DAT_RSP_HANDLE;  /**< reserved service point */
typedef DAT_HANDLE DAT_SRQ_HANDLE;  /**< shared receive queue */

#define DAT_HANDLE_NULL ((DAT_HANDLE)NULL)

/** What dat_get_handle_type() answers. */
typedef enum dat_handle_type {
    DAT_HANDLE_TYPE_CR             = 0,
    DAT_HANDLE_TYPE_EP             = 1,
    DAT_HANDLE_TYPE_EVD            = 2,
    DAT_HANDLE_TYPE_IA             = 3,
    DAT_HANDLE_TYPE_LMR            = 4,
    DAT_HANDLE_TYPE_PSP            = 5,
    DAT_HANDLE_TYPE_PZ             = 6,
    DAT_HANDLE_TYPE_RMR            = 7,
    DAT_HANDLE_TYPE_RSP            = 8,
    DAT_HANDLE_TYPE_CNO            = 9,
    DAT_HANDLE_TYPE_SRQ            = 10,
    DAT_HANDLE_TYPE_CSP            = 11,
    DAT_HANDLE_TYPE_EXTENSION_BASE = 12
} DAT_HANDLE_TYPE;

/* ==== Service, closing and completion flags =============================== */

typedef enum dat_qos {
    DAT_QOS_BEST_EFFORT     = 0x00,
    DAT_QOS_HIGH_THROUGHPUT = 0x01,
    DAT_QOS_LOW_LATENCY     = 0x02,
    DAT_QOS_ECONOMY         = 0x04, /**< may be neither fast nor quick */
    DAT_QOS_PREMIUM         = 0x08  /**< both */
} DAT_QOS;

typedef enum dat_service_type {
    DAT_SERVICE_TYPE_RC             = 0, /**< reliable connection */
    DAT_SERVICE_TYPE_EXTENSION_BASE = 1
} DAT_SERVICE_TYPE;

typedef enum dat_connect_flags {
    DAT_CONNECT_DEFAULT_FLAG            = 0x00,
    DAT_CONNECT_MULTIPATH_FLAG          = 0x01, /**< several paths, if there are */
    DAT_CONNECT_MULTIPATH_REQUIRED_FLAG = 0x02  /**< several paths, or no connection */
} DAT_CONNECT_FLAGS;

#define DAT_CONNECT_MULTIPATH_REQUESTED_FLAG DAT_CONNECT_MULTIPATH_FLAG

typedef enum dat_close_flags {
    DAT_CLOSE_ABRUPT_FLAG   = 0x00,
    DAT_CLOSE_GRACEFUL_FLAG = 0x01
} DAT_CLOSE_FLAGS;

#define DAT_CLOSE_DEFAULT DAT_CLOSE_ABRUPT_FLAG

/** How one operation, or all operations of one queue, complete. */
typedef enum dat_completion_flags {
    DAT_COMPLETION_DEFAULT_FLAG              = 0x00, /**< an event that wakes a waiter */
    DAT_COMPLETION_SUPPRESS_FLAG             = 0x01, /**< no event, unless it fails */
    DAT_COMPLETION_SOLICITED_WAIT_FLAG       = 0x02, /**< a send: wake the peer's waiter; endpoint attribute: only such receives wake */
    DAT_COMPLETION_UNSIGNALLED_FLAG          = 0x04, /**< an event that wakes no waiter and triggers no CNO */
    DAT_COMPLETION_BARRIER_FENCE_FLAG        = 0x08, /**< start after all earlier RDMA reads */
    DAT_COMPLETION_EVD_THRESHOLD_FLAG        = 0x10, /**< endpoint attribute: dat_evd_wait()'s threshold decides */
    DAT_COMPLETION_LMR_INVALIDATE_FENCE_FLAG = 0x20  /**< kernel-level DAT only */
} DAT_COMPLETION_FLAGS;

/** The operation that a data-transfer completion reports. */
typedef enum dat_dtos {
    DAT_DTO_SEND                    = 0,
    DAT_DTO_RDMA_WRITE              = 1,
    DAT_DTO_RDMA_READ               = 2,
    DAT_DTO_RECEIVE                 = 3,
    DAT_DTO_RECEIVE_WITH_INVALIDATE = 4,
    DAT_DTO_BIND_MW                 = 5,
    DAT_DTO_LMR_FMR                 = 6, /**< kernel-level DAT only */
    DAT_DTO_LMR_INVALIDATE          = 7, /**< kernel-level DAT only */
    DAT_DTO_EXTENSION_BASE          = 8
} DAT_DTOS;

/* ==== Memory ============================================================== */

typedef DAT_UINT32 DAT_LMR_CONTEXT; /**< names an LMR in local segments */
typedef DAT_UINT32 DAT_RMR_CONTEXT; /**< names memory to the peer, in its remote segments */
typedef DAT_UINT64 DAT_VLEN;
typedef DAT_UINT64 DAT_VADDR;       /**< 64 bits on every machine, host byte order */
typedef DAT_UINT32 DAT_SEG_LENGTH;

/** A local segment. If its length is 0, the other fields are not looked at. */
typedef struct dat_lmr_triplet {
    DAT_VADDR       virtual_address;
    DAT_SEG_LENGTH  segment_length;
    DAT_LMR_CONTEXT lmr_context;
} DAT_LMR_TRIPLET;

/**
 * A segment of the peer's memory, in host byte order. Programs that send it to
 * one another agree on a byte order of their own.
 */
typedef struct dat_rmr_triplet {
    DAT_VADDR       virtual_address;
    DAT_SEG_LENGTH  segment_length;
    DAT_RMR_CONTEXT rmr_context;
} DAT_RMR_TRIPLET;

/** The kind of memory that an LMR is made of. */
typedef enum dat_mem_type {
    DAT_MEM_TYPE_VIRTUAL        = 0x00, /**< an address range of this process */
    DAT_MEM_TYPE_LMR            = 0x01, /**< the memory of another LMR */
    DAT_MEM_TYPE_SHARED_VIRTUAL = 0x02  /**< memory shared by several processes */
} DAT_MEM_TYPE;

typedef enum dat_mem_priv_flags {
    DAT_MEM_PRIV_NONE_FLAG         = 0x00,
    DAT_MEM_PRIV_LOCAL_READ_FLAG   = 0x01,
    DAT_MEM_PRIV_REMOTE_READ_FLAG  = 0x02,
    DAT_MEM_PRIV_LOCAL_WRITE_FLAG  = 0x10,
    DAT_MEM_PRIV_REMOTE_WRITE_FLAG = 0x20,
    DAT_MEM_PRIV_ALL_FLAG          = 0x33,
    DAT_MEM_PRIV_EXTENSION_BASE    = 0x40
} DAT_MEM_PRIV_FLAGS;

/* The two privileges of DAT 1.0. */
#define DAT_MEM_PRIV_READ_FLAG  (DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG)
#define DAT_MEM_PRIV_WRITE_FLAG (DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG)

/** How segments address a region. */
typedef enum dat_va_type {
    DAT_VA_TYPE_VA = 0x0, /**< by virtual address */
    DAT_VA_TYPE_ZB = 0x1  /**< by offset from its start (zero-based) */
} DAT_VA_TYPE;

/** How widely a bound RMR can be used. */
typedef enum dat_rmr_scope {
    DAT_RMR_SCOPE_EP  = 0, /**< through the one endpoint it was bound on */
    DAT_RMR_SCOPE_PZ  = 1, /**< through every endpoint of its protection zone */
    DAT_RMR_SCOPE_ANY = 2  /**< provider attribute: both kinds are offered */
} DAT_RMR_SCOPE;

typedef struct dat_lmr_param DAT_LMR_PARAM; /* complete in udat.h */

typedef enum dat_lmr_param_mask {
    DAT_LMR_FIELD_IA_HANDLE          = 0x001,
    DAT_LMR_FIELD_MEM_TYPE           = 0x002,
    DAT_LMR_FIELD_REGION_DESC        = 0x004,
    DAT_LMR_FIELD_LENGTH             = 0x008,
    DAT_LMR_FIELD_PZ_HANDLE          = 0x010,
    DAT_LMR_FIELD_MEM_PRIV           = 0x020,
    DAT_LMR_FIELD_VA_TYPE            = 0x040,
    DAT_LMR_FIELD_LMR_CONTEXT        = 0x080,
    DAT_LMR_FIELD_RMR_CONTEXT        = 0x100,
    DAT_LMR_FIELD_REGISTERED_SIZE    = 0x200,
    DAT_LMR_FIELD_REGISTERED_ADDRESS = 0x400,
    DAT_LMR_FIELD_ALL                = 0x7FF
} DAT_LMR_PARAM_MASK;

typedef struct dat_rmr_param {
    DAT_IA_HANDLE      ia_handle;
    DAT_PZ_HANDLE      pz_handle;
    DAT_LMR_TRIPLET    lmr_triplet;
    DAT_MEM_PRIV_FLAGS mem_priv;
    DAT_RMR_CONTEXT    rmr_context;
    DAT_RMR_SCOPE      rmr_scope;
    DAT_VA_TYPE        va_type;
} DAT_RMR_PARAM;

typedef enum dat_rmr_param_mask {
    DAT_RMR_FIELD_IA_HANDLE   = 0x01,
    DAT_RMR_FIELD_PZ_HANDLE   = 0x02,
    DAT_RMR_FIELD_LMR_TRIPLET = 0x04,
    DAT_RMR_FIELD_MEM_PRIV    = 0x08,
    DAT_RMR_FIELD_RMR_CONTEXT = 0x10,
    DAT_RMR_FIELD_RMR_SCOPE   = 0x20,
    DAT_RMR_FIELD_VA_TYPE     = 0x40,
    DAT_RMR_FIELD_ALL         = 0x7F
} DAT_RMR_PARAM_MASK;

typedef struct dat_pz_param {
    DAT_IA_HANDLE ia_handle;
} DAT_PZ_PARAM;

typedef enum dat_pz_param_mask {
    DAT_PZ_FIELD_IA_HANDLE = 0x01,
    DAT_PZ_FIELD_ALL       = 0x01
} DAT_PZ_PARAM_MASK;

/* ==== Adapter and provider attributes ===================================== */

typedef struct dat_ia_attr       DAT_IA_ATTR;       /* complete in udat.h */
typedef struct dat_provider_attr DAT_PROVIDER_ATTR; /* complete in udat.h */

typedef DAT_UINT64 DAT_IA_ATTR_MASK;
typedef DAT_UINT64 DAT_PROVIDER_ATTR_MASK;

/** The owner of a posted operation's segment list: only it may touch the list. */
typedef enum dat_iov_ownership {
    DAT_IOV_CONSUMER       = 0x0, /**< the consumer, as soon as the post returns */
    DAT_IOV_PROVIDER_NOMOD = 0x1, /**< the provider until completion; returned unchanged */
    DAT_IOV_PROVIDER_MOD   = 0x2  /**< the provider until completion; its content is lost */
} DAT_IOV_OWNERSHIP;

/** Does the provider create endpoints for requests at a PSP? */
typedef enum dat_ep_creator_for_psp {
    DAT_PSP_CREATES_EP_NEVER   = 0,
    DAT_PSP_CREATES_EP_IFASKED = 1,
    DAT_PSP_CREATES_EP_ALWAYS  = 2
} DAT_EP_CREATOR_FOR_PSP;

/** Which extension interface an adapter offers. */
typedef enum dat_extension {
    DAT_EXTENSION_NONE = 0,
    DAT_EXTENSION_IB   = 1,
    DAT_EXTENSION_IW   = 2
} DAT_EXTENSION;

#define DAT_IB_EXTENSION 1
#define DAT_IW_EXTENSION 2

/** How an adapter that is highly available spreads its load. */
typedef DAT_UINT32 DAT_HA_LB;
#define DAT_HA_LB_NONE      (DAT_HA_LB)0
#define DAT_HA_LB_INTERCOMM (DAT_HA_LB)1
#define DAT_HA_LB_INTRACOMM (DAT_HA_LB)2

/* Fields of DAT_IA_ATTR; udat.h has the higher bits. */
#define DAT_IA_FIELD_NONE                                   UINT64_C(0x0)
#define DAT_IA_FIELD_IA_ADAPTER_NAME                        UINT64_C(0x000000001)
#define DAT_IA_FIELD_IA_VENDOR_NAME                         UINT64_C(0x000000002)
#define DAT_IA_FIELD_IA_HARDWARE_MAJOR_VERSION              UINT64_C(0x000000004)
#define DAT_IA_FIELD_IA_HARDWARE_MINOR_VERSION              UINT64_C(0x000000008)
#define DAT_IA_FIELD_IA_FIRMWARE_MAJOR_VERSION              UINT64_C(0x000000010)
#define DAT_IA_FIELD_IA_FIRMWARE_MINOR_VERSION              UINT64_C(0x000000020)
#define DAT_IA_FIELD_IA_ADDRESS_PTR                         UINT64_C(0x000000040)
#define DAT_IA_FIELD_IA_MAX_EPS                             UINT64_C(0x000000080)
#define DAT_IA_FIELD_IA_MAX_DTO_PER_EP                      UINT64_C(0x000000100)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN             UINT64_C(0x000000200)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_OUT            UINT64_C(0x000000400)
#define DAT_IA_FIELD_IA_MAX_EVDS                            UINT64_C(0x000000800)
#define DAT_IA_FIELD_IA_MAX_EVD_QLEN                        UINT64_C(0x000001000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_DTO            UINT64_C(0x000002000)
#define DAT_IA_FIELD_IA_MAX_LMRS                            UINT64_C(0x000004000)
#define DAT_IA_FIELD_IA_MAX_LMR_BLOCK_SIZE                  UINT64_C(0x000008000)
#define DAT_IA_FIELD_IA_MAX_LMR_VIRTUAL_ADDRESS             UINT64_C(0x000010000)
#define DAT_IA_FIELD_IA_MAX_PZS                             UINT64_C(0x000020000)
#define DAT_IA_FIELD_IA_MAX_MESSAGE_SIZE                    UINT64_C(0x000040000)
#define DAT_IA_FIELD_IA_MAX_RDMA_SIZE                       UINT64_C(0x000080000)
#define DAT_IA_FIELD_IA_MAX_RMRS                            UINT64_C(0x000100000)
#define DAT_IA_FIELD_IA_MAX_RMR_TARGET_ADDRESS              UINT64_C(0x000200000)
#define DAT_IA_FIELD_IA_MAX_SRQS                            UINT64_C(0x000400000)
#define DAT_IA_FIELD_IA_MAX_EP_PER_SRQ                      UINT64_C(0x000800000)
#define DAT_IA_FIELD_IA_MAX_RECV_PER_SRQ                    UINT64_C(0x001000000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_RDMA_READ      UINT64_C(0x002000000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_RDMA_WRITE     UINT64_C(0x004000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_IN                    UINT64_C(0x008000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_OUT                   UINT64_C(0x010000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN_GUARANTEED  UINT64_C(0x020000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_OUT_GUARANTEED UINT64_C(0x040000000)
#define DAT_IA_FIELD_IA_ZB_SUPPORTED                        UINT64_C(0x080000000)
#define DAT_IA_FIELD_IA_EXTENSIONS_SUPPORTED                UINT64_C(0x100000000)

/*
 * Names that DAT 1.0 and 1.1 had. The last one leads to a name that no version
 * of the 2.0 headers defines, so a source that uses it does not compile; it is
 * here because sources may test for it with #ifdef.
 */
#define max_rdma_read_per_ep           max_rdma_read_per_ep_in
#define max_mtu_size                   max_message_size
#define DAT_IA_ALL                     DAT_IA_FIELD_ALL
#define DAT_IA_FIELD_IA_MAX_MTU_SIZE   DAT_IA_FIELD_IA_MAX_MESSAGE_SIZE
#define DAT_IA_FIELD_IA_MAX_DTO_PER_OP DAT_IA_FIELD_IA_MAX_DTO_PER_EP_IN

/** What the registry knows of an adapter before it is opened. */
typedef struct dat_provider_info {
    char        ia_name[DAT_NAME_MAX_LENGTH];
    DAT_UINT32  dapl_version_major;
    DAT_UINT32  dapl_version_minor;
    DAT_BOOLEAN is_thread_safe;
} DAT_PROVIDER_INFO;

/* ==== Event dispatchers =================================================== */

/** The event streams that an EVD takes in. */
typedef enum dat_evd_flags {
    DAT_EVD_SOFTWARE_FLAG   = 0x001, /**< dat_evd_post_se() */
    DAT_EVD_CR_FLAG         = 0x010, /**< connection requests */
    DAT_EVD_DTO_FLAG        = 0x020, /**< completions of transfers */
    DAT_EVD_CONNECTION_FLAG = 0x040, /**< connections coming up and down */
    DAT_EVD_RMR_BIND_FLAG   = 0x080, /**< completions of dat_rmr_bind() */
    DAT_EVD_ASYNC_FLAG      = 0x100, /**< asynchronous errors */
    DAT_EVD_DEFAULT_FLAG    = 0x1F0, /**< all of them but software events */
    DAT_EVD_EXTENSION_BASE  = 0x200
} DAT_EVD_FLAGS;

typedef struct dat_evd_param DAT_EVD_PARAM; /* complete in udat.h */

/** One value out of each of the three groups, or-ed together. */
typedef enum dat_evd_state {
    DAT_EVD_STATE_ENABLED          = 0x01, /**< feeds its CNO */
    DAT_EVD_STATE_DISABLED         = 0x02,
    DAT_EVD_STATE_WAITABLE         = 0x04, /**< dat_evd_wait() is allowed */
    DAT_EVD_STATE_UNWAITABLE       = 0x08,
    DAT_EVD_STATE_CONFIG_NOTIFY    = 0x10, /**< each signalled event wakes */
    DAT_EVD_STATE_CONFIG_SOLICITED = 0x20, /**< solicited receives wake */
    DAT_EVD_STATE_CONFIG_THRESHOLD = 0x30  /**< a number of events wakes */
} DAT_EVD_STATE;

typedef enum dat_evd_param_mask {
    DAT_EVD_FIELD_IA_HANDLE = 0x01,
    DAT_EVD_FIELD_EVD_QLEN  = 0x02,
    DAT_EVD_FIELD_EVD_STATE = 0x04,
    DAT_EVD_FIELD_CNO       = 0x08,
    DAT_EVD_FIELD_EVD_FLAGS = 0x10,
    DAT_EVD_FIELD_ALL       = 0x1F
} DAT_EVD_PARAM_MASK;

/* ==== Endpoints =========================================================== */

typedef struct dat_ep_attr {
    DAT_SERVICE_TYPE     service_type;
    DAT_SEG_LENGTH       max_message_size;            /**< largest send or receive, bytes */
    DAT_SEG_LENGTH       max_rdma_size;               /**< bytes */
    DAT_QOS              qos;
    DAT_COMPLETION_FLAGS recv_completion_flags;       /**< what posts may use, receive side */
    DAT_COMPLETION_FLAGS request_completion_flags;    /**< what posts may use, request side */
    DAT_COUNT            max_recv_dtos;               /**< receives outstanding */
    DAT_COUNT            max_request_dtos;            /**< sends, reads, writes, binds outstanding */
    DAT_COUNT            max_recv_iov;                /**< segments of a receive */
    DAT_COUNT            max_request_iov;             /**< segments of a send */
    DAT_COUNT            max_rdma_read_in;            /**< outstanding reads as target */
    DAT_COUNT            max_rdma_read_out;           /**< outstanding reads as initiator */
    DAT_COUNT            srq_soft_hw;                 /**< see dat_ep_create_with_srq() */
    DAT_COUNT            max_rdma_read_iov;           /**< segments of an RDMA read; 0: as max_request_iov */
    DAT_COUNT            max_rdma_write_iov;          /**< segments of an RDMA write; 0: as max_request_iov */
    DAT_COUNT            ep_transport_specific_count;
    DAT_NAMED_ATTR      *ep_transport_specific;
    DAT_COUNT            ep_provider_specific_count;
    DAT_NAMED_ATTR      *ep_provider_specific;
} DAT_EP_ATTR;

/** The life of an endpoint. In the UNCONFIGURED states it still lacks EVDs. */
typedef enum dat_ep_state {
    DAT_EP_STATE_UNCONNECTED                  = 0,  /**< new, or after dat_ep_reset() */
    DAT_EP_STATE_UNCONFIGURED_UNCONNECTED     = 1,
    DAT_EP_STATE_RESERVED                     = 2,  /**< held by an RSP */
    DAT_EP_STATE_UNCONFIGURED_RESERVED        = 3,
    DAT_EP_STATE_PASSIVE_CONNECTION_PENDING   = 4,  /**< its RSP got a request */
    DAT_EP_STATE_UNCONFIGURED_PASSIVE         = 5,
    DAT_EP_STATE_ACTIVE_CONNECTION_PENDING    = 6,  /**< connecting */
    DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING = 7,  /**< made by the provider for a request */
    DAT_EP_STATE_UNCONFIGURED_TENTATIVE       = 8,
    DAT_EP_STATE_CONNECTED                    = 9,
    DAT_EP_STATE_DISCONNECT_PENDING           = 10, /**< graceful disconnect in progress */
    DAT_EP_STATE_DISCONNECTED                 = 11,
    DAT_EP_STATE_COMPLETION_PENDING           = 12, /**< accepted, not yet established */
    DAT_EP_STATE_CONNECTED_SINGLE_PATH        = 13,
    DAT_EP_STATE_CONNECTED_MULTI_PATH         = 14
} DAT_EP_STATE;

/** The name that DAT 1.0 had for it. */
#define DAT_EP_STATE_ERROR DAT_EP_STATE_DISCONNECTED

typedef struct dat_ep_param {
    DAT_IA_HANDLE      ia_handle;
    DAT_EP_STATE       ep_state;
    DAT_COMM           comm;
    DAT_IA_ADDRESS_PTR local_ia_address_ptr;
    DAT_PORT_QUAL      local_port_qual;
    DAT_IA_ADDRESS_PTR remote_ia_address_ptr;
    DAT_PORT_QUAL      remote_port_qual;
    DAT_PZ_HANDLE      pz_handle;
    DAT_EVD_HANDLE     recv_evd_handle;
    DAT_EVD_HANDLE     request_evd_handle;
    DAT_EVD_HANDLE     connect_evd_handle;
    DAT_SRQ_HANDLE     srq_handle;
    DAT_EP_ATTR        ep_attr;
} DAT_EP_PARAM;

typedef DAT_UINT64 DAT_EP_PARAM_MASK;

#define DAT_EP_FIELD_IA_HANDLE                        UINT64_C(0x00000001)
#define DAT_EP_FIELD_EP_STATE                         UINT64_C(0x00000002)
#define DAT_EP_FIELD_COMM                             UINT64_C(0x00000004)
#define DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR             UINT64_C(0x00000008)
#define DAT_EP_FIELD_LOCAL_PORT_QUAL                  UINT64_C(0x00000010)
#define DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR            UINT64_C(0x00000020)
#define DAT_EP_FIELD_REMOTE_PORT_QUAL                 UINT64_C(0x00000040)
#define DAT_EP_FIELD_PZ_HANDLE                        UINT64_C(0x00000080)
#define DAT_EP_FIELD_RECV_EVD_HANDLE                  UINT64_C(0x00000100)
#define DAT_EP_FIELD_REQUEST_EVD_HANDLE               UINT64_C(0x00000200)
#define DAT_EP_FIELD_CONNECT_EVD_HANDLE               UINT64_C(0x00000400)
#define DAT_EP_FIELD_SRQ_HANDLE                       UINT64_C(0x00000800)
#define DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE             UINT64_C(0x00001000)
#define DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE         UINT64_C(0x00002000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_SIZE            UINT64_C(0x00004000)
#define DAT_EP_FIELD_EP_ATTR_QOS                      UINT64_C(0x00008000)
#define DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS    UINT64_C(0x00010000)
#define DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS UINT64_C(0x00020000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS            UINT64_C(0x00040000)
#define DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS         UINT64_C(0x00080000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV             UINT64_C(0x00100000)
#define DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV          UINT64_C(0x00200000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN         UINT64_C(0x00400000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT        UINT64_C(0x00800000)
#define DAT_EP_FIELD_EP_ATTR_SRQ_SOFT_HW              UINT64_C(0x01000000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV        UINT64_C(0x02000000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV       UINT64_C(0x04000000)
#define DAT_EP_FIELD_EP_ATTR_NUM_TRANSPORT_ATTR       UINT64_C(0x08000000)
#define DAT_EP_FIELD_EP_ATTR_TRANSPORT_SPECIFIC_ATTR  UINT64_C(0x10000000)
#define DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR        UINT64_C(0x20000000)
#define DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR   UINT64_C(0x40000000)
#define DAT_EP_FIELD_EP_ATTR_ALL                      UINT64_C(0x7FFFF000)
#define DAT_EP_FIELD_ALL                              UINT64_C(0x7FFFFFFF)

/* ==== Shared receive queues =============================================== */

#define DAT_WATERMARK_INFINITE ((DAT_COUNT)~0)
#define DAT_HW_DEFAULT         DAT_WATERMARK_INFINITE /**< no high watermark */
#define DAT_SRQ_LW_DEFAULT     0x0                    /**< no low watermark */
#define DAT_VALUE_UNKNOWN      (((DAT_COUNT) ~0)-1)   /**< the provider does not know the number */

typedef enum dat_srq_state {
    DAT_SRQ_STATE_ERROR       = 0,
    DAT_SRQ_STATE_OPERATIONAL = 1,
    DAT_SRQ_STATE_SHUTDOWN    = 2
} DAT_SRQ_STATE;

typedef struct dat_srq_attr {
    DAT_COUNT max_recv_dtos;
    DAT_COUNT max_recv_iov;
    DAT_COUNT low_watermark;
} DAT_SRQ_ATTR;

typedef struct dat_srq_param {
    DAT_IA_HANDLE ia_handle;
    DAT_SRQ_STATE srq_state;
    DAT_PZ_HANDLE pz_handle;
    DAT_COUNT     max_recv_dtos;
    DAT_COUNT     max_recv_iov;
    DAT_COUNT     low_watermark;
    DAT_COUNT     available_dto_count;   /**< posted, not yet taken; or DAT_VALUE_UNKNOWN */
    DAT_COUNT     outstanding_dto_count; /**< posted, not yet completed; or DAT_VALUE_UNKNOWN */
} DAT_SRQ_PARAM;

typedef enum dat_srq_param_mask {
    DAT_SRQ_FIELD_IA_HANDLE             = 0x001,
    DAT_SRQ_FIELD_SRQ_STATE             = 0x002,
    DAT_SRQ_FIELD_PZ_HANDLE             = 0x004,
    DAT_SRQ_FIELD_MAX_RECV_DTO          = 0x008,
    DAT_SRQ_FIELD_MAX_RECV_IOV          = 0x010,
    DAT_SRQ_FIELD_LOW_WATERMARK         = 0x020,
    DAT_SRQ_FIELD_AVAILABLE_DTO_COUNT   = 0x040,
    DAT_SRQ_FIELD_OUTSTANDING_DTO_COUNT = 0x080,
    DAT_SRQ_FIELD_ALL                   = 0x0FF
} DAT_SRQ_PARAM_MASK;

/* ==== Service points and connection requests ============================== */

/** The maker of the endpoint for a request that arrives at a PSP. */
typedef enum dat_psp_flags {
    DAT_PSP_CONSUMER_FLAG = 0x00,
    DAT_PSP_PROVIDER_FLAG = 0x01
} DAT_PSP_FLAGS;

typedef struct dat_psp_param {
    DAT_IA_HANDLE  ia_handle;
    DAT_CONN_QUAL  conn_qual;
    DAT_EVD_HANDLE evd_handle;
    DAT_PSP_FLAGS  psp_flags;
} DAT_PSP_PARAM;

typedef enum dat_psp_param_mask {
    DAT_PSP_FIELD_IA_HANDLE  = 0x01,
    DAT_PSP_FIELD_CONN_QUAL  = 0x02,
    DAT_PSP_FIELD_EVD_HANDLE = 0x04,
    DAT_PSP_FIELD_PSP_FLAGS  = 0x08,
    DAT_PSP_FIELD_ALL        = 0x0F
} DAT_PSP_PARAM_MASK;

typedef struct dat_rsp_param {
    DAT_IA_HANDLE  ia_handle;
    DAT_CONN_QUAL  conn_qual;
    DAT_EVD_HANDLE evd_handle;
    DAT_EP_HANDLE  ep_handle;
} DAT_RSP_PARAM;

typedef enum dat_rsp_param_mask {
    DAT_RSP_FIELD_IA_HANDLE  = 0x01,
    DAT_RSP_FIELD_CONN_QUAL  = 0x02,
    DAT_RSP_FIELD_EVD_HANDLE = 0x04,
    DAT_RSP_FIELD_EP_HANDLE  = 0x08,
    DAT_RSP_FIELD_ALL        = 0x0F
} DAT_RSP_PARAM_MASK;

typedef struct dat_csp_param {
    DAT_IA_HANDLE      ia_handle;
    DAT_COMM          *comm;
    DAT_IA_ADDRESS_PTR address_ptr;
    DAT_EVD_HANDLE     evd_handle;
} DAT_CSP_PARAM;

typedef enum dat_csp_param_mask {
    DAT_CSP_FIELD_IA_HANDLE  = 0x01,
    DAT_CSP_FIELD_COMM       = 0x02,
    DAT_CSP_FIELD_IA_ADDRESS = 0x04,
    DAT_CSP_FIELD_EVD_HANDLE = 0x08,
    DAT_CSP_FIELD_ALL        = 0x0F
} DAT_CSP_PARAM_MASK;

typedef struct dat_cr_param {
    DAT_IA_ADDRESS_PTR remote_ia_address_ptr;
    DAT_PORT_QUAL      remote_port_qual;
    DAT_COUNT          private_data_size; /**< bytes */
    DAT_PVOID          private_data;      /**< lies in the request and lives as long; may be edited */
    DAT_EP_HANDLE      local_ep_handle;   /**< the endpoint of the RSP or the provider, or null */
} DAT_CR_PARAM;

typedef enum dat_cr_param_mask {
    DAT_CR_FIELD_REMOTE_IA_ADDRESS_PTR = 0x01,
    DAT_CR_FIELD_REMOTE_PORT_QUAL      = 0x02,
    DAT_CR_FIELD_PRIVATE_DATA_SIZE     = 0x04,
    DAT_CR_FIELD_PRIVATE_DATA          = 0x08,
    DAT_CR_FIELD_LOCAL_EP_HANDLE       = 0x10,
    DAT_CR_FIELD_ALL                   = 0x1F
} DAT_CR_PARAM_MASK;

/* ==== Events ============================================================== */

typedef enum dat_event_number {
    DAT_DTO_COMPLETION_EVENT                     = 0x00001,
    DAT_RMR_BIND_COMPLETION_EVENT                = 0x01001,
    DAT_CONNECTION_REQUEST_EVENT                 = 0x02001,
    DAT_CONNECTION_EVENT_ESTABLISHED             = 0x04001, /**< both sides; the active one gets private data */
    DAT_CONNECTION_EVENT_PEER_REJECTED           = 0x04002, /**< the peer called dat_cr_reject() */
    DAT_CONNECTION_EVENT_NON_PEER_REJECTED       = 0x04003, /**< no listener, no room, refused below */
    DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR = 0x04004, /**< accepted, but the peer was gone */
    DAT_CONNECTION_EVENT_DISCONNECTED            = 0x04005,
    DAT_CONNECTION_EVENT_BROKEN                  = 0x04006, /**< ended by a failure */
    DAT_CONNECTION_EVENT_TIMED_OUT               = 0x04007,
    DAT_CONNECTION_EVENT_UNREACHABLE             = 0x04008,
    DAT_ASYNC_ERROR_EVD_OVERFLOW                 = 0x08001,
    DAT_ASYNC_ERROR_IA_CATASTROPHIC              = 0x08002,
    DAT_ASYNC_ERROR_EP_BROKEN                    = 0x08003,
    DAT_ASYNC_ERROR_TIMED_OUT                    = 0x08004,
    DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR      = 0x08005,
    DAT_HA_DOWN_TO_1                             = 0x08101, /**< one path is left */
    DAT_HA_UP_TO_MULTI_PATH                      = 0x08102, /**< several paths again */
    DAT_SOFTWARE_EVENT                           = 0x10001, /**< dat_evd_post_se() */
    DAT_EXTENSION_EVENT                          = 0x20000,
    DAT_IB_EXTENSION_RANGE_BASE                  = 0x40000,
    DAT_IW_EXTENSION_RANGE_BASE                  = 0x80000
} DAT_EVENT_NUMBER;

typedef enum dat_dto_completion_status {
    DAT_DTO_SUCCESS                = 0,
    DAT_DTO_ERR_FLUSHED            = 1,  /**< never done: the connection ended first */
    DAT_DTO_ERR_LOCAL_LENGTH       = 2,  /**< the message does not fit the receive */
    DAT_DTO_ERR_LOCAL_EP           = 3,
    DAT_DTO_ERR_LOCAL_PROTECTION   = 4,
    DAT_DTO_ERR_BAD_RESPONSE       = 5,
    DAT_DTO_ERR_REMOTE_ACCESS      = 6,
    DAT_DTO_ERR_REMOTE_RESPONDER   = 7,
    DAT_DTO_ERR_TRANSPORT          = 8,
    DAT_DTO_ERR_RECEIVER_NOT_READY = 9,  /**< the peer had no receive posted */
    DAT_DTO_ERR_PARTIAL_PACKET     = 10,
    DAT_RMR_OPERATION_FAILED       = 11,
    DAT_DTO_ERR_LOCAL_MM_ERROR     = 12  /**< kernel-level DAT only */
} DAT_DTO_COMPLETION_STATUS;

/* Names of earlier DAT versions, and those used for binds. */
#define DAT_DTO_LENGTH_ERROR           DAT_DTO_ERR_LOCAL_LENGTH
#define DAT_DTO_FAILURE                DAT_DTO_ERR_FLUSHED
#define DAT_RMR_BIND_SUCCESS           DAT_DTO_SUCCESS
#define DAT_RMR_BIND_FAILURE           DAT_DTO_ERR_FLUSHED
#define DAT_RMR_BIND_COMPLETION_STATUS DAT_DTO_COMPLETION_STATUS

/** DAT_DTO_COMPLETION_EVENT. */
typedef struct dat_dto_completion_event_data {
    DAT_EP_HANDLE             ep_handle;
    DAT_DTO_COOKIE            user_cookie;
    DAT_DTO_COMPLETION_STATUS status;
    DAT_SEG_LENGTH            transfered_length; /**< bytes; of successes only */
    DAT_DTOS                  operation;         /**< always set */
    DAT_RMR_CONTEXT           rmr_context;       /**< what DAT_DTO_RECEIVE_WITH_INVALIDATE invalidated */
} DAT_DTO_COMPLETION_EVENT_DATA;

/** DAT_RMR_BIND_COMPLETION_EVENT. */
typedef struct dat_rmr_bind_completion_event_data {
    DAT_RMR_HANDLE                 rmr_handle;
    DAT_RMR_COOKIE                 user_cookie;
    DAT_RMR_BIND_COMPLETION_STATUS status;
} DAT_RMR_BIND_COMPLETION_EVENT_DATA;

typedef union dat_sp_handle {
    DAT_RSP_HANDLE rsp_handle;
    DAT_PSP_HANDLE psp_handle;
    DAT_CSP_HANDLE csp_handle;
} DAT_SP_HANDLE;

/** DAT_CONNECTION_REQUEST_EVENT. */
typedef struct dat_cr_arrival_event_data {
    DAT_SP_HANDLE      sp_handle;            /**< the service point that was asked */
    DAT_IA_ADDRESS_PTR local_ia_address_ptr; /**< the address that was asked */
    DAT_CONN_QUAL      conn_qual;            /**< the qualifier that was asked */
    DAT_CR_HANDLE      cr_handle;            /**< to accept, reject or hand off */
    DAT_BOOLEAN        truncate_flag;        /**< private data is not complete */
} DAT_CR_ARRIVAL_EVENT_DATA;

/** DAT_CONNECTION_EVENT_*; private data lives until the endpoint is reset or freed. */
typedef struct dat_connection_event_data {
    DAT_EP_HANDLE ep_handle;
    DAT_COUNT     private_data_size; /**< bytes */
    DAT_PVOID     private_data;
} DAT_CONNECTION_EVENT_DATA;

/** DAT_ASYNC_ERROR_* and DAT_HA_*. */
typedef struct dat_asynch_error_event_data {
    DAT_HANDLE dat_handle; /**< the object it is about: EP, EVD, IA, LMR, PZ, RMR or SRQ */
    DAT_COUNT  reason;     /**< a value of the enumeration for that object, below */
} DAT_ASYNCH_ERROR_EVENT_DATA;

/** DAT_SOFTWARE_EVENT. */
typedef struct dat_software_event_data {
    DAT_PVOID pointer; /**< what the poster put there */
} DAT_SOFTWARE_EVENT_DATA;

typedef enum ia_async_error_reason {
    DAT_IA_CATASTROPHIC_ERROR = 0,
    DAT_IA_OTHER_ERROR        = 1
} DAT_IA_ASYNC_ERROR_REASON;

typedef enum ep_async_error_reason {
    DAT_EP_TRANSFER_TO_ERROR          = 0,
    DAT_EP_OTHER_ERROR                = 1,
    DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT = 2 /**< see dat_ep_set_watermark() */
} DAT_EP_ASYNC_ERROR_REASON;

typedef enum evd_async_error_reason {
    DAT_EVD_OVERFLOW_ERROR = 0,
    DAT_EVD_OTHER_ERROR    = 1
} DAT_EVD_ASYNC_ERROR_REASON;

typedef enum srq_async_error_reason {
    DAT_SRQ_TRANSFER_TO_ERROR   = 0,
    DAT_SRQ_OTHER_ERROR         = 1,
    DAT_SRQ_LOW_WATERMARK_EVENT = 2 /**< see dat_srq_set_lw() */
} DAT_SRQ_ASYNC_ERROR_REASON;

typedef enum lmr_async_error_reason {
    DAT_LMR_OTHER_ERROR = 0
} DAT_LMR_ASYNC_ERROR_REASON;

typedef enum rmr_async_error_reason {
    DAT_RMR_OTHER_ERROR = 0
} DAT_RMR_ASYNC_ERROR_REASON;

typedef enum pz_async_error_reason {
    DAT_PZ_OTHER_ERROR = 0
} DAT_PZ_ASYNC_ERROR_REASON;

typedef union dat_event_data {
    DAT_DTO_COMPLETION_EVENT_DATA      dto_completion_event_data;
    DAT_RMR_BIND_COMPLETION_EVENT_DATA rmr_completion_event_data;
    DAT_CR_ARRIVAL_EVENT_DATA          cr_arrival_event_data;
    DAT_CONNECTION_EVENT_DATA          connect_event_data;
    DAT_ASYNCH_ERROR_EVENT_DATA        asynch_error_event_data;
    DAT_SOFTWARE_EVENT_DATA            software_event_data;
} DAT_EVENT_DATA;

typedef struct dat_event {
    DAT_EVENT_NUMBER event_number;            /**< says which member of event_data counts */
    DAT_EVD_HANDLE   evd_handle;              /**< the EVD it came through */
    DAT_EVENT_DATA   event_data;
    DAT_UINT64       event_extension_data[8]; /**< extension events: see dat_ib_extensions.h */
} DAT_EVENT;

/* ==== Calls: interface adapters =========================================== */

/**
 * Opens an adapter: finds its registry entry, loads the provider if needed,
 * and makes an instance for the caller. Normally called through dat_ia_open(),
 * which adds the last three arguments.
 *
 * @param[in]     ia_name       the adapter's name in dat.conf; not kept
 * @param[in]     async_min_qlen least length, in events, of the asynchronous
 *                              error EVD, if one is made; positive
 * @param[in,out] async_evd     in: DAT_HANDLE_NULL to have one made, or an
 *                              asynchronous error EVD of another instance to
 *                              share. out: the EVD in use. One made here goes
 *                              with the adapter and is not freed by the caller
 * @param[out]    ia_handle     the instance; ended by dat_ia_close()
 * @param[in]     dapl_major    DAT_VERSION_MAJOR
 * @param[in]     dapl_minor    DAT_VERSION_MINOR
 * @param[in]     thread_safety DAT_THREADSAFE
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_PARAMETER `ARG1`: no name, or 256 characters and more.
 *         `ARG2`: no positive length, and an EVD is to be made. `ARG3`:
 *         async_evd is NULL
 * @retval DAT_INVALID_HANDLE `IA`: ia_handle is NULL. `EVD_ASYNC`: *async_evd
 *         is no EVD with the asynchronous stream on the same device
 * @retval DAT_PROVIDER_NOT_FOUND `NAME_NOT_REGISTERED`: no entry has exactly
 *         this name, version and thread safety, or its library did not load
 * @retval DAT_INSUFFICIENT_RESOURCES
 * @retval DAT_INVALID_STATE the registry is shut down already
 *
 * Threads: safe. Rule: dat_ia_open(3DAT); exact match of the version is
 * reference implementation practice.
 */
DAT_RETURN DAT_API dat_ia_openv(const DAT_NAME_PTR ia_name, DAT_COUNT async_min_qlen,
                                DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia_handle,
                                DAT_UINT32 dapl_major, DAT_UINT32 dapl_minor,
                                DAT_BOOLEAN thread_safety);

/**
 * Opens an adapter: dat_ia_openv() for the version and thread safety this source is built for.
 *
 * @param[in]     name      the adapter's name in dat.conf; not kept
 * @param[in]     qlen      least length, in events, of the asynchronous error EVD
 *                          that is made; positive
 * @param[in,out] async_evd in: DAT_HANDLE_NULL to have an EVD made, or one to
 *                          share. out: the EVD in use
 * @param[out]    ia        the instance; ended by dat_ia_close()
 *
 * Returns as dat_ia_openv(). Threads: safe. Rule: dat_ia_open(3DAT).
 */
#define dat_ia_open(name, qlen, async_evd, ia)                   \
    dat_ia_openv((name), (qlen), (async_evd), (ia),              \
                 DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_THREADSAFE)

/**
 * Tells what an adapter and its provider can do.
 *
 * @param[in]  ia_handle     the adapter
 * @param[out] async_evd     its asynchronous error EVD; may be NULL
 * @param[in]  ia_attr_mask  DAT_IA_FIELD_*; 0 for none
 * @param[out] ia_attr       caller's storage; may be NULL if the mask is 0.
 *                           Its pointers are valid as long as the adapter
 * @param[in]  provider_mask DAT_PROVIDER_FIELD_*; 0 for none
 * @param[out] provider_attr likewise
 *
 * @retval DAT_SUCCESS fields outside the masks may be filled in as well
 * @retval DAT_INVALID_HANDLE `IA`
 * @retval DAT_INVALID_PARAMETER `ARG3`, `ARG5`: unknown bits in a mask;
 *         `ARG4`, `ARG6`: a mask without its structure
 *
 * Threads: safe. Rule: dat_ia_query(3DAT).
 */
DAT_RETURN DAT_API dat_ia_query(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE *async_evd,
                                DAT_IA_ATTR_MASK ia_attr_mask, DAT_IA_ATTR *ia_attr,
                                DAT_PROVIDER_ATTR_MASK provider_mask,
                                DAT_PROVIDER_ATTR *provider_attr);

/**
 * Closes an adapter instance; the provider is unloaded with the last one.
 *
 * @param[in] ia_handle   the adapter; no longer valid after success
 * @param[in] close_flags DAT_CLOSE_GRACEFUL_FLAG refuses while objects of the
 *                        instance exist; DAT_CLOSE_ABRUPT_FLAG ends
 *                        connections and frees all of them. Threads that wait
 *                        in them return with DAT_ABORT
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `IA`
 * @retval DAT_INVALID_PARAMETER `ARG2`: no such flag
 * @retval DAT_INVALID_STATE `IA_IN_USE`: graceful, and an object is left
 * @retval DAT_INSUFFICIENT_RESOURCES nothing was closed
 *
 * Threads: per object. Rule: dat_ia_close(3DAT). The reference implementation
 * overlooks CNOs and SRQs in a graceful close.
 */
DAT_RETURN DAT_API dat_ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS close_flags);

/* ==== Calls: any object =================================================== */

/**
 * Attaches a value of the consumer's to an object.
 *
 * @param[in] dat_handle a handle of any type
 * @param[in] context    replaces the one before; DAT does not look into it
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE
 *
 * Threads: per object. Rule: dat_set_consumer_context(3DAT). The reference
 * implementation refuses CNOs and SRQs.
 */
DAT_RETURN DAT_API dat_set_consumer_context(DAT_HANDLE dat_handle, DAT_CONTEXT context);

/**
 * Gives back the value attached by dat_set_consumer_context().
 *
 * @param[in]  dat_handle a handle of any type
 * @param[out] context    the value; zero if none was ever set
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE
 * @retval DAT_INVALID_PARAMETER `ARG2`: context is NULL
 *
 * Threads: per object. Rule: dat_get_consumer_context(3DAT).
 */
DAT_RETURN DAT_API dat_get_consumer_context(DAT_HANDLE dat_handle, DAT_CONTEXT *context);

/**
 * Tells the type of an object.
 *
 * @param[in]  dat_handle  a handle of any type, adapters included
 * @param[out] handle_type its type
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE
 * @retval DAT_INVALID_PARAMETER `ARG2`: handle_type is NULL
 *
 * Threads: per object. Rule: dat_get_handle_type(3DAT).
 */
DAT_RETURN DAT_API dat_get_handle_type(DAT_HANDLE dat_handle, DAT_HANDLE_TYPE *handle_type);

/**
 * Puts a return code into words.
 *
 * @param[in]  value    any return code, with or without its class bits
 * @param[out] major_message the identifier of its type
 * @param[out] minor_message the identifier of its subtype, "" for subtype 0.
 *             Either pointer may be NULL. The texts are constant: not to be
 *             freed or changed
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_PARAMETER no such type or subtype
 *
 * Threads: safe. Rule: dat_strerror(3DAT). The reference implementation wants
 * a major_message.
 */
DAT_RETURN DAT_API dat_strerror(DAT_RETURN value, const char **major_message,
                                const char **minor_message);

/** Names an operation of an extension, see dat_extension_op(). */
typedef int DAT_EXTENDED_OP;

#define DAT_OPEN_EXTENSION_BASE  0x1000 /**< operations that open something by name */
#define DAT_CLOSE_EXTENSION_BASE 0x2000 /**< operations that close it again */

/**
 * The entry to every extension. Programs use the macros that wrap it, such as
 * those in dat_ib_extensions.h.
 *
 * @param[in] handle    the object the operation works on
 * @param[in] operation which
 * @param[in] ...       as the operation defines them; types must be exact
 *
 * @retval DAT_SUCCESS
 * @retval DAT_NOT_IMPLEMENTED no open adapter announced extensions, or the
 *         provider does not know the operation
 * @retval DAT_INVALID_HANDLE
 *
 * Anything else is the operation's own matter. Threads: as the operation.
 * Rule: DAT 2.0 specification, extensions; reference implementation practice.
 */
DAT_RETURN DAT_API dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, ...);

/**
 * Lists the adapters that dat.conf names, opened or not.
 *
 * @param[in]  max_to_return how many entries the list has room for
 * @param[out] number_entries how many there are
 * @param[in,out] provider_list caller's array of pointers to caller's storage
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_PARAMETER `ARG1`: max_to_return is 0; number_entries is
 *         stored all the same. `ARG2`: number_entries is NULL. `ARG3`: the
 *         list, or an element of it, is NULL
 * @retval DAT_INTERNAL_ERROR no registry to be read
 * @retval DAT_INVALID_STATE the registry is shut down already
 *
 * Threads: safe. Rule: dat_registry_list_providers(3DAT).
 */
DAT_RETURN DAT_API dat_registry_list_providers(DAT_COUNT max_to_return, DAT_COUNT *number_entries,
                                               DAT_PROVIDER_INFO *provider_list[]);

/* ==== Calls: event dispatchers (more in udat.h) =========================== */

/**
 * Changes the length of an EVD's queue. Events in it are kept.
 *
 * @param[in] evd_handle   the EVD
 * @param[in] evd_min_qlen least length, in events; the present length is a no-op
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_PARAMETER `ARG2`: not positive, or above the adapter's
 *         max_evd_qlen
 * @retval DAT_INVALID_STATE more events pending than that, or a thread waits
 * @retval DAT_INSUFFICIENT_RESOURCES
 *
 * Threads: per object. Rule: dat_evd_resize(3DAT).
 */
DAT_RETURN DAT_API dat_evd_resize(DAT_EVD_HANDLE evd_handle, DAT_COUNT evd_min_qlen);

/**
 * Posts a software event. It wakes waiters as any other event does.
 *
 * @param[in] evd_handle an EVD with the software stream
 * @param[in] event      copied; its number is DAT_SOFTWARE_EVENT
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_PARAMETER `ARG1`: no software stream. `ARG2`: event is
 *         NULL or has another number
 * @retval DAT_QUEUE_FULL not posted; this is no overflow of the EVD
 *
 * Threads: per object. Rule: dat_evd_post_se(3DAT).
 */
DAT_RETURN DAT_API dat_evd_post_se(DAT_EVD_HANDLE evd_handle, const DAT_EVENT *event);

/**
 * Takes the first event out of an EVD, without waiting.
 *
 * @param[in]  evd_handle the EVD
 * @param[out] event      the event
 *
 * @retval DAT_SUCCESS
 * @retval DAT_QUEUE_EMPTY there is none; the bare code
 * @retval DAT_INVALID_PARAMETER `ARG2`: event is NULL
 * @retval DAT_INVALID_STATE a thread is in dat_evd_wait()
 *
 * Threads: safe. Rule: dat_evd_dequeue(3DAT). The reference implementation
 * sets the error class when the EVD has no completion queue.
 */
DAT_RETURN DAT_API dat_evd_dequeue(DAT_EVD_HANDLE evd_handle, DAT_EVENT *event);

/**
 * Tells length, state, CNO and streams of an EVD.
 *
 * @param[in]  evd_handle the EVD
 * @param[in]  evd_param_mask DAT_EVD_FIELD_*
 * @param[out] evd_param  caller's storage
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_PARAMETER `ARG2`: unknown bits. `ARG3`: evd_param is NULL
 *
 * Threads: per object. Rule: dat_evd_query(3DAT).
 */
DAT_RETURN DAT_API dat_evd_query(DAT_EVD_HANDLE evd_handle, DAT_EVD_PARAM_MASK evd_param_mask,
                                 DAT_EVD_PARAM *evd_param);

/**
 * Frees an EVD with the events in it. Connection requests that were not taken
 * from it are refused.
 *
 * @param[in] evd_handle the EVD; no longer valid after success
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_STATE `EVD_IN_USE`: an endpoint, service point or
 *         adapter feeds it, or a thread waits in it
 *
 * Threads: per object. Rule: dat_evd_free(3DAT).
 */
DAT_RETURN DAT_API dat_evd_free(DAT_EVD_HANDLE evd_handle);

/* ==== Calls: endpoints ==================================================== */

/**
 * Creates an endpoint, unconnected.
 *
 * @param[in]  ia_handle   the adapter
 * @param[in]  pz_handle   its protection zone. This and each EVD may be
 *                         DAT_HANDLE_NULL and be set by dat_ep_modify() later
 * @param[in]  recv_evd    receives complete here; has the DTO stream
 * @param[in]  request_evd sends, reads, writes and binds complete here; has
 *                         the DTO stream
 * @param[in]  connect_evd connection events; has the CONNECTION stream
 * @param[in]  ep_attr     NULL for the provider's defaults; not kept. A
 *                         max_message_size of 0 is a default as well
 * @param[out] ep_handle   ended by dat_ep_free()
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `IA`, `PZ`, `EVD_RECV`, `EVD_REQUEST`, `EVD_CONN`:
 *         bad, or without the stream
 * @retval DAT_INVALID_PARAMETER `ARG6`: attributes beyond the adapter's, at
 *         odds with one another or with the EVDs. `ARG7`: ep_handle is NULL
 * @retval DAT_INSUFFICIENT_RESOURCES `MEMORY`, `TEP`
 * @retval DAT_MODEL_NOT_SUPPORTED
 *
 * Threads: safe. Rule: dat_ep_create(3DAT).
 */
DAT_RETURN DAT_API dat_ep_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                                 DAT_EVD_HANDLE recv_evd, DAT_EVD_HANDLE request_evd,
                                 DAT_EVD_HANDLE connect_evd, const DAT_EP_ATTR *ep_attr,
                                 DAT_EP_HANDLE *ep_handle);

/**
 * Creates an endpoint that takes its receives from a shared receive queue.
 *
 * As dat_ep_create(), with these differences.
 *
 * @param[in]  ia_handle   the adapter
 * @param[in]  pz_handle   the zone of the SRQ, unless the provider says
 *                         srq_ep_pz_difference_supported
 * @param[in]  recv_evd    required
 * @param[in]  request_evd as in dat_ep_create()
 * @param[in]  connect_evd as in dat_ep_create()
 * @param[in]  srq_handle  stays in use until the endpoint is freed
 * @param[in]  ep_attr     max_recv_dtos is not used; srq_soft_hw, if positive, is
 *                         the soft high watermark of dat_ep_set_watermark()
 * @param[out] ep_handle   ended by dat_ep_free()
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE as dat_ep_create(), and `SRQ`
 * @retval DAT_INVALID_PARAMETER the zones differ; `ARG7`: attributes; `ARG8`:
 *         ep_handle is NULL. The reference implementation numbers them 6 and 7
 * @retval DAT_INVALID_STATE `SRQ_SHUTDOWN`
 * @retval DAT_INSUFFICIENT_RESOURCES
 * @retval DAT_MODEL_NOT_SUPPORTED
 *
 * Threads: safe. Rule: dat_ep_create_with_srq(3DAT).
 */
DAT_RETURN DAT_API dat_ep_create_with_srq(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                                          DAT_EVD_HANDLE recv_evd, DAT_EVD_HANDLE request_evd,
                                          DAT_EVD_HANDLE connect_evd, DAT_SRQ_HANDLE srq_handle,
                                          const DAT_EP_ATTR *ep_attr, DAT_EP_HANDLE *ep_handle);

/**
 * Tells state, addresses, related objects and actual attributes.
 *
 * While the endpoint is connected, max_rdma_read_in and max_rdma_read_out are what both sides have
 * agreed on, where the provider knows that.
 *
 * @param[in]  ep_handle the endpoint
 * @param[in]  ep_param_mask DAT_EP_FIELD_*
 * @param[out] ep_param  caller's storage; addresses in it live as long as the
 *                       endpoint. The remote one is known once connecting
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `EP`
 * @retval DAT_INVALID_PARAMETER `ARG2`: unknown bits. `ARG3`: ep_param is NULL
 *
 * Threads: per object. Rule: dat_ep_query(3DAT).
 */
DAT_RETURN DAT_API dat_ep_query(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK ep_param_mask,
                                DAT_EP_PARAM *ep_param);

/**
 * Changes zone, EVDs or attributes: all that are asked for, or none.
 *
 * @param[in] ep_handle the endpoint
 * @param[in] ep_param_mask which fields. Never adapter, state, addresses,
 *                          ports, DAT_COMM or SRQ
 * @param[in] ep_param  the new values; not kept
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `EP`
 * @retval DAT_INVALID_PARAMETER `ARG2`: a field that cannot be changed.
 *         `ARG3`: NULL, or a bad value
 * @retval DAT_INVALID_STATE `EP_*`: not in this state
 *
 * Threads: per object. Rule: dat_ep_modify(3DAT).
 */
DAT_RETURN DAT_API dat_ep_modify(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK ep_param_mask,
                                 const DAT_EP_PARAM *ep_param);

/**
 * Starts to connect an endpoint to a service point. The outcome comes as an
 * event on the connect EVD.
 *
 * @param[in] ep_handle         unconnected, with zone and EVDs
 * @param[in] remote_ia_address the peer's adapter, by a socket address of our family; not kept
 * @param[in] remote_conn_qual  where its service point listens, by dat_psp_create()
 * @param[in] timeout           microseconds, until
 *                              DAT_CONNECTION_EVENT_TIMED_OUT; not 0
 * @param[in] private_data_size bytes; at most the provider's
 *                              max_private_data_size
 * @param[in] private_data      delivered with the request; not kept
 * @param[in] quality_of_service DAT_QOS_BEST_EFFORT, or one of the provider's
 *                              dat_qos_supported, for both directions
 * @param[in] connect_flags     several paths or not
 *
 * @retval DAT_SUCCESS started; unreachable peers are reported by event
 * @retval DAT_INVALID_HANDLE `EP`; `EVD_CONN`: it has no connect EVD
 * @retval DAT_INVALID_PARAMETER `ARG2`: no address. `ARG4`: timeout 0. `ARG5`:
 *         bad size. `ARG6`: size without data
 * @retval DAT_INVALID_STATE `EP_*`: not unconnected; `EP_NOTREADY`: zone or
 *         EVDs are missing
 * @retval DAT_INVALID_ADDRESS `UNSUPPORTED`, `UNREACHABLE`, `MALFORMED`
 * @retval DAT_MODEL_NOT_SUPPORTED this quality of service or flag
 * @retval DAT_INSUFFICIENT_RESOURCES `MEMORY`, `TEP`
 *
 * Threads: per object. Rule: dat_ep_connect(3DAT).
 */
DAT_RETURN DAT_API dat_ep_connect(DAT_EP_HANDLE ep_handle, DAT_IA_ADDRESS_PTR remote_ia_address,
                                  DAT_CONN_QUAL remote_conn_qual, DAT_TIMEOUT timeout,
                                  DAT_COUNT private_data_size, const DAT_PVOID private_data,
                                  DAT_QOS quality_of_service, DAT_CONNECT_FLAGS connect_flags);

/**
 * Connects an endpoint to where another endpoint is connected already.
 *
 * @param[in] ep_handle     unconnected, with zone and EVDs
 * @param[in] ep_dup_handle connected; gives address and qualifier
 * @param[in] timeout       microseconds; not 0
 * @param[in] private_data_size bytes
 * @param[in] private_data  delivered with the request; not kept
 * @param[in] quality_of_service as in dat_ep_connect()
 *
 * @retval DAT_SUCCESS started; the outcome is reported by event
 * @retval DAT_INVALID_HANDLE `EP`: either of them
 * @retval DAT_INVALID_PARAMETER `ARG3`: timeout 0; private data likewise
 * @retval DAT_INVALID_STATE `EP_*`: the first is not unconnected, or the
 *         second not connected
 *
 * and as dat_ep_connect(). Threads: per object. Rule: dat_ep_dup_connect(3DAT).
 */
DAT_RETURN DAT_API dat_ep_dup_connect(DAT_EP_HANDLE ep_handle, DAT_EP_HANDLE ep_dup_handle,
                                      DAT_TIMEOUT timeout, DAT_COUNT private_data_size,
                                      const DAT_PVOID private_data, DAT_QOS quality_of_service);

/**
 * Connects to a common service point, by socket address alone.
 *
 * @param[in] ep_handle         unconnected, with zone and EVDs
 * @param[in] remote_ia_address address and port of the peer; not kept
 * @param[in] timeout           microseconds; not 0
 * @param[in] private_data_size bytes
 * @param[in] private_data      delivered with the request; not kept
 *
 * @retval DAT_SUCCESS started; the outcome is reported by event
 * @retval DAT_INVALID_PARAMETER `ARG2`: no address, or none with a port.
 *         `ARG3`: timeout 0. `ARG4`: bad size. `ARG5`: size without data
 * @retval DAT_MODEL_NOT_SUPPORTED
 *
 * and as dat_ep_connect().
 * @note Not exported by the reference library.
 *
 * Threads: per object. Rule: DAT 2.0 specification.
 */
DAT_RETURN DAT_API dat_ep_common_connect(DAT_EP_HANDLE ep_handle,
                                         DAT_IA_ADDRESS_PTR remote_ia_address, DAT_TIMEOUT timeout,
                                         DAT_COUNT private_data_size, const DAT_PVOID private_data);

/**
 * Ends a connection, or the attempt to make one.
 *
 * @param[in] ep_handle   the endpoint
 * @param[in] close_flags graceful: requests posted before are finished first.
 *                        Abrupt: they complete as flushed. Abrupt after
 *                        graceful hastens it
 *
 * @retval DAT_SUCCESS an event reports the disconnect; disconnecting again
 *         does nothing. Of an unconnected endpoint: posted receives come back
 *         flushed, there is no event, and it stays unconnected
 * @retval DAT_INVALID_HANDLE `EP`
 * @retval DAT_INVALID_PARAMETER `ARG2`: no such flag
 * @retval DAT_INVALID_STATE `EP_*`: reserved, or waiting for an accept
 *
 * Threads: per object. Rule: dat_ep_disconnect(3DAT). In the reference
 * implementation a second graceful one is refused with `ARG2`, and an
 * unconnected endpoint with `EP_UNCONNECTED`.
 */
DAT_RETURN DAT_API dat_ep_disconnect(DAT_EP_HANDLE ep_handle, DAT_CLOSE_FLAGS close_flags);

/**
 * Posts a send: one message, received by one receive of the peer's.
 *
 * @param[in] ep_handle    the endpoint, connected
 * @param[in] num_segments how many; 0 sends an empty message
 * @param[in] local_iov    the segments; may be NULL if there are none. Whose
 *                         the list is during the operation is said by the
 *                         provider's iov_ownership_on_return
 * @param[in] user_cookie  returned in the completion
 * @param[in] completion_flags DAT_COMPLETION_*
 *
 * @retval DAT_SUCCESS one completion will follow, unless it is suppressed and
 *         succeeds. Completions of an endpoint's requests keep their order
 * @retval DAT_INVALID_HANDLE `EP`
 * @retval DAT_INVALID_PARAMETER `ARG2`: segments negative or more than the
 *         endpoint's. `ARG3`: none given. Flags not allowed
 * @retval DAT_INVALID_STATE `EP_*`: neither connected nor disconnected; posted
 *         to a disconnected endpoint it completes as flushed
 * @retval DAT_INSUFFICIENT_RESOURCES max_request_dtos are outstanding
 * @retval DAT_PROTECTION_VIOLATION the memory is of another zone ...
 * @retval DAT_PRIVILEGES_VIOLATION ... or may not be read; both may come as
 *         completion status instead
 *
 * Threads: per object; sending and receiving threads count as using different
 * objects. Rule: dat_ep_post_send(3DAT).
 */
DAT_RETURN DAT_API dat_ep_post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                    DAT_LMR_TRIPLET *local_iov, DAT_DTO_COOKIE user_cookie,
                                    DAT_COMPLETION_FLAGS completion_flags);

/**
 * dat_ep_post_send() that also invalidates an RMR of the receiver's: it is bound
 * to nothing when the receive completes, as DAT_DTO_RECEIVE_WITH_INVALIDATE with
 * the context.
 *
 * @param[in] ep_handle    the endpoint, connected
 * @param[in] num_segments how many
 * @param[in] local_iov    the segments
 * @param[in] user_cookie  returned in the completion
 * @param[in] completion_flags DAT_COMPLETION_*
 * @param[in] invalidate_flag DAT_FALSE makes it a plain send
 * @param[in] rmr_context  the RMR, as the receiver named it: of the zone of
 *                         his endpoint, or the message fails and the connection
 *                         is broken
 *
 * @retval DAT_MODEL_NOT_SUPPORTED whatever the flag says
 *
 * and as dat_ep_post_send().
 * @note Not exported by the reference library.
 *
 * Threads: as dat_ep_post_send(). Rule: DAT 2.0 specification.
 */
DAT_RETURN DAT_API dat_ep_post_send_with_invalidate(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                                    DAT_LMR_TRIPLET *local_iov,
                                                    DAT_DTO_COOKIE user_cookie,
                                                    DAT_COMPLETION_FLAGS completion_flags,
                                                    DAT_BOOLEAN invalidate_flag,
                                                    DAT_RMR_CONTEXT rmr_context);

/**
 * Posts a receive for one message.
 *
 * @param[in] ep_handle    the endpoint, in any state
 * @param[in] num_segments how many; 0 takes an empty message
 * @param[in] local_iov    the segments, filled in order
 * @param[in] user_cookie  returned in the completion
 * @param[in] completion_flags DAT_COMPLETION_DEFAULT_FLAG, or what the
 *                         endpoint's attributes allow
 *
 * @retval DAT_SUCCESS completes when a message arrives, or as flushed when the
 *         connection ends; silently dropped by dat_ep_free()
 * @retval DAT_INVALID_HANDLE `EP`
 * @retval DAT_INVALID_PARAMETER as dat_ep_post_send()
 * @retval DAT_INVALID_STATE `SRQ_IN_USE`: the endpoint uses an SRQ
 * @retval DAT_INSUFFICIENT_RESOURCES max_recv_dtos are outstanding
 * @retval DAT_PROTECTION_VIOLATION the memory is of another zone ...
 * @retval DAT_PRIVILEGES_VIOLATION ... or may not be written
 *
 * Threads: as dat_ep_post_send(). Rule: dat_ep_post_recv(3DAT).
 */
DAT_RETURN DAT_API dat_ep_post_recv(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                    DAT_LMR_TRIPLET *local_iov, DAT_DTO_COOKIE user_cookie,
                                    DAT_COMPLETION_FLAGS completion_flags);

/**
 * Posts an RDMA read: the peer's memory into ours. The peer takes no part.
 *
 * @param[in] ep_handle    the endpoint, connected
 * @param[in] num_segments how many local segments, at most max_rdma_read_iov of the EP
 * @param[in] local_iov    where to
 * @param[in] user_cookie  returned in the completion
 * @param[in] remote_iov   where from: one segment; not kept
 * @param[in] completion_flags DAT_COMPLETION_*
 *
 * @retval DAT_SUCCESS
 * @retval DAT_LENGTH_ERROR the local segments are shorter than the remote one
 * @retval DAT_INVALID_PARAMETER as dat_ep_post_send(); `ARG5`: no remote_iov
 *
 * and as dat_ep_post_send(). Threads: as dat_ep_post_send(). Rule:
 * dat_ep_post_rdma_read(3DAT).
 */
DAT_RETURN DAT_API dat_ep_post_rdma_read(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                         DAT_LMR_TRIPLET *local_iov, DAT_DTO_COOKIE user_cookie,
                                         const DAT_RMR_TRIPLET *remote_iov,
                                         DAT_COMPLETION_FLAGS completion_flags);

/**
 * dat_ep_post_rdma_read() into memory that a context for peers names: of an RMR
 * of our own, or of an LMR. It needs the right to remote writes.
 *
 * @param[in] ep_handle   the endpoint, connected
 * @param[in] local_iov   where to: one segment; not kept
 * @param[in] user_cookie returned in the completion
 * @param[in] remote_iov  where from: one segment; not kept
 * @param[in] completion_flags DAT_COMPLETION_*
 *
 * @retval DAT_LENGTH_ERROR local_iov is shorter than remote_iov
 * @retval DAT_INVALID_PARAMETER `ARG2`, `ARG4`: NULL. `ARG5`: flags not allowed
 * @retval DAT_MODEL_NOT_SUPPORTED
 *
 * and as dat_ep_post_rdma_read().
 * @note Not exported by the reference library.
 *
 * Threads: as dat_ep_post_send(). Rule: DAT 2.0 specification.
 */
DAT_RETURN DAT_API dat_ep_post_rdma_read_to_rmr(DAT_EP_HANDLE ep_handle,
                                                const DAT_RMR_TRIPLET *local_iov,
                                                DAT_DTO_COOKIE user_cookie,
                                                const DAT_RMR_TRIPLET *remote_iov,
                                                DAT_COMPLETION_FLAGS completion_flags);

/**
 * Posts an RDMA write: our memory into the peer's. The peer takes no part; it
 * sees the data at the latest when it gets the completion of a receive for a
 * later send.
 *
 * @param[in] ep_handle    the endpoint, connected
 * @param[in] num_segments how many local segments, at most max_rdma_write_iov of the EP
 * @param[in] local_iov    where from
 * @param[in] user_cookie  returned in the completion
 * @param[in] remote_iov   where to: one segment; not kept
 * @param[in] completion_flags DAT_COMPLETION_*
 *
 * @retval DAT_SUCCESS
 * @retval DAT_LENGTH_ERROR the local segments are longer than the remote one
 * @retval DAT_INVALID_PARAMETER as dat_ep_post_send(); `ARG5`: no remote_iov
 *
 * and as dat_ep_post_send(). Threads: as dat_ep_post_send(). Rule:
 * dat_ep_post_rdma_write(3DAT).
 */
DAT_RETURN DAT_API dat_ep_post_rdma_write(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                          DAT_LMR_TRIPLET *local_iov, DAT_DTO_COOKIE user_cookie,
                                          const DAT_RMR_TRIPLET *remote_iov,
                                          DAT_COMPLETION_FLAGS completion_flags);

/**
 * Tells the state of an endpoint, and whether it has anything to do.
 *
 * @param[in]  ep_handle    the endpoint
 * @param[out] ep_state     its state; may be NULL
 * @param[out] recv_idle    DAT_TRUE: no receive is outstanding; may be NULL
 * @param[out] request_idle DAT_TRUE: no request is outstanding; may be NULL
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `EP`
 *
 * Threads: safe. Rule: dat_ep_get_status(3DAT). The reference implementation
 * answers with the numbers outstanding, so that its 0 means idle.
 */
DAT_RETURN DAT_API dat_ep_get_status(DAT_EP_HANDLE ep_handle, DAT_EP_STATE *ep_state,
                                     DAT_BOOLEAN *recv_idle, DAT_BOOLEAN *request_idle);

/**
 * Frees an endpoint. A connection is ended abruptly; outstanding operations
 * are dropped, and nothing but what is queued already will name the endpoint.
 *
 * @param[in] ep_handle the endpoint; no longer valid after success
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `EP`
 * @retval DAT_INVALID_STATE `EP_*`: held by an RSP or by a connection request
 *
 * Threads: per object; callbacks of the provider may be running. Rule:
 * dat_ep_free(3DAT).
 */
DAT_RETURN DAT_API dat_ep_free(DAT_EP_HANDLE ep_handle);

/**
 * Makes a disconnected endpoint ready to be connected again. Attributes, EVDs
 * and zone stay; addresses and private data go.
 *
 * @param[in] ep_handle disconnected, or unconnected (then nothing happens)
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `EP`
 * @retval DAT_INVALID_STATE `EP_*`
 *
 * Threads: per object. Rule: dat_ep_reset(3DAT).
 */
DAT_RETURN DAT_API dat_ep_reset(DAT_EP_HANDLE ep_handle);

/**
 * Tells how many receives an endpoint holds: those posted to it or, of a shared
 * receive queue, those it took for messages; in both cases until their
 * completions are taken.
 *
 * @param[in]  ep_handle        the endpoint
 * @param[out] nbufs_allocated  how many; may be NULL
 * @param[out] bufs_alloc_span  how far they are apart in message order; may be
 *                              NULL
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `EP`
 * @retval DAT_MODEL_NOT_SUPPORTED the endpoint has an SRQ, and the provider's
 *         ep_recv_info_supported is 0; the reference implementation says
 *         DAT_NOT_IMPLEMENTED
 *
 * Threads: per object. Rule: dat_ep_recv_query(3DAT).
 */
DAT_RETURN DAT_API dat_ep_recv_query(DAT_EP_HANDLE ep_handle, DAT_COUNT *nbufs_allocated,
                                     DAT_COUNT *bufs_alloc_span);

/**
 * Limits what an endpoint may take from its shared receive queue.
 *
 * @param[in] ep_handle an endpoint with an SRQ
 * @param[in] soft_high_watermark receives; one asynchronous event at more, with
 *                      DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT, then disarmed until
 *                      set again
 * @param[in] hard_high_watermark receives; the connection is broken by a message
 *                      that needs more. DAT_WATERMARK_INFINITE turns either off
 *
 * @retval DAT_SUCCESS also if more are held already: event or end follow at once
 * @retval DAT_INVALID_HANDLE `EP`
 * @retval DAT_INVALID_PARAMETER `ARG2`, `ARG3`: negative
 * @retval DAT_MODEL_NOT_SUPPORTED the endpoint has receives of its own, or the
 *         provider's srq_watermarks_supported is less than 2; the reference
 *         implementation says DAT_NOT_IMPLEMENTED
 *
 * Threads: per object. Rule: dat_ep_set_watermark(3DAT).
 */
DAT_RETURN DAT_API dat_ep_set_watermark(DAT_EP_HANDLE ep_handle, DAT_COUNT soft_high_watermark,
                                        DAT_COUNT hard_high_watermark);

/* ==== Calls: service points =============================================== */

/**
 * Listens on a connection qualifier, for any number of requests.
 *
 * @param[in]  ia_handle  the adapter
 * @param[in]  conn_qual  where, as dat_ep_connect() names it; 1 to 65535 suit every transport
 * @param[in]  evd_handle requests arrive here; has the CR stream
 * @param[in]  psp_flags  who makes the endpoints
 * @param[out] psp_handle ended by dat_psp_free()
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `IA`; `EVD_CR`: bad, null, or without the stream
 * @retval DAT_INVALID_PARAMETER `ARG2`: no such qualifier. `ARG4`: no such
 *         flag. `ARG5`: psp_handle is NULL
 * @retval DAT_CONN_QUAL_IN_USE
 * @retval DAT_INSUFFICIENT_RESOURCES
 * @retval DAT_MODEL_NOT_SUPPORTED see the provider's ep_creator
 *
 * Threads: safe. Rule: dat_psp_create(3DAT).
 */
DAT_RETURN DAT_API dat_psp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual,
                                  DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS psp_flags,
                                  DAT_PSP_HANDLE *psp_handle);

/**
 * Creates a PSP on a qualifier that the provider picks.
 *
 * @param[in]  ia_handle  the adapter
 * @param[out] conn_qual  the qualifier it picked
 * @param[in]  evd_handle requests arrive here; has the CR stream
 * @param[in]  psp_flags  who makes the endpoints
 * @param[out] psp_handle ended by dat_psp_free()
 *
 * @retval DAT_INVALID_PARAMETER `ARG2`: conn_qual is NULL, and as
 *         dat_psp_create()
 * @retval DAT_CONN_QUAL_UNAVAILABLE all are taken
 *
 * and as dat_psp_create(). Threads: safe. Rule: dat_psp_create_any(3DAT).
 */
DAT_RETURN DAT_API dat_psp_create_any(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL *conn_qual,
                                      DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS psp_flags,
                                      DAT_PSP_HANDLE *psp_handle);

/**
 * Tells what a PSP was made with.
 *
 * @param[in]  psp_handle the PSP
 * @param[in]  psp_param_mask DAT_PSP_FIELD_*
 * @param[out] psp_param  caller's storage
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `PSP`
 * @retval DAT_INVALID_PARAMETER `ARG2`: unknown bits. `ARG3`: psp_param is NULL
 *
 * Threads: safe. Rule: dat_psp_query(3DAT).
 */
DAT_RETURN DAT_API dat_psp_query(DAT_PSP_HANDLE psp_handle, DAT_PSP_PARAM_MASK psp_param_mask,
                                 DAT_PSP_PARAM *psp_param);

/**
 * Stops listening. Requests that have arrived stay and can be answered.
 *
 * @param[in] psp_handle the PSP; no longer valid after success
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `PSP`
 *
 * Threads: per object. Rule: dat_psp_free(3DAT).
 */
DAT_RETURN DAT_API dat_psp_free(DAT_PSP_HANDLE psp_handle);

/**
 * Listens for one request, to be taken by one given endpoint.
 *
 * @param[in]  ia_handle  the adapter
 * @param[in]  conn_qual  where, as of dat_psp_create()
 * @param[in]  ep_handle  unconnected; reserved from here on
 * @param[in]  evd_handle the request arrives here; has the CR stream
 * @param[out] rsp_handle ended by dat_rsp_free()
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `IA`, `EP`, `EVD_CR`
 * @retval DAT_INVALID_PARAMETER `ARG2`: no such qualifier. `ARG5`: rsp_handle
 *         is NULL
 * @retval DAT_INVALID_STATE `EP_*`: not unconnected
 * @retval DAT_CONN_QUAL_IN_USE
 * @retval DAT_INSUFFICIENT_RESOURCES
 *
 * Any failure leaves the endpoint as it was. Threads: safe. Rule:
 * dat_rsp_create(3DAT).
 */
DAT_RETURN DAT_API dat_rsp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual,
                                  DAT_EP_HANDLE ep_handle, DAT_EVD_HANDLE evd_handle,
                                  DAT_RSP_HANDLE *rsp_handle);

/**
 * Tells what an RSP was made with.
 *
 * @param[in]  rsp_handle the RSP
 * @param[in]  rsp_param_mask DAT_RSP_FIELD_*
 * @param[out] rsp_param  caller's storage
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `RSP`
 * @retval DAT_INVALID_PARAMETER `ARG2`: unknown bits. `ARG3`: rsp_param is NULL
 *
 * Threads: safe. Rule: dat_rsp_query(3DAT).
 */
DAT_RETURN DAT_API dat_rsp_query(DAT_RSP_HANDLE rsp_handle, DAT_RSP_PARAM_MASK rsp_param_mask,
                                 DAT_RSP_PARAM *rsp_param);

/**
 * Frees an RSP. An endpoint that no request came for is unconnected again; one
 * that has got its request belongs to that.
 *
 * @param[in] rsp_handle the RSP; no longer valid after success
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `RSP`
 *
 * Threads: per object. Rule: dat_rsp_free(3DAT).
 */
DAT_RETURN DAT_API dat_rsp_free(DAT_RSP_HANDLE rsp_handle);

/**
 * Listens on a socket address, for requests by dat_ep_common_connect().
 *
 * @param[in]  ia_handle  the adapter
 * @param[in]  comm       domain, type and protocol; not kept. The family of the
 *                        adapter's address, SOCK_STREAM, and 0 or IPPROTO_TCP
 * @param[in]  address    address and port; not kept. The adapter's, or the one
 *                        that stands for any
 * @param[in]  evd_handle requests arrive here; has the CR stream
 * @param[out] csp_handle ended by dat_csp_free()
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `IA`; `EVD_CR`
 * @retval DAT_INVALID_PARAMETER `ARG2`, `ARG3`, `ARG5`: NULL. `ARG3` also: no
 *         port
 * @retval DAT_INVALID_ADDRESS `MALFORMED`; `UNSUPPORTED`: not this adapter's
 * @retval DAT_PORT_IN_USE
 * @retval DAT_COMM_NOT_SUPPORTED
 * @retval DAT_MODEL_NOT_SUPPORTED
 *
 * and as dat_psp_create().
 * @note Not exported by the reference library.
 *
 * Threads: safe. Rule: DAT 2.0 specification.
 */
DAT_RETURN DAT_API dat_csp_create(DAT_IA_HANDLE ia_handle, DAT_COMM *comm,
                                  DAT_IA_ADDRESS_PTR address, DAT_EVD_HANDLE evd_handle,
                                  DAT_CSP_HANDLE *csp_handle);

/**
 * Tells what a CSP was made with.
 *
 * @param[in]  csp_handle the CSP
 * @param[in]  csp_param_mask DAT_CSP_FIELD_*
 * @param[out] csp_param  caller's storage
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `CSP`
 * @retval DAT_INVALID_PARAMETER `ARG2`: unknown bits. `ARG3`: csp_param is NULL
 * @retval DAT_MODEL_NOT_SUPPORTED
 *
 * @note Not exported by the reference library.
 *
 * Threads: safe. Rule: DAT 2.0 specification.
 */
DAT_RETURN DAT_API dat_csp_query(DAT_CSP_HANDLE csp_handle, DAT_CSP_PARAM_MASK csp_param_mask,
                                 DAT_CSP_PARAM *csp_param);

/**
 * Stops listening. Requests that have arrived stay and can be answered.
 *
 * @param[in] csp_handle the CSP; no longer valid after success
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `CSP`
 * @retval DAT_MODEL_NOT_SUPPORTED
 *
 * @note Not exported by the reference library.
 *
 * Threads: per object. Rule: DAT 2.0 specification.
 */
DAT_RETURN DAT_API dat_csp_free(DAT_CSP_HANDLE csp_handle);

/* ==== Calls: connection requests ========================================== */

/**
 * Tells who asks for a connection, and what came with it.
 *
 * @param[in]  cr_handle the request
 * @param[in]  cr_param_mask DAT_CR_FIELD_*
 * @param[out] cr_param  caller's storage; its pointers are valid until the
 *                       request is accepted, rejected or handed off
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `CR`
 * @retval DAT_INVALID_PARAMETER `ARG2`: unknown bits. `ARG3`: cr_param is NULL
 *
 * Threads: safe. Rule: dat_cr_query(3DAT).
 */
DAT_RETURN DAT_API dat_cr_query(DAT_CR_HANDLE cr_handle, DAT_CR_PARAM_MASK cr_param_mask,
                                DAT_CR_PARAM *cr_param);

/**
 * Accepts a request. That the connection stands comes as an event.
 *
 * @param[in] cr_handle  the request; no longer valid after success
 * @param[in] ep_handle  an unconnected endpoint of the same adapter, with zone
 *                       and EVDs; DAT_HANDLE_NULL if the request came with one
 * @param[in] private_data_size bytes; delivered whole or refused
 * @param[in] private_data reaches the peer with its ESTABLISHED event; not
 *                       kept. May be the request's own
 *
 * @retval DAT_SUCCESS also if the peer is gone: then
 *         DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR follows
 * @retval DAT_INVALID_HANDLE `CR`; `EP`: bad, none at all, or two
 * @retval DAT_INVALID_PARAMETER `ARG3`: too much private data. `ARG4`: a size
 *         without data
 * @retval DAT_INVALID_STATE the endpoint is not free, or lacks zone or EVDs
 *
 * Threads: per object. Rule: dat_cr_accept(3DAT).
 */
DAT_RETURN DAT_API dat_cr_accept(DAT_CR_HANDLE cr_handle, DAT_EP_HANDLE ep_handle,
                                 DAT_COUNT private_data_size, const DAT_PVOID private_data);

/**
 * Turns a request down. The peer gets DAT_CONNECTION_EVENT_PEER_REJECTED. The
 * endpoint of an RSP is unconnected again; one made by the provider is freed.
 *
 * @param[in] cr_handle  the request; no longer valid after success
 * @param[in] private_data_size bytes
 * @param[in] private_data reaches the peer with the event; not kept
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `CR`
 * @retval DAT_INVALID_PARAMETER `ARG2`, `ARG3`: as in dat_cr_accept()
 *
 * Threads: per object. Rule: dat_cr_reject(3DAT); private data since DAT 2.0.
 */
DAT_RETURN DAT_API dat_cr_reject(DAT_CR_HANDLE cr_handle, DAT_COUNT private_data_size,
                                 const DAT_PVOID private_data);

/**
 * Passes a request on to another service point of the same adapter, where it
 * arrives as a new request: with another handle and its current private data. The
 * endpoint of an RSP is unconnected again; one made by the provider is freed.
 *
 * @param[in] cr_handle the request; no longer valid after success
 * @param[in] handoff   the qualifier of that service point
 *
 * @retval DAT_SUCCESS also if the EVD there is full: the peer is refused then
 * @retval DAT_INVALID_HANDLE `CR`
 * @retval DAT_INVALID_PARAMETER `ARG2`: no service point listens there; the
 *         request is kept
 * @retval DAT_MODEL_NOT_SUPPORTED the reference implementation says
 *         DAT_NOT_IMPLEMENTED
 *
 * Threads: per object. Rule: dat_cr_handoff(3DAT).
 */
DAT_RETURN DAT_API dat_cr_handoff(DAT_CR_HANDLE cr_handle, DAT_CONN_QUAL handoff);

/* ==== Calls: memory (more in udat.h) ====================================== */

/**
 * Creates a protection zone: endpoints reach only memory of their own zone.
 *
 * @param[in]  ia_handle the adapter
 * @param[out] pz_handle ended by dat_pz_free()
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `IA`
 * @retval DAT_INVALID_PARAMETER `ARG2`: pz_handle is NULL
 * @retval DAT_INSUFFICIENT_RESOURCES
 *
 * Threads: safe. Rule: dat_pz_create(3DAT).
 */
DAT_RETURN DAT_API dat_pz_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE *pz_handle);

/**
 * Tells the adapter of a protection zone.
 *
 * @param[in]  pz_handle the zone
 * @param[in]  pz_param_mask DAT_PZ_FIELD_*
 * @param[out] pz_param  caller's storage
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `PZ`
 * @retval DAT_INVALID_PARAMETER `ARG2`: unknown bits. `ARG3`: pz_param is NULL
 *
 * Threads: safe. Rule: dat_pz_query(3DAT).
 */
DAT_RETURN DAT_API dat_pz_query(DAT_PZ_HANDLE pz_handle, DAT_PZ_PARAM_MASK pz_param_mask,
                                DAT_PZ_PARAM *pz_param);

/**
 * Frees a protection zone.
 *
 * @param[in] pz_handle the zone; no longer valid after success
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `PZ`
 * @retval DAT_INVALID_STATE `PZ_IN_USE`: an endpoint, LMR, RMR or SRQ has it
 *
 * Threads: per object. Rule: dat_pz_free(3DAT).
 */
DAT_RETURN DAT_API dat_pz_free(DAT_PZ_HANDLE pz_handle);

/**
 * Takes memory away from the adapter again. Operations that still use it fail.
 *
 * @param[in] lmr_handle the region; no longer valid after success. The memory
 *                       itself is the caller's
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `LMR`
 * @retval DAT_INVALID_STATE `LMR_IN_USE`: an RMR is bound to it
 *
 * Threads: per object. Rule: dat_lmr_free(3DAT).
 */
DAT_RETURN DAT_API dat_lmr_free(DAT_LMR_HANDLE lmr_handle);

/**
 * Makes what the CPU wrote visible to RDMA reads by peers. Does nothing where
 * memory is coherent; needed only if the provider says lmr_sync_req.
 *
 * @param[in] ia_handle      the adapter
 * @param[in] local_segments the segments; not kept
 * @param[in] num_segments   how many
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `IA`
 * @retval DAT_INVALID_PARAMETER a segment outside its LMR, or no such LMR
 *
 * Threads: per object. Rule: dat_lmr_sync_rdma_read(3DAT).
 */
DAT_RETURN DAT_API dat_lmr_sync_rdma_read(DAT_IA_HANDLE ia_handle,
                                          const DAT_LMR_TRIPLET *local_segments,
                                          DAT_VLEN num_segments);

/**
 * Makes what peers wrote by RDMA visible to the CPU. Otherwise as
 * dat_lmr_sync_rdma_read().
 *
 * @param[in] ia_handle      the adapter
 * @param[in] local_segments the segments; not kept
 * @param[in] num_segments   how many
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `IA`
 * @retval DAT_INVALID_PARAMETER a segment outside its LMR, or no such LMR
 *
 * Threads: per object. Rule: dat_lmr_sync_rdma_write(3DAT).
 */
DAT_RETURN DAT_API dat_lmr_sync_rdma_write(DAT_IA_HANDLE ia_handle,
                                           const DAT_LMR_TRIPLET *local_segments,
                                           DAT_VLEN num_segments);

/**
 * Creates an RMR, bound to nothing yet.
 *
 * @param[in]  pz_handle  its protection zone
 * @param[out] rmr_handle ended by dat_rmr_free()
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `PZ`
 * @retval DAT_INVALID_PARAMETER `ARG2`: rmr_handle is NULL
 * @retval DAT_INSUFFICIENT_RESOURCES `MEMORY`, `MEMORY_REGION`
 *
 * Threads: safe. Rule: dat_rmr_create(3DAT).
 */
DAT_RETURN DAT_API dat_rmr_create(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_handle);

/**
 * dat_rmr_create() of the narrow scope, DAT_RMR_SCOPE_EP: only the peer of the
 * endpoint that it is bound through may use it, and no longer than the connection
 * lasts.
 *
 * @param[in]  pz_handle  its protection zone
 * @param[out] rmr_handle ended by dat_rmr_free()
 *
 * @retval DAT_MODEL_NOT_SUPPORTED see the provider's rmr_scope_supported
 *
 * and as dat_rmr_create().
 * @note Not exported by the reference library.
 *
 * Threads: safe. Rule: DAT 2.0 specification.
 */
DAT_RETURN DAT_API dat_rmr_create_for_ep(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_handle);

/**
 * Tells what an RMR is bound to.
 *
 * @param[in]  rmr_handle the RMR
 * @param[in]  rmr_param_mask DAT_RMR_FIELD_*
 * @param[out] rmr_param  caller's storage
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `RMR`
 * @retval DAT_INVALID_PARAMETER `ARG2`: unknown bits, or the LMR triplet of an
 *         RMR that is not bound. `ARG3`: rmr_param is NULL
 *
 * Threads: per object. Rule: dat_rmr_query(3DAT).
 */
DAT_RETURN DAT_API dat_rmr_query(DAT_RMR_HANDLE rmr_handle, DAT_RMR_PARAM_MASK rmr_param_mask,
                                 DAT_RMR_PARAM *rmr_param);

/**
 * Posts a bind: opens a part of an LMR to the peer under a new context. The
 * context before is invalid from then on. Completes on the request EVD as
 * DAT_RMR_BIND_COMPLETION_EVENT.
 *
 * @param[in]  rmr_handle  the RMR
 * @param[in]  lmr_handle  the region, which cannot be freed while it is bound; not
 *                         looked at where it unbinds
 * @param[in]  lmr_triplet the part; a length of 0 unbinds. Not kept
 * @param[in]  mem_priv    remote rights, at most the region's
 * @param[in]  va_type     how the peer addresses it
 * @param[in]  ep_handle   whose request queue carries the bind
 * @param[in]  user_cookie returned in the completion
 * @param[in]  completion_flags DAT_COMPLETION_*
 * @param[out] context     the new context, good for later posts on the same
 *                         endpoint at once
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `RMR`, `LMR`, `EP`; `EVD_REQUEST`: the endpoint's
 *         was made without DAT_EVD_RMR_BIND_FLAG
 * @retval DAT_INVALID_PARAMETER `ARG3`: NULL, or not within the LMR. `ARG4`: unknown
 *         rights. `ARG5`, `ARG8`. `ARG9`: context is NULL, unless it unbinds
 * @retval DAT_INVALID_STATE `EP_*`: neither connected nor disconnected
 * @retval DAT_PROTECTION_VIOLATION the zones of RMR, LMR and endpoint differ
 * @retval DAT_PRIVILEGES_VIOLATION more rights than the LMR has
 * @retval DAT_INSUFFICIENT_RESOURCES the request queue is full
 * @retval DAT_MODEL_NOT_SUPPORTED the adapter has no windows, or this va_type
 *
 * Threads: as dat_ep_post_send(). Rule: dat_rmr_bind(3DAT).
 */
DAT_RETURN DAT_API dat_rmr_bind(DAT_RMR_HANDLE rmr_handle, DAT_LMR_HANDLE lmr_handle,
                                const DAT_LMR_TRIPLET *lmr_triplet, DAT_MEM_PRIV_FLAGS mem_priv,
                                DAT_VA_TYPE va_type, DAT_EP_HANDLE ep_handle,
                                DAT_RMR_COOKIE user_cookie, DAT_COMPLETION_FLAGS completion_flags,
                                DAT_RMR_CONTEXT *context);

/**
 * Frees an RMR, bound or not. Its context is invalid at once.
 *
 * @param[in] rmr_handle the RMR; no longer valid after success
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `RMR`
 *
 * Threads: per object. Rule: dat_rmr_free(3DAT).
 */
DAT_RETURN DAT_API dat_rmr_free(DAT_RMR_HANDLE rmr_handle);

/* ==== Calls: shared receive queues ======================================== */

/**
 * Creates a queue of receives that several endpoints take from.
 *
 * @param[in]  ia_handle  the adapter
 * @param[in]  pz_handle  the zone of the buffers
 * @param[in]  srq_attr   sizes; low_watermark is DAT_SRQ_LW_DEFAULT or at most
 *                        max_recv_dtos. Not kept
 * @param[out] srq_handle ended by dat_srq_free()
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `IA`, `PZ`
 * @retval DAT_INVALID_PARAMETER `ARG3`: NULL or bad values. `ARG4`: srq_handle
 *         is NULL
 * @retval DAT_INSUFFICIENT_RESOURCES
 * @retval DAT_MODEL_NOT_SUPPORTED see the provider's srq_supported
 *
 * Threads: safe. Rule: dat_srq_create(3DAT).
 */
DAT_RETURN DAT_API dat_srq_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                                  DAT_SRQ_ATTR *srq_attr, DAT_SRQ_HANDLE *srq_handle);

/**
 * Frees a shared receive queue; receives in it are dropped silently.
 *
 * @param[in] srq_handle the queue; no longer valid after success
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `SRQ`
 * @retval DAT_INVALID_STATE `SRQ_IN_USE`: an endpoint uses it
 *
 * Threads: per object. Rule: dat_srq_free(3DAT).
 */
DAT_RETURN DAT_API dat_srq_free(DAT_SRQ_HANDLE srq_handle);

/**
 * Posts a receive that whichever endpoint gets a message next will take. It
 * completes on the receive EVD of that endpoint.
 *
 * @param[in] srq_handle   the queue
 * @param[in] num_segments how many
 * @param[in] local_iov    the segments
 * @param[in] user_cookie  returned in the completion
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `SRQ`
 * @retval DAT_INVALID_PARAMETER
 * @retval DAT_INVALID_STATE `SRQ_ERROR`
 * @retval DAT_INSUFFICIENT_RESOURCES max_recv_dtos are outstanding
 * @retval DAT_PROTECTION_VIOLATION the memory is of another zone ...
 * @retval DAT_PRIVILEGES_VIOLATION ... or may not be written
 *
 * Threads: per object. Rule: dat_srq_post_recv(3DAT).
 */
DAT_RETURN DAT_API dat_srq_post_recv(DAT_SRQ_HANDLE srq_handle, DAT_COUNT num_segments,
                                     DAT_LMR_TRIPLET *local_iov, DAT_DTO_COOKIE user_cookie);

/**
 * Tells state, sizes and fill of a shared receive queue.
 *
 * @param[in]  srq_handle the queue
 * @param[in]  srq_param_mask DAT_SRQ_FIELD_*
 * @param[out] srq_param  caller's storage. A number the provider cannot tell is
 *                        DAT_VALUE_UNKNOWN
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `SRQ`
 * @retval DAT_INVALID_PARAMETER `ARG2`: unknown bits. `ARG3`: srq_param is NULL
 *
 * Threads: per object. Rule: dat_srq_query(3DAT).
 */
DAT_RETURN DAT_API dat_srq_query(DAT_SRQ_HANDLE srq_handle, DAT_SRQ_PARAM_MASK srq_param_mask,
                                 DAT_SRQ_PARAM *srq_param);

/**
 * Changes the number of receives a shared receive queue can hold.
 *
 * @param[in] srq_handle   the queue
 * @param[in] max_recv_dto receives
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `SRQ`
 * @retval DAT_INVALID_PARAMETER `ARG2`
 * @retval DAT_INVALID_STATE more are outstanding, or the low watermark is
 *         higher
 * @retval DAT_INSUFFICIENT_RESOURCES
 *
 * Threads: per object. Rule: dat_srq_resize(3DAT).
 */
DAT_RETURN DAT_API dat_srq_resize(DAT_SRQ_HANDLE srq_handle, DAT_COUNT max_recv_dto);

/**
 * Arms the low watermark: one asynchronous event when fewer receives are left.
 *
 * @param[in] srq_handle    the queue
 * @param[in] low_watermark receives
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `SRQ`
 * @retval DAT_INVALID_PARAMETER `ARG2`: more than the queue holds
 * @retval DAT_MODEL_NOT_SUPPORTED the reference implementation says
 *         DAT_NOT_IMPLEMENTED
 *
 * Threads: per object. Rule: dat_srq_set_lw(3DAT).
 */
DAT_RETURN DAT_API dat_srq_set_lw(DAT_SRQ_HANDLE srq_handle, DAT_COUNT low_watermark);

#ifdef __cplusplus
}
#endif

#endif /* _DAT_H_ */
