/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/**
 * @file dat_error.h
 * The return codes of every DAT call.
 *
 * A code is one 32-bit word made of three fields:
 *
 * | bits    | field   | taken out by          | says                          |
 * |---------|---------|-----------------------|-------------------------------|
 * | 31 - 30 | class   | `code & DAT_CLASS_*`  | error, warning or success     |
 * | 29 - 16 | type    | DAT_GET_TYPE()        | what went wrong               |
 * | 15 -  0 | subtype | DAT_GET_SUBTYPE()     | with which argument or object |
 *
 * DAT_SUCCESS is the word 0, so `== DAT_SUCCESS` is the whole test. Beyond
 * that, compare types, not words: errors carry DAT_CLASS_ERROR, while the
 * answers that are no failure of the call (DAT_QUEUE_EMPTY,
 * DAT_TIMEOUT_EXPIRED, DAT_INTERRUPTED_CALL) come without class and subtype.
 *
 * Some numbers differ from DAT 2.0; codes of the two must not be mixed.
 */
#ifndef _DAT_ERROR_H_
#define _DAT_ERROR_H_

#include <dat/udat_config.h>
#include <dat/dat_platform_specific.h>

/** What every call returns: class, type and subtype in one word. */
typedef DAT_UINT32 DAT_RETURN;

/* ---- Taking a code apart ------------------------------------------------ */

#define DAT_CLASS_SUCCESS 0x00000000
#define DAT_CLASS_WARNING 0x40000000
#define DAT_CLASS_ERROR   0x80000000

#define DAT_TYPE_MASK     0x3fff0000
#define DAT_SUBTYPE_MASK  0x0000FFFF

#define DAT_IS_WARNING(status)  ((DAT_UINT32)(status) & DAT_CLASS_WARNING)
#define DAT_GET_TYPE(status)    ((DAT_UINT32)(status) & DAT_TYPE_MASK)
#define DAT_GET_SUBTYPE(status) ((DAT_UINT32)(status) & DAT_SUBTYPE_MASK)

/* ---- Types --------------------------------------------------------------- */

/** The type field, in place: compare with DAT_GET_TYPE(). */
typedef enum dat_return_type {
    DAT_SUCCESS                     = 0x00000000, /**< done */
    DAT_ABORT                       = 0x00010000, /**< the object or its adapter went away during the call */
    DAT_CONN_QUAL_IN_USE            = 0x00020000, /**< another service point listens on this qualifier */
    DAT_INSUFFICIENT_RESOURCES      = 0x00030000, /**< no memory, or a limit of the adapter is reached */
    DAT_INTERNAL_ERROR              = 0x00040000, /**< the provider failed, through no fault of the caller */
    DAT_INVALID_HANDLE              = 0x00050000, /**< null, stale, or a handle of another type */
    DAT_INVALID_PARAMETER           = 0x00060000, /**< subtype DAT_INVALID_ARGn: the n-th parameter, handle included */
    DAT_INVALID_STATE               = 0x00070000, /**< the object is not in a state that allows this */
    DAT_LENGTH_ERROR                = 0x00080000, /**< source longer than destination, or an impossible length */
    DAT_MODEL_NOT_SUPPORTED         = 0x00090000, /**< legal in DAT, not offered by this provider */
    DAT_PROVIDER_NOT_FOUND          = 0x000A0000, /**< no usable registry entry of that name */
    DAT_PRIVILEGES_VIOLATION        = 0x000B0000, /**< the memory may not be accessed in this way */
    DAT_PROTECTION_VIOLATION        = 0x000C0000, /**< memory and endpoint are in different protection zones */
    DAT_QUEUE_EMPTY                 = 0x000D0000, /**< nothing there; no failure */
    DAT_QUEUE_FULL                  = 0x000E0000, /**< no room for another event */
    DAT_TIMEOUT_EXPIRED             = 0x000F0000, /**< the time is up; no failure */
    DAT_PROVIDER_ALREADY_REGISTERED = 0x00100000, /**< registry: name, version and thread safety are taken */
    DAT_PROVIDER_IN_USE             = 0x00110000, /**< registry: an adapter of the provider is still open */
    DAT_INVALID_ADDRESS             = 0x00120000, /**< no such address, or no way to it */
    DAT_INTERRUPTED_CALL            = 0x00130000, /**< a signal ended the wait; no failure */
    DAT_CONN_QUAL_UNAVAILABLE       = 0x00140000, /**< every connection qualifier is taken */
    DAT_NOT_IMPLEMENTED             = 0x0FFF0000  /**< the provider does not have this call */
} DAT_RETURN_TYPE;

/** The name that DAT 1.0 had for it. */
#define DAT_NAME_NOT_FOUND DAT_PROVIDER_NOT_FOUND

/* ---- Subtypes ------------------------------------------------------------ */

/** The subtype field. Each call's description lists the subtypes it returns. */
typedef enum dat_return_subtype {
    DAT_NO_SUBTYPE                         = 0,

    /* DAT_ABORT */
    DAT_SUB_INTERRUPTED                    = 1,

    /* DAT_INSUFFICIENT_RESOURCES: what ran out */
    DAT_RESOURCE_MEMORY                    = 2,
    DAT_RESOURCE_DEVICE                    = 3,
    DAT_RESOURCE_TEP                       = 4,  /**< transport endpoints (queue pairs) */
    DAT_RESOURCE_TEVD                      = 5,  /**< transport event queues (completion queues) */
    DAT_RESOURCE_PROTECTION_DOMAIN         = 6,
    DAT_RESOURCE_MEMORY_REGION             = 7,
    DAT_RESOURCE_ERROR_HANDLER             = 8,
    DAT_RESOURCE_CREDITS                   = 9,  /**< outstanding RDMA reads as target */
    DAT_RESOURCE_SRQ                       = 10,

    /* DAT_INVALID_HANDLE: the role of the handle ... */
    DAT_INVALID_HANDLE_IA                  = 11,
    DAT_INVALID_HANDLE_EP                  = 12,
    DAT_INVALID_HANDLE_LMR                 = 13,
    DAT_INVALID_HANDLE_RMR                 = 14,
    DAT_INVALID_HANDLE_PZ                  = 15,
    DAT_INVALID_HANDLE_PSP                 = 16,
    DAT_INVALID_HANDLE_RSP                 = 17,
    DAT_INVALID_HANDLE_CR                  = 18,
    DAT_INVALID_HANDLE_CNO                 = 19,
    DAT_INVALID_HANDLE_EVD_CR              = 20,
    DAT_INVALID_HANDLE_EVD_REQUEST         = 21,
    DAT_INVALID_HANDLE_EVD_RECV            = 22,
    DAT_INVALID_HANDLE_EVD_CONN            = 23,
    DAT_INVALID_HANDLE_EVD_ASYNC           = 24,
    DAT_INVALID_HANDLE_SRQ                 = 25,
    /* ... or its position in the call */
    DAT_INVALID_HANDLE1                    = 26,
    DAT_INVALID_HANDLE2                    = 27,
    DAT_INVALID_HANDLE3                    = 28,
    DAT_INVALID_HANDLE4                    = 29,
    DAT_INVALID_HANDLE5                    = 30,
    DAT_INVALID_HANDLE6                    = 31,
    DAT_INVALID_HANDLE7                    = 32,
    DAT_INVALID_HANDLE8                    = 33,
    DAT_INVALID_HANDLE9                    = 34,
    DAT_INVALID_HANDLE10                   = 35,

    /* DAT_INVALID_PARAMETER: its position, counted from 1 */
    DAT_INVALID_ARG1                       = 36,
    DAT_INVALID_ARG2                       = 37,
    DAT_INVALID_ARG3                       = 38,
    DAT_INVALID_ARG4                       = 39,
    DAT_INVALID_ARG5                       = 40,
    DAT_INVALID_ARG6                       = 41,
    DAT_INVALID_ARG7                       = 42,
    DAT_INVALID_ARG8                       = 43,
    DAT_INVALID_ARG9                       = 44,
    DAT_INVALID_ARG10                      = 45,

    /* DAT_INVALID_STATE, endpoints: the present state, or the missing part */
    DAT_INVALID_STATE_EP_UNCONNECTED       = 46,
    DAT_INVALID_STATE_EP_ACTCONNPENDING    = 47,
    DAT_INVALID_STATE_EP_PASSCONNPENDING   = 48,
    DAT_INVALID_STATE_EP_TENTCONNPENDING   = 49,
    DAT_INVALID_STATE_EP_CONNECTED         = 50,
    DAT_INVALID_STATE_EP_DISCONNECTED      = 51,
    DAT_INVALID_STATE_EP_RESERVED          = 52,
    DAT_INVALID_STATE_EP_COMPLPENDING      = 53,
    DAT_INVALID_STATE_EP_DISCPENDING       = 54,
    DAT_INVALID_STATE_EP_PROVIDERCONTROL   = 55,
    DAT_INVALID_STATE_EP_NOTREADY          = 56,
    DAT_INVALID_STATE_EP_RECV_WATERMARK    = 57,
    DAT_INVALID_STATE_EP_PZ                = 58,
    DAT_INVALID_STATE_EP_EVD_REQUEST       = 59,
    DAT_INVALID_STATE_EP_EVD_RECV          = 60,
    DAT_INVALID_STATE_EP_EVD_CONNECT       = 61,
    DAT_INVALID_STATE_EP_UNCONFIGURED      = 62,
    DAT_INVALID_STATE_EP_UNCONFRESERVED    = 63,
    DAT_INVALID_STATE_EP_UNCONFPASSIVE     = 64,
    DAT_INVALID_STATE_EP_UNCONFTENTATIVE   = 65,
    /* ... CNOs */
    DAT_INVALID_STATE_CNO_IN_USE           = 66,
    DAT_INVALID_STATE_CNO_DEAD             = 67,
    /* ... EVDs */
    DAT_INVALID_STATE_EVD_OPEN             = 68,
    DAT_INVALID_STATE_EVD_ENABLED          = 69,
    DAT_INVALID_STATE_EVD_DISABLED         = 70,
    DAT_INVALID_STATE_EVD_WAITABLE         = 71,
    DAT_INVALID_STATE_EVD_UNWAITABLE       = 72,
    DAT_INVALID_STATE_EVD_IN_USE           = 73,
    DAT_INVALID_STATE_EVD_CONFIG_NOTIFY    = 74,
    DAT_INVALID_STATE_EVD_CONFIG_SOLICITED = 75,
    DAT_INVALID_STATE_EVD_CONFIG_THRESHOLD = 76,
    DAT_INVALID_STATE_EVD_WAITER           = 77,
    DAT_INVALID_STATE_EVD_ASYNC            = 78, /**< only an asynchronous-error EVD will do */
    /* ... adapters, memory, protection zones */
    DAT_INVALID_STATE_IA_IN_USE            = 79,
    DAT_INVALID_STATE_LMR_IN_USE           = 80,
    DAT_INVALID_STATE_LMR_FREE             = 81,
    DAT_INVALID_STATE_PZ_IN_USE            = 82,
    DAT_INVALID_STATE_PZ_FREE              = 83,
    /* ... shared receive queues */
    DAT_INVALID_STATE_SRQ_OPERATIONAL      = 84,
    DAT_INVALID_STATE_SRQ_ERROR            = 85,
    DAT_INVALID_STATE_SRQ_IN_USE           = 86,

    /* DAT_PRIVILEGES_VIOLATION: the access that was refused */
    DAT_PRIVILEGES_READ                    = 87,
    DAT_PRIVILEGES_WRITE                   = 88,
    DAT_PRIVILEGES_RDMA_READ               = 89,
    DAT_PRIVILEGES_RDMA_WRITE              = 90,

    /* DAT_PROTECTION_VIOLATION: likewise */
    DAT_PROTECTION_READ                    = 91,
    DAT_PROTECTION_WRITE                   = 92,
    DAT_PROTECTION_RDMA_READ               = 93,
    DAT_PROTECTION_RDMA_WRITE              = 94,

    /* DAT_INVALID_ADDRESS */
    DAT_INVALID_ADDRESS_UNSUPPORTED        = 95, /**< well formed, but no address of an adapter (multicast ...) */
    DAT_INVALID_ADDRESS_UNREACHABLE        = 96, /**< known at once to have no route */
    DAT_INVALID_ADDRESS_MALFORMED          = 97, /**< not an address in any setting */

    /* DAT_PROVIDER_NOT_FOUND: what no entry matched */
    DAT_NAME_NOT_REGISTERED                = 98,
    DAT_MAJOR_NOT_FOUND                    = 99,
    DAT_MINOR_NOT_FOUND                    = 100,
    DAT_THREAD_SAFETY_NOT_FOUND            = 101
} DAT_RETURN_SUBTYPE;

#endif /* _DAT_ERROR_H_ */
