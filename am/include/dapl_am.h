/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/**
 * @file dapl_am.h
 * Active messages, put and get, and barriers between the processes of a job, over any DAT 2.0
 * adapter. A job is started by a launcher that serves PMIx (mpirun, srun, prterun); a program that
 * is started without one is a job of one rank.
 *
 * @section dapl_am_reading How to read the descriptions
 *
 * - Sizes are in bytes, times in milliseconds. Ranks count from 0.
 * - Functions that return `int` return DAPL_AM_OK or one of enum dapl_am_status. What has no
 *   status of its own below can return DAPL_AM_ERR_STATE (the job is not set up that far),
 *   DAPL_AM_ERR_RANK (no such rank), DAPL_AM_ERR_CONTEXT (called from a handler that must not),
 *   DAPL_AM_ERR_ARGUMENT (NULL for a place of a result, or for memory of which bytes are wanted) and
 *   DAPL_AM_ERR_RESOURCES (no memory for the operation). Functions without a status do nothing for NULL.
 *   A failure writes one line to the standard error that names its cause.
 * - "Threads: any" means from any thread at any time between dapl_am_attach() and the end of the
 *   job, not from a handler. "Threads: any, handlers too" includes handlers.
 * - "Blocks" means that the function polls, and so runs handlers, until it is done. It also
 *   describes every function that sends a request, since it may have to wait for a credit.
 * - When the connection to a rank is lost the job ends; see dapl_am_exit(). No function reports it.
 */
#ifndef DAPL_AM_H
#define DAPL_AM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define DAPL_AM_MAX_ARGS     16  /**< arguments of a message */
#define DAPL_AM_MAX_HANDLERS 256 /**< indices are 1 to 255 */

enum dapl_am_status {
    DAPL_AM_OK = 0,
    DAPL_AM_NOT_READY,        /**< it would have to wait, or is not done yet */
    DAPL_AM_BARRIER_MISMATCH, /**< the ranks disagree about the barrier */
    DAPL_AM_ERR_ARGUMENT,     /**< a value out of its range */
    DAPL_AM_ERR_RANK,         /**< no such rank */
    DAPL_AM_ERR_RANGE,        /**< not wholly inside the rank's segment */
    DAPL_AM_ERR_STATE,        /**< not now: set-up steps or barrier halves out of order */
    DAPL_AM_ERR_CONTEXT,      /**< not from a handler, or a second reply */
    DAPL_AM_ERR_RESOURCES,    /**< no memory, or the adapter has no more objects */
    DAPL_AM_ERR_ADAPTER,      /**< no adapter of that name opens */
    DAPL_AM_ERR_LAUNCHER      /**< PMIx failed */
};

/**
 * Puts a status into words.
 *
 * @param[in] status enum dapl_am_status, or any other number
 *
 * @return its meaning, a constant string; never NULL
 *
 * Threads: any, at any time, handlers too.
 */
const char *dapl_am_strerror(int status);

/* ==== The job ============================================================= */

/** How a job is made. A field that is 0 or NULL takes its default. */
typedef struct dapl_am_options {
    size_t      size;         /**< sizeof(dapl_am_options), so that it can grow */
    const char *adapter;      /**< name in dat.conf; else $DAPL_AM_ADAPTER; else see dapl-am(7) */
    unsigned    credits;      /**< requests in flight to one rank, 1 to 128; else $DAPL_AM_CREDITS; else 12.
                                   The same on all ranks */
    unsigned    connect_all;  /**< 1: dapl_am_attach() connects all ranks; else $DAPL_AM_CONNECT_ALL;
                                   else each pair when it first talks */
    unsigned    receive_thread; /**< 1: a thread of the library runs handlers too; else
                                   $DAPL_AM_RECEIVE_THREAD; else only functions that poll do */
    unsigned    put_barrier;  /**< 1: barriers by puts; else $DAPL_AM_PUT_BARRIER; else by messages.
                                   The same on all ranks */
    unsigned    connect_timeout; /**< milliseconds; else $DAPL_AM_CONNECT_TIMEOUT; else 60000 */
    unsigned    exit_timeout; /**< milliseconds an exit may take to reach all ranks; else
                                   $DAPL_AM_EXIT_TIMEOUT; else 5000 and 20 a rank, at most 60000 */
    unsigned    no_registration_cache; /**< 1: memory outside the segment is always copied; else
                                   $DAPL_AM_NO_REGISTRATION_CACHE; else large parts of it are registered
                                   with the adapter, until they are unmapped */
    unsigned    setup_timeout; /**< milliseconds all ranks may take to come to dapl_am_init(), and to
                                   dapl_am_attach(); else $DAPL_AM_SETUP_TIMEOUT; else 300000 */
} DAPL_AM_OPTIONS;

/**
 * Joins the job: learns rank and size from the launcher, opens the adapter, and exchanges
 * addresses. Collective. From its return on, the end of one rank is the end of all; see
 * dapl_am_exit().
 *
 * Takes over SIGHUP, SIGINT, SIGQUIT and SIGTERM where the program has left them at their default.
 *
 * @param[in] options may be NULL; not kept
 *
 * @retval DAPL_AM_OK
 * @retval DAPL_AM_ERR_STATE     called before
 * @retval DAPL_AM_ERR_ARGUMENT  a value out of its range, in options or environment, or one that has to
 *                               be the same on all ranks and is not; also the adapters' network
 * @retval DAPL_AM_ERR_ADAPTER   the adapter does not open
 * @retval DAPL_AM_ERR_LAUNCHER  the launcher's PMIx server failed, or some ranks have not come in time,
 *                               which are named on the standard error
 * @retval DAPL_AM_ERR_RESOURCES
 *
 * Threads: one, once.
 */
int dapl_am_init(const DAPL_AM_OPTIONS *options);

/**
 * Tells the rank of this process.
 *
 * @return the rank; 0 before dapl_am_init()
 *
 * Threads: any, at any time, handlers too.
 */
int dapl_am_rank(void);

/**
 * Tells how many ranks the job has.
 *
 * @return their number; 1 before dapl_am_init()
 *
 * Threads: any, at any time, handlers too.
 */
int dapl_am_size(void);

/**
 * Tells the adapter that the job uses.
 *
 * @return its name in dat.conf, "" before dapl_am_init(); belongs to the library
 *
 * Threads: any, at any time, handlers too.
 */
const char *dapl_am_adapter(void);

/* ---- Handlers ---- */

/** What a handler serves: one or more of the first three, one or both of the last two. */
enum dapl_am_kind {
    DAPL_AM_SHORT   = 0x01, /**< arguments only */
    DAPL_AM_MEDIUM  = 0x02, /**< arguments and a payload in a buffer of the library's */
    DAPL_AM_LONG    = 0x04, /**< arguments and a payload in this rank's segment */
    DAPL_AM_REQUEST = 0x10,
    DAPL_AM_REPLY   = 0x20
};

#define DAPL_AM_ANY_ARGS (-1) /**< any number of arguments */

/** The message that a handler is running for. */
typedef struct dapl_am_token dapl_am_token;

/**
 * A handler. It runs to its end without blocking: it may reply once if it serves a request, ask
 * dapl_am_token_rank(), call the other functions that are marked so, and end the job.
 * Two handlers may run at once on two threads.
 *
 * @param[in] token   of this message; valid until the handler returns
 * @param[in] payload aligned to 8 bytes if medium and writable, valid until the handler returns; in the
 *                    segment if long; NULL if short
 * @param[in] size    of the payload, bytes
 * @param[in] count   number of arguments
 * @param[in] args    the arguments; valid until the handler returns
 * @param[in] context of the table
 */
typedef void dapl_am_function(dapl_am_token *token, void *payload, size_t size, int count,
                              const int32_t *args, void *context);

typedef struct dapl_am_handler {
    int               index;   /**< 1 to 255; or 0, and dapl_am_attach() sets the highest free one */
    unsigned          kind;    /**< enum dapl_am_kind */
    int               count;   /**< number of arguments, 0 to 16, or DAPL_AM_ANY_ARGS */
    dapl_am_function *function;
    void             *context; /**< passed to the function */
    const char       *name;    /**< for diagnostics; may be NULL. Kept, not copied */
} DAPL_AM_HANDLER;

/**
 * Makes the segment, which all ranks can reach, and opens this rank for messages. Collective.
 * Ranks whose indices are assigned get the same ones if their tables are alike.
 *
 * @param[in,out] handlers the table; copied, and assigned indices are written back
 * @param[in] count        entries of it; 0 to 255
 * @param[in] segment_size bytes on this rank; 0 for none. Rounded up to pages
 *
 * @retval DAPL_AM_OK
 * @retval DAPL_AM_ERR_STATE     before dapl_am_init(), or called before
 * @retval DAPL_AM_ERR_ARGUMENT  an entry with a bad index, kind or count, or with an index twice
 * @retval DAPL_AM_ERR_RESOURCES no memory for the segment, or it cannot be registered
 * @retval DAPL_AM_ERR_LAUNCHER
 *
 * Threads: one, once.
 */
int dapl_am_attach(DAPL_AM_HANDLER *handlers, int count, size_t segment_size);

/**
 * Tells where the segment of a rank is, in the address space of that rank.
 *
 * @param[in]  rank    whose segment
 * @param[out] address page-aligned; NULL if it has none
 * @param[out] size    bytes
 *
 * @retval DAPL_AM_OK
 * @retval DAPL_AM_ERR_RANK
 * @retval DAPL_AM_ERR_ARGUMENT a NULL pointer
 * @retval DAPL_AM_ERR_STATE    before dapl_am_attach()
 *
 * Threads: any, handlers too.
 */
int dapl_am_segment(int rank, void **address, size_t *size);

/* ==== Ending ============================================================== */

/**
 * Ends the job: all ranks, with one exit code. So do the return of one rank from main() and
 * exit(), the signals taken over by dapl_am_init(), and the loss of a connection.
 *
 * The first code counts on each rank; a rank that has none takes that of the rank that asks it to
 * end. A rank that ends because of another one gets SIGQUIT first if the program has a handler for
 * it; the handler runs on a thread of the library's and may call dapl_am_exit() itself. Then the
 * standard streams are flushed, and the process ends by _exit(). Functions registered by atexit()
 * run only where the program itself called exit() or returned from main(). The process leaves PMIx
 * also for other libraries in it that are clients, such as MPI.
 *
 * Rank 0 elects the one rank that asks all others to end. If that is not done within the exit
 * timeout, the ranks that did not answer are named on the standard error and the launcher is asked
 * to end the job with the same code.
 *
 * @param[in] code exit code; the lower 8 bits count
 *
 * Threads: any, at any time, handlers too, signal handlers too. Does not return.
 */
#if defined(__GNUC__)
__attribute__((noreturn))
#endif
void dapl_am_exit(int code);

/* ==== Active messages ===================================================== */

/**
 * Messages are delivered exactly once and in no particular order. A message to the own rank runs
 * its handler before the function returns.
 */

enum dapl_am_flags {
    DAPL_AM_IMMEDIATE = 0x1, /**< return DAPL_AM_NOT_READY instead of waiting for a credit or connection */
    DAPL_AM_ASYNC     = 0x2  /**< long requests: the payload stays the library's until the reply's
                                  handler has run, or, where there is no reply, until the target's
                                  handler is known to have run */
};

/**
 * Tells the largest payload of medium messages.
 *
 * @return bytes; constant from dapl_am_init() on
 *
 * Threads: any, handlers too.
 */
size_t dapl_am_max_medium(void);

/**
 * Tells the largest payload of long messages.
 *
 * @return bytes
 *
 * Threads: any, handlers too.
 */
size_t dapl_am_max_long(void);

/**
 * Sends a request without payload. Blocks.
 *
 * @param[in] rank    target
 * @param[in] handler index in the target's table, of kind short and request; checked there
 * @param[in] count   number of arguments, 0 to 16
 * @param[in] args    not kept; may be NULL if count is 0
 * @param[in] flags   0 or DAPL_AM_IMMEDIATE
 *
 * @retval DAPL_AM_OK
 * @retval DAPL_AM_NOT_READY    with DAPL_AM_IMMEDIATE; nothing is sent
 * @retval DAPL_AM_ERR_ARGUMENT a handler, count or flags out of their range
 * @retval DAPL_AM_ERR_RANK     no such rank
 * @retval DAPL_AM_ERR_STATE    before dapl_am_attach()
 * @retval DAPL_AM_ERR_CONTEXT  from a handler, which may only reply
 * @retval DAPL_AM_ERR_RESOURCES
 *
 * Threads: any.
 */
int dapl_am_request_short(int rank, int handler, int count, const int32_t *args, unsigned flags);

/**
 * Sends a request with a payload, which reaches the handler in a buffer. Blocks.
 *
 * @param[in] payload reusable when the function returns
 * @param[in] size    bytes, at most dapl_am_max_medium()
 *
 * Otherwise as dapl_am_request_short(). Threads: any.
 */
int dapl_am_request_medium(int rank, int handler, const void *payload, size_t size, int count,
                           const int32_t *args, unsigned flags);

/**
 * Sends a request with a payload that is in the target's segment when the handler runs. Blocks.
 *
 * @param[in] payload     any memory; reusable when the function returns, unless DAPL_AM_ASYNC
 * @param[in] size        bytes, at most dapl_am_max_long()
 * @param[in] destination address in the target's segment, as the target knows it
 * @param[in] flags       DAPL_AM_IMMEDIATE, DAPL_AM_ASYNC
 *
 * @retval DAPL_AM_ERR_RANGE the payload does not fit the target's segment there
 *
 * Otherwise as dapl_am_request_short(). Threads: any.
 */
int dapl_am_request_long(int rank, int handler, const void *payload, size_t size, void *destination,
                         int count, const int32_t *args, unsigned flags);

/**
 * Tells who sent the message that a handler runs for.
 *
 * @param[in] token of the message
 *
 * @return the rank; -1 for NULL
 *
 * Threads: the handler that has the token.
 */
int dapl_am_token_rank(const dapl_am_token *token);

/**
 * Answers a request, from its handler, at most once. Does not run handlers, except that of a reply
 * to the own rank.
 *
 * @param[in] token       of the request
 * @param[in] handler     index in the sender's table, of kind reply
 * @param[in] payload     reusable when the function returns; medium: reaches the handler in a buffer, long:
 *                        is in the sender's segment when the handler runs
 * @param[in] size        bytes, at most dapl_am_max_medium() or dapl_am_max_long()
 * @param[in] destination address in the segment of the request's sender, as that rank knows it
 * @param[in] count       number of arguments, 0 to 16
 * @param[in] args        not kept; may be NULL if count is 0
 *
 * @retval DAPL_AM_OK
 * @retval DAPL_AM_ERR_CONTEXT  the message is no request, or has a reply already
 * @retval DAPL_AM_ERR_ARGUMENT a handler, size or count out of its range
 * @retval DAPL_AM_ERR_RANGE    the payload does not fit the sender's segment there
 *
 * Threads: the handler that has the token.
 */
int dapl_am_reply_short(dapl_am_token *token, int handler, int count, const int32_t *args);
int dapl_am_reply_medium(dapl_am_token *token, int handler, const void *payload, size_t size,
                         int count, const int32_t *args);
int dapl_am_reply_long(dapl_am_token *token, int handler, const void *payload, size_t size,
                       void *destination, int count, const int32_t *args);

/**
 * Takes what has arrived and runs its handlers; never blocks.
 *
 * @retval DAPL_AM_OK        something was done
 * @retval DAPL_AM_NOT_READY nothing was to be done
 *
 * Threads: any.
 */
int dapl_am_poll(void);

/* ==== Put and get ========================================================= */

/**
 * Local memory can be anywhere and of any alignment; remote memory is in the segment of its rank,
 * and addressed as that rank addresses it. Transfers in flight that overlap have undefined results.
 *
 * What is complete when:
 *
 * |                              | source reusable       | in the target's memory, or fetched   |
 * |------------------------------|-----------------------|--------------------------------------|
 * | put, put_bulk, put_val       | on return             | on return                            |
 * | put_nb, put_nbi              | on return             | when synchronized                    |
 * | put_nb_bulk, put_nbi_bulk    | when synchronized     | when synchronized                    |
 * | put_nb_val, put_nbi_val      | (a value)             | when synchronized                    |
 * | get, get_bulk, get_val       |                       | on return                            |
 * | get_nb, get_nbi and _bulk    |                       | when synchronized                    |
 * | get_nb_val                   |                       | by dapl_am_wait_val()                |
 *
 * "nb" forms give a handle, to be synchronized once, on any thread. "nbi" forms are synchronized
 * together, on the thread that began them, or belong to an access region.
 */

/** An operation that was begun; DAPL_AM_DONE is one that is complete. */
typedef struct dapl_am_op *dapl_am_handle;
#define DAPL_AM_DONE ((dapl_am_handle)0)

/**
 * Copies memory of this process into the segment of a rank, and returns when it is there. Blocks. The
 * bulk form does no more; it is there for programs that choose by size.
 *
 * @param[in] rank   whose segment
 * @param[in] remote address in the segment, as that rank knows it
 * @param[in] local  the memory here, anywhere and of any alignment
 * @param[in] size   bytes; 0 does nothing
 *
 * @retval DAPL_AM_OK
 * @retval DAPL_AM_ERR_RANGE     not wholly inside the segment
 * @retval DAPL_AM_ERR_RANK      no such rank
 * @retval DAPL_AM_ERR_ARGUMENT  NULL, and bytes are wanted
 * @retval DAPL_AM_ERR_STATE     before dapl_am_attach()
 * @retval DAPL_AM_ERR_CONTEXT   from a handler
 * @retval DAPL_AM_ERR_RESOURCES no memory for the operation
 *
 * Threads: any.
 */
int dapl_am_put(int rank, void *remote, const void *local, size_t size);
int dapl_am_put_bulk(int rank, void *remote, const void *local, size_t size);

/**
 * Copies from the segment of a rank into memory of this process, and returns when it is there. Blocks.
 *
 * @param[out] local  the memory here, anywhere and of any alignment
 *
 * Otherwise as dapl_am_put(). Threads: any.
 */
int dapl_am_get(int rank, void *local, const void *remote, size_t size);
int dapl_am_get_bulk(int rank, void *local, const void *remote, size_t size);

/**
 * Begins a put and gives a handle for it. Blocks until there is room to post. The source is reusable on
 * return, of the bulk form when the handle is synchronized.
 *
 * @param[out] handle to be synchronized once, by dapl_am_wait(), dapl_am_try() or their like; may become
 *                    DAPL_AM_DONE
 *
 * Otherwise as dapl_am_put(). Threads: any.
 */
int dapl_am_put_nb(int rank, void *remote, const void *local, size_t size, dapl_am_handle *handle);
int dapl_am_put_nb_bulk(int rank, void *remote, const void *local, size_t size,
                        dapl_am_handle *handle);

/**
 * Begins a get and gives a handle for it. Blocks until there is room to post.
 *
 * @param[out] local  the library's until the handle is synchronized
 * @param[out] handle as of dapl_am_put_nb()
 *
 * Otherwise as dapl_am_put(). Threads: any.
 */
int dapl_am_get_nb(int rank, void *local, const void *remote, size_t size, dapl_am_handle *handle);
int dapl_am_get_nb_bulk(int rank, void *local, const void *remote, size_t size,
                        dapl_am_handle *handle);

/**
 * Begins a put that is synchronized together with others, by dapl_am_wait_nbi() or an access region. Blocks
 * until there is room to post. The source is reusable on return, of the bulk form when synchronized.
 *
 * Otherwise as dapl_am_put(). Threads: any.
 */
int dapl_am_put_nbi(int rank, void *remote, const void *local, size_t size);
int dapl_am_put_nbi_bulk(int rank, void *remote, const void *local, size_t size);

/**
 * Begins a get that is synchronized together with others, by dapl_am_wait_nbi() or an access region. Blocks
 * until there is room to post.
 *
 * @param[out] local the library's until it is synchronized
 *
 * Otherwise as dapl_am_put(). Threads: any.
 */
int dapl_am_get_nbi(int rank, void *local, const void *remote, size_t size);
int dapl_am_get_nbi_bulk(int rank, void *local, const void *remote, size_t size);

/**
 * Stores a value in the segment of a rank: its lower bytes, in the byte order of the machine. Complete on
 * return, or as dapl_am_put_nb() or dapl_am_put_nbi().
 *
 * @param[in]  value  of which the lower bytes count
 * @param[in]  size   bytes, 1 to 8
 * @param[out] handle as of dapl_am_put_nb()
 *
 * @retval DAPL_AM_ERR_ARGUMENT another size; handle is NULL
 *
 * Otherwise as dapl_am_put(). Threads: any.
 */
int dapl_am_put_val(int rank, void *remote, uint64_t value, size_t size);
int dapl_am_put_nb_val(int rank, void *remote, uint64_t value, size_t size, dapl_am_handle *handle);
int dapl_am_put_nbi_val(int rank, void *remote, uint64_t value, size_t size);

/**
 * Fetches a value from the segment of a rank, in the byte order of the machine. Blocks until it is there.
 *
 * @param[in]  size  bytes, 1 to 8; another one gives DAPL_AM_ERR_ARGUMENT
 * @param[out] value zero-extended
 *
 * Otherwise as dapl_am_put(). Threads: any.
 */
int dapl_am_get_val(int rank, const void *remote, size_t size, uint64_t *value);

/** A value that is being fetched. */
typedef struct dapl_am_value *dapl_am_value_handle;

/**
 * Begins to fetch a value. Blocks until there is room to post.
 *
 * @param[in]  size   bytes, 1 to 8; another one gives DAPL_AM_ERR_ARGUMENT
 * @param[out] handle to be ended once, by dapl_am_wait_val()
 *
 * Otherwise as dapl_am_put(). Threads: any.
 */
int dapl_am_get_nb_val(int rank, const void *remote, size_t size, dapl_am_value_handle *handle);

/**
 * Waits for a value and ends its handle. Blocks.
 *
 * @param[in] handle of dapl_am_get_nb_val(); no longer valid afterwards
 *
 * @return the value, zero-extended
 *
 * Threads: any.
 */
uint64_t dapl_am_wait_val(dapl_am_value_handle handle);

/**
 * Sets memory in the segment of a rank to one byte value. The bytes are not sent where there are many.
 * Complete on return, or as dapl_am_put_nb() or dapl_am_put_nbi().
 *
 * @param[in]  value  as of memset()
 * @param[out] handle as of dapl_am_put_nb()
 *
 * Otherwise as dapl_am_put(). Threads: any.
 */
int dapl_am_memset(int rank, void *remote, int value, size_t size);
int dapl_am_memset_nb(int rank, void *remote, int value, size_t size, dapl_am_handle *handle);
int dapl_am_memset_nbi(int rank, void *remote, int value, size_t size);

/* ---- Synchronization ---- */

/**
 * Waits for an operation and ends its handle. Blocks.
 *
 * @param[in] handle no longer valid afterwards; DAPL_AM_DONE returns at once
 *
 * Threads: any.
 */
void dapl_am_wait(dapl_am_handle handle);

/**
 * Polls once; ends the handle if the operation is complete.
 *
 * @param[in] handle the operation; DAPL_AM_DONE is complete
 *
 * @retval DAPL_AM_OK        complete; the handle is no longer valid
 * @retval DAPL_AM_NOT_READY
 *
 * Threads: any.
 */
int dapl_am_try(dapl_am_handle handle);

/**
 * Waits until all of several operations are complete, or at least one of them. Blocks. Handles of complete
 * operations become DAPL_AM_DONE; where all of them are so already, it returns at once.
 *
 * @param[in,out] handles may hold DAPL_AM_DONE, which is passed over
 * @param[in]     count   of handles
 *
 * Threads: any.
 */
void dapl_am_wait_all(dapl_am_handle *handles, size_t count);
void dapl_am_wait_some(dapl_am_handle *handles, size_t count);

/**
 * Polls once for several operations: all of them, or at least one. Handles of complete operations become
 * DAPL_AM_DONE; where all of them are so already, it is complete.
 *
 * @param[in,out] handles may hold DAPL_AM_DONE, which is passed over
 * @param[in]     count   of handles
 *
 * @retval DAPL_AM_OK        all, or at least one, are complete
 * @retval DAPL_AM_NOT_READY
 *
 * Threads: any.
 */
int dapl_am_try_all(dapl_am_handle *handles, size_t count);
int dapl_am_try_some(dapl_am_handle *handles, size_t count);

/**
 * Waits for the implicit operations of this thread: puts, gets, or both. Blocks.
 *
 * Threads: any.
 */
void dapl_am_wait_nbi_puts(void);
void dapl_am_wait_nbi_gets(void);
void dapl_am_wait_nbi(void);

/**
 * Polls once for the implicit operations of this thread: puts, gets, or both.
 *
 * @retval DAPL_AM_OK        all are complete
 * @retval DAPL_AM_NOT_READY
 *
 * Threads: any.
 */
int dapl_am_try_nbi_puts(void);
int dapl_am_try_nbi_gets(void);
int dapl_am_try_nbi(void);

/**
 * Begins an access region: the implicit operations of this thread are gathered until its end, and
 * dapl_am_wait_nbi() and its like do not wait for them.
 *
 * @retval DAPL_AM_OK
 * @retval DAPL_AM_ERR_STATE inside another one
 *
 * Threads: any.
 */
int dapl_am_begin_region(void);

/**
 * Ends an access region.
 *
 * @param[out] handle of all its operations together, as of dapl_am_put_nb()
 *
 * @retval DAPL_AM_OK
 * @retval DAPL_AM_ERR_STATE outside of one
 *
 * Threads: any.
 */
int dapl_am_end_region(dapl_am_handle *handle);

/* ==== Barriers ============================================================ */

enum dapl_am_barrier_flags {
    DAPL_AM_ANONYMOUS = 0x1, /**< matches every other; the id is not looked at */
    DAPL_AM_MISMATCH  = 0x2  /**< make it a mismatch on all ranks */
};

/**
 * Tells that this rank has come to a barrier of all ranks: its first half. Puts are not synchronized by
 * it.
 *
 * @param[in] id    names the barrier
 * @param[in] flags enum dapl_am_barrier_flags
 *
 * @retval DAPL_AM_OK
 * @retval DAPL_AM_ERR_STATE the last barrier's second half is still due
 *
 * Threads: any, one at a time.
 */
int dapl_am_barrier_notify(int id, unsigned flags);

/**
 * Waits until all ranks have come to a barrier: its second half. Blocks.
 *
 * @param[in] id    the name that the first half was given
 * @param[in] flags those of the first half
 *
 * @retval DAPL_AM_OK
 * @retval DAPL_AM_BARRIER_MISMATCH all ranks have come, and two of them with different names or one
 *         with DAPL_AM_MISMATCH: so it is on all ranks. Or id and flags are not those of the first
 *         half: on this rank
 * @retval DAPL_AM_ERR_STATE without a first half
 *
 * Threads: any, one at a time.
 */
int dapl_am_barrier_wait(int id, unsigned flags);

/**
 * Polls once for the second half of a barrier.
 *
 * @retval DAPL_AM_NOT_READY not all have come; the barrier goes on
 *
 * Otherwise as dapl_am_barrier_wait(). Threads: any, one at a time.
 */
int dapl_am_barrier_try(int id, unsigned flags);

/**
 * Waits in a barrier of all ranks: both halves in one. Blocks.
 *
 * Otherwise as dapl_am_barrier_wait(). Threads: any, one at a time.
 */
int dapl_am_barrier(int id, unsigned flags);

/* ==== Counters ============================================================ */

/** What the library has done in this process so far. */
typedef struct dapl_am_counters {
    uint64_t requests;          /**< sent to other ranks */
    uint64_t replies;           /**< sent to other ranks */
    uint64_t credit_messages;   /**< sent because nothing else could carry the credits */
    uint64_t credit_waits;      /**< requests that found no credit */
    uint64_t connections;       /**< established */
    uint64_t buffers;           /**< registered, of dapl_am_max_medium() and a header each */
    uint64_t pool_locks;        /**< of the pool of receive buffers */
    uint64_t polls_with_work;
    uint64_t registrations;     /**< made, of memory outside the segment */
    uint64_t registration_hits; /**< transfers that found one */
    uint64_t confirmations;     /**< reads behind puts, where the adapter completes a write before its
                                     data are in the target's memory */
} DAPL_AM_COUNTERS;

/**
 * Tells what the library has done in this process so far.
 *
 * @param[out] counters caller's storage; not written if NULL
 *
 * Threads: any, handlers too.
 */
void dapl_am_get_counters(DAPL_AM_COUNTERS *counters);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* DAPL_AM_H */
