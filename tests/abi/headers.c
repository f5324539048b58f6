/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A consumer and a provider in one, in plain C: what the headers offer to a
 * source must compile and must reach the right slot with the right arguments.
 * Written so that it also compiles with the reference headers.
 */
#define EXPORT_DAT_SYMBOLS /* a provider says so, where it makes a difference */

#if defined(ABI_REFERENCE_HEADERS)
#include <netinet/in.h> /* the DAT headers leave it to their users */
#endif
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <dat2/udat.h>
#include <dat2/dat_registry.h>
#include <dat2/dat_ib_extensions.h>

#define CHECK(condition) \
    do { if (!(condition)) { printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); ++failures; } } while (0)
#define FIXED(name, condition) typedef char name[(condition) ? 1 : -1]

/* The layout on machines with 64-bit pointers. */
FIXED(size_of_event, sizeof(void *) != 8 || sizeof(DAT_EVENT) == 120);
FIXED(size_of_event_data, sizeof(void *) != 8 || sizeof(DAT_EVENT_DATA) == 40);
FIXED(size_of_ia_attr, sizeof(void *) != 8 || sizeof(DAT_IA_ATTR) == 688);
FIXED(size_of_provider_attr, sizeof(void *) != 8 || sizeof(DAT_PROVIDER_ATTR) == 520);
FIXED(size_of_ep_attr, sizeof(void *) != 8 || sizeof(DAT_EP_ATTR) == 88);
FIXED(size_of_ep_param, sizeof(void *) != 8 || sizeof(DAT_EP_PARAM) == 184);
FIXED(size_of_provider, sizeof(DAT_PROVIDER) == 81 * sizeof(void *));
FIXED(size_of_info, sizeof(DAT_PROVIDER_INFO) == 268);
FIXED(size_of_ib_event_data, sizeof(DAT_IB_EXTENSION_EVENT_DATA) == 64);
FIXED(size_of_triplets, sizeof(DAT_LMR_TRIPLET) == 16 && sizeof(DAT_RMR_TRIPLET) == 16);

struct object {
    const DAT_PROVIDER *provider;
};

static int failures;
static const char *called;
static DAT_HANDLE got_handle;
static DAT_IB_OP got_op;
static DAT_UINT64 got_values[2];
static void *got_local, *got_remote;
static DAT_CONTEXT got_context;
static DAT_COMPLETION_FLAGS got_flags;

static DAT_RETURN DAT_API slot_ep_reset(DAT_EP_HANDLE ep_handle)
{
    called = "ep_reset";
    got_handle = ep_handle;
    return DAT_SUCCESS;
}

static DAT_RETURN DAT_API slot_evd_wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout,
                                        DAT_COUNT threshold, DAT_EVENT *event, DAT_COUNT *nmore)
{
    called = "evd_wait";
    got_handle = evd_handle;
    event->event_number = DAT_SOFTWARE_EVENT;
    *nmore = threshold - 1;
    return timeout == DAT_TIMEOUT_INFINITE ? DAT_SUCCESS : DAT_TIMEOUT_EXPIRED;
}

static DAT_RETURN DAT_API slot_ep_post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                            DAT_LMR_TRIPLET *local_iov, DAT_DTO_COOKIE user_cookie,
                                            DAT_COMPLETION_FLAGS completion_flags)
{
    called = "ep_post_send";
    got_handle = ep_handle;
    got_local = local_iov;
    got_context = user_cookie;
    got_flags = completion_flags;
    return num_segments == 1 ? DAT_SUCCESS : DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | DAT_INVALID_ARG2;
}

/* Stands in for the library. */
DAT_RETURN DAT_API dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, ...)
{
    va_list args;

    got_handle = handle;
    got_op = (DAT_IB_OP)operation;
    va_start(args, operation);
    switch (operation) {
    case DAT_IB_CMP_AND_SWAP_OP:
        got_values[0] = va_arg(args, DAT_UINT64);
        got_values[1] = va_arg(args, DAT_UINT64);
        got_local = va_arg(args, DAT_LMR_TRIPLET *);
        got_context = va_arg(args, DAT_DTO_COOKIE);
        got_remote = va_arg(args, DAT_RMR_TRIPLET *);
        got_flags = (DAT_COMPLETION_FLAGS)va_arg(args, int);
        break;
    case DAT_IB_QUERY_COUNTERS_OP:
        got_values[0] = (DAT_UINT64)va_arg(args, int);
        *va_arg(args, DAT_UINT64 *) = 7;
        got_values[1] = (DAT_UINT64)va_arg(args, int);
        break;
    case DAT_IB_UD_CM_FREE_OP:
        got_context = va_arg(args, DAT_CONTEXT);
        break;
    default:
        break;
    }
    va_end(args);
    return DAT_SUCCESS;
}

DAT_RETURN DAT_API dat_strerror(DAT_RETURN value, const char **major_message,
                                const char **minor_message)
{
    (void)minor_message;
    *major_message = "from the library";
    return value;
}

static void test_vector(void)
{
    static DAT_PROVIDER provider;
    struct object object;
    DAT_LMR_TRIPLET segment;
    DAT_DTO_COOKIE cookie;
    DAT_EVENT event;
    DAT_COUNT nmore = -1;

    object.provider = &provider;
    provider.device_name = "none";
    provider.ep_reset_func = slot_ep_reset;
    provider.evd_wait_func = slot_evd_wait;
    provider.ep_post_send_func = slot_ep_post_send;
    memset(&segment, 0, sizeof segment);
    cookie.as_64 = 99;

    CHECK(DAT_HANDLE_TO_PROVIDER(&object) == &provider);
    CHECK(DAT_EP_RESET(&object) == DAT_SUCCESS);
    CHECK(strcmp(called, "ep_reset") == 0 && got_handle == &object);
    CHECK(DAT_EVD_WAIT(&object, DAT_TIMEOUT_INFINITE, 3, &event, &nmore) == DAT_SUCCESS);
    CHECK(strcmp(called, "evd_wait") == 0 && nmore == 2);
    CHECK(event.event_number == DAT_SOFTWARE_EVENT);
    CHECK(DAT_EP_POST_SEND(&object, 1, &segment, cookie, DAT_COMPLETION_SUPPRESS_FLAG) == DAT_SUCCESS);
    CHECK(got_local == &segment && got_context.as_64 == 99);
    CHECK(got_flags == DAT_COMPLETION_SUPPRESS_FLAG);
}

static void test_extension(void)
{
    int object, ep;
    DAT_LMR_TRIPLET local;
    DAT_RMR_TRIPLET remote;
    DAT_CONTEXT context;
    DAT_UINT64 counter = 0;
    const char *text = NULL;

    context.as_64 = 42;
    CHECK(dat_ib_post_cmp_and_swap(&object, 1, 2, &local, context, &remote,
                                   DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS);
    CHECK(got_op == DAT_IB_CMP_AND_SWAP_OP && got_handle == &object);
    CHECK(got_values[0] == 1 && got_values[1] == 2 && got_context.as_64 == 42);
    CHECK(got_local == &local && got_remote == &remote);

    CHECK(dat_query_counters(&ep, DCNT_EP_ALL_COUNTERS, &counter, 1) == DAT_SUCCESS);
    CHECK(got_op == DAT_IB_QUERY_COUNTERS_OP && counter == 7);
    CHECK(got_values[0] == DCNT_EP_ALL_COUNTERS && got_values[1] == 1);

#if !defined(ABI_REFERENCE_HEADERS)
    got_context.as_64 = 0;
    CHECK(dat_ib_ud_cm_free(&ep, context) == DAT_SUCCESS);
    CHECK(got_op == DAT_IB_UD_CM_FREE_OP && got_context.as_64 == 42);
    CHECK(dat_ib_collective_set_clock(&ep, 5, context) == DAT_SUCCESS);
    CHECK(got_op == DAT_IB_COLLECTIVE_SET_CLOCK_OP);
    CHECK(dat_ib_collective_read_clock(&ep, &counter) == DAT_SUCCESS);
    CHECK(got_op == DAT_IB_COLLECTIVE_READ_CLOCK_OP);
    CHECK(dat_ib_start_counter(&ep, DCNT_IA_LNK) == DAT_SUCCESS);
    CHECK(got_op == DAT_IB_START_COUNTERS_OP);
#endif

    CHECK(dat_strerror_extension(DAT_IB_ERR, &text) == DAT_SUCCESS);
    CHECK(strcmp(text, "DAT_IB_ERR") == 0);
    CHECK(dat_strerror_extension((DAT_IB_RETURN)DAT_QUEUE_EMPTY, &text) == DAT_QUEUE_EMPTY);
    CHECK(strcmp(text, "from the library") == 0);
    CHECK(dat_strerror_ext_status(DAT_OP_SUCCESS, &text) == DAT_SUCCESS && strcmp(text, " ") == 0);
    CHECK(dat_strerror_ext_status(DAT_IB_COLL_COMP_ERR, &text) == DAT_INVALID_PARAMETER);
}

static void test_values(void)
{
    DAT_RETURN code = DAT_CLASS_ERROR | DAT_INVALID_HANDLE | DAT_INVALID_HANDLE_EP;
    DAT_IA_ATTR attr;
    DAT_IA_HANDLE ia = DAT_UL_TO_IA_HANDLE(3);

    memset(&attr, 0, sizeof attr);
    attr.max_mtu_size = 9;
    attr.max_rdma_read_per_ep = 4;
    CHECK(attr.max_message_size == 9 && attr.max_rdma_read_per_ep_in == 4);
    CHECK(DAT_GET_TYPE(code) == DAT_INVALID_HANDLE && DAT_GET_SUBTYPE(code) == DAT_INVALID_HANDLE_EP);
    CHECK(!DAT_IS_WARNING(code));
    CHECK(DAT_IA_HANDLE_TO_UL(ia) == 3 && ia != DAT_HANDLE_NULL);
    CHECK(DAT_CONNECT_MULTIPATH_REQUESTED_FLAG == 1 && DAT_EP_STATE_ERROR == DAT_EP_STATE_DISCONNECTED);
    CHECK(DAT_EVD_OUT_OF_SCOPE != DAT_EVD_ASYNC_EXISTS);
    CHECK(DAT_WATERMARK_INFINITE == -1 && DAT_VALUE_UNKNOWN == -2);
    CHECK(DAT_THREADSAFE == DAT_FALSE && DAT_VERSION_MAJOR == 2 && DAT_VERSION_MINOR == 0);
    CHECK(strcmp(DAT_PROVIDER_INIT_FUNC_STR, "dat_provider_init") == 0);
}


DAT_EXPORT void DAT_API DAT_PROVIDER_INIT_FUNC_NAME(IN const DAT_PROVIDER_INFO *info,
                                                    IN const char *instance_data);

void DAT_API DAT_PROVIDER_INIT_FUNC_NAME(IN const DAT_PROVIDER_INFO *info,
                                         IN const char *instance_data)
{
    (void)info;
    (void)instance_data;
}

static const DAT_PROVIDER_INIT_FUNC init_function = DAT_PROVIDER_INIT_FUNC_NAME;

int main(void)
{
    DAT_OS_WAIT_PROXY_AGENT agent = DAT_OS_WAIT_PROXY_AGENT_NULL;

    CHECK(agent.instance_data == NULL && !agent.proxy_agent_func && init_function);
    test_vector();
    test_extension();
    test_values();
    return failures != 0;
}
