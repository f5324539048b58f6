/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program as written against DAT 1.2, with the calls that such programs live by: C89, and C++98
 * as well. Both sides of each connection are in this process, through one adapter, as peers on one
 * host are.
 *
 *   program ADAPTER [CASE]
 */
#if defined(THROUGH_MACROS)
#include "through_macros.h"
#endif
#include <dat/udat.h>

#include "checks.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH 65536
#define SECONDS 10000000u /* ten, in microseconds */

static const char *adapter;
static DAT_CONN_QUAL next_qualifier;

/* ---- A program's usual belongings ------------------------------------------------------------ */

struct buffer {
    unsigned char *memory;
    DAT_LMR_HANDLE lmr;
    DAT_LMR_CONTEXT lmr_context;
    DAT_RMR_CONTEXT rmr_context;
};

struct world {
    DAT_IA_HANDLE ia;
    DAT_EVD_HANDLE async_evd;
    DAT_PZ_HANDLE pz;
    DAT_EVD_HANDLE requests; /* DTO and RMR_BIND */
    DAT_EVD_HANDLE receives;
    DAT_EVD_HANDLE connections; /* CR and CONNECTION */
    DAT_IA_ATTR attr;
    DAT_PROVIDER_ATTR *provider; /* has a const member, so C++ wants it to be allocated */
    struct buffer near_end, far_end;
};

struct pair {
    DAT_EP_HANDLE active, passive;
};

static DAT_NAME_PTR as_name(const char *name)
{
    return (DAT_NAME_PTR)name;
}

static DAT_CONTEXT as_context(unsigned value)
{
    DAT_CONTEXT context;

    context.as_64 = value;
    return context;
}

/* More than 16 bits, as those made from process ids. */
static DAT_CONN_QUAL new_qualifier(void)
{
    if (next_qualifier == 0)
        /* below the ports that the system hands out */
        next_qualifier = 0x42000 + (DAT_CONN_QUAL)getpid() * 64 % 0x5000;
    return next_qualifier++;
}

static void register_buffer(struct world *w, struct buffer *b)
{
    DAT_REGION_DESCRIPTION region;
    DAT_VLEN length = 0;
    DAT_VADDR address = 0;

    b->memory = (unsigned char *)calloc(1, LENGTH);
    CHECK(b->memory != NULL);
    memset(&region, 0, sizeof region);
    region.for_va = b->memory;
    MUST(dat_lmr_create(w->ia, DAT_MEM_TYPE_VIRTUAL, region, LENGTH, w->pz, DAT_MEM_PRIV_ALL_FLAG,
                        &b->lmr, &b->lmr_context, &b->rmr_context, &length, &address));
    CHECK(length >= LENGTH && address <= (DAT_VADDR)(size_t)b->memory);
}

static void enter(struct world *w, DAT_COUNT qlen)
{
    memset(w, 0, sizeof *w);
    w->provider = (DAT_PROVIDER_ATTR *)malloc(sizeof *w->provider);
    CHECK(w->provider != NULL);
    MUST(dat_ia_open(as_name(adapter), 8, &w->async_evd, &w->ia));
    MUST(dat_ia_query(w->ia, NULL, DAT_IA_ALL, &w->attr, DAT_PROVIDER_FIELD_ALL, w->provider));
    MUST(dat_pz_create(w->ia, &w->pz));
    MUST(dat_evd_create(w->ia, qlen, DAT_HANDLE_NULL,
                        (DAT_EVD_FLAGS)(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG), &w->requests));
    MUST(dat_evd_create(w->ia, qlen, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &w->receives));
    MUST(dat_evd_create(w->ia, qlen, DAT_HANDLE_NULL,
                        (DAT_EVD_FLAGS)(DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG),
                        &w->connections));
    SOUND(register_buffer(w, &w->near_end));
    SOUND(register_buffer(w, &w->far_end));
}

/* Leaves as programs do: abruptly, with whatever there is. */
static void leave(struct world *w)
{
    MUST(dat_ia_close(w->ia, DAT_CLOSE_ABRUPT_FLAG));
    free(w->provider);
    free(w->near_end.memory);
    free(w->far_end.memory);
}

static void wait_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, DAT_EVENT *event)
{
    DAT_COUNT more = -1;

    memset(event, 0x55, sizeof *event);
    MUST(dat_evd_wait(evd, SECONDS, 1, event, &more));
    if (event->event_number != number)
        printf("    event %#x in place of %#x\n", (unsigned)event->event_number, (unsigned)number);
    CHECK(event->event_number == number);
    CHECK(event->evd_handle == evd && more >= 0);
}

/* By polling, as for data. */
static void poll_dto(DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep, unsigned cookie, DAT_VLEN length)
{
    DAT_EVENT event;
    DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;
    long tries;
    DAT_RETURN status = DAT_QUEUE_EMPTY;

    for (tries = 0; status == DAT_QUEUE_EMPTY && tries < 2000000; ++tries) {
        status = dat_evd_dequeue(evd, &event);
        if (tries > 10000)
            usleep(5);
    }
    MUST(status);
    CHECK(event.event_number == DAT_DTO_COMPLETION_EVENT && event.evd_handle == evd);
    CHECK(dto->status == DAT_DTO_SUCCESS);
    CHECK(dto->ep_handle == ep);
    CHECK(dto->user_cookie.as_64 == cookie);
    CHECK(dto->transfered_length == length);
}

static DAT_LMR_TRIPLET local(const struct buffer *b, unsigned offset, DAT_VLEN length)
{
    DAT_LMR_TRIPLET segment;

    segment.lmr_context = b->lmr_context;
    segment.pad = 0;
    segment.virtual_address = (DAT_VADDR)(size_t)(b->memory + offset);
    segment.segment_length = length;
    return segment;
}

static DAT_RMR_TRIPLET remote(const struct buffer *b, unsigned offset, DAT_VLEN length)
{
    DAT_RMR_TRIPLET segment;

    segment.rmr_context = b->rmr_context;
    segment.pad = 0;
    segment.target_address = (DAT_VADDR)(size_t)(b->memory + offset);
    segment.segment_length = length;
    return segment;
}

static void fill(unsigned char *memory, unsigned length, unsigned seed)
{
    unsigned i;

    for (i = 0; i < length; ++i)
        memory[i] = (unsigned char)(seed + i * 7u + 1u);
}

static void make_endpoints(struct world *w, const DAT_EP_ATTR *attr, struct pair *p)
{
    MUST(dat_ep_create(w->ia, w->pz, w->receives, w->requests, w->connections, attr, &p->active));
    MUST(dat_ep_create(w->ia, w->pz, w->receives, w->requests, w->connections, attr, &p->passive));
}

/* Connects the two through a service point of their own; private data both ways. */
static void connect_endpoints(struct world *w, struct pair *p, const void *asked, DAT_COUNT asked_size,
                              const void *answered, DAT_COUNT answered_size)
{
    DAT_CONN_QUAL qualifier = 0;
    DAT_PSP_HANDLE psp;
    DAT_EVENT event;
    DAT_CR_PARAM param;
    DAT_CR_ARRIVAL_EVENT_DATA *request = &event.event_data.cr_arrival_event_data;
    DAT_CONNECTION_EVENT_DATA *up = &event.event_data.connect_event_data;
    int sides;

    MUST(dat_psp_create_any(w->ia, &qualifier, w->connections, DAT_PSP_CONSUMER_FLAG, &psp));
    MUST(dat_ep_connect(p->active, w->attr.ia_address_ptr, qualifier, SECONDS, asked_size,
                        (DAT_PVOID)asked, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    SOUND(wait_event(w->connections, DAT_CONNECTION_REQUEST_EVENT, &event));
    CHECK(request->sp_handle.psp_handle == psp);
    CHECK(request->conn_qual == qualifier);
    MUST(dat_cr_query(request->cr_handle, DAT_CR_FIELD_ALL, &param));
    CHECK(param.private_data_size >= asked_size);
    CHECK(asked_size == 0 || memcmp(param.private_data, asked, (size_t)asked_size) == 0);
    CHECK(param.local_ep_handle == DAT_HANDLE_NULL);
    MUST(dat_cr_accept(request->cr_handle, p->passive, answered_size, (DAT_PVOID)answered));
    for (sides = 0; sides < 2; ++sides) {
        SOUND(wait_event(w->connections, DAT_CONNECTION_EVENT_ESTABLISHED, &event));
        CHECK(up->ep_handle == p->active || up->ep_handle == p->passive);
        if (up->ep_handle == p->active && answered_size != 0) {
            CHECK(up->private_data_size >= answered_size);
            CHECK(memcmp(up->private_data, answered, (size_t)answered_size) == 0);
        }
    }
    MUST(dat_psp_free(psp));
}

static void connect_pair(struct world *w, const DAT_EP_ATTR *attr, struct pair *p)
{
    SOUND(make_endpoints(w, attr, p));
    SOUND(connect_endpoints(w, p, NULL, 0, NULL, 0));
}

static void send_once(struct world *w, DAT_EP_HANDLE from, DAT_EP_HANDLE to, DAT_VLEN length)
{
    DAT_LMR_TRIPLET out = local(&w->near_end, 0, length), in = local(&w->far_end, 0, length);

    fill(w->near_end.memory, (unsigned)length, 3);
    memset(w->far_end.memory, 0, (size_t)length);
    MUST(dat_ep_post_recv(to, 1, &in, as_context(71), DAT_COMPLETION_DEFAULT_FLAG));
    MUST(dat_ep_post_send(from, 1, &out, as_context(72), DAT_COMPLETION_DEFAULT_FLAG));
    SOUND(poll_dto(w->receives, to, 71, length));
    SOUND(poll_dto(w->requests, from, 72, length));
    CHECK(memcmp(w->near_end.memory, w->far_end.memory, (size_t)length) == 0);
}

static DAT_EP_ATTR attributes(DAT_COUNT dtos, DAT_COUNT segments)
{
    DAT_EP_ATTR attr;

    memset(&attr, 0, sizeof attr);
    attr.service_type = DAT_SERVICE_TYPE_RC;
    attr.max_message_size = LENGTH;
    attr.max_rdma_size = LENGTH;
    attr.qos = DAT_QOS_BEST_EFFORT;
    attr.recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
    attr.request_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
    attr.max_recv_dtos = dtos;
    attr.max_request_dtos = dtos;
    attr.max_recv_iov = segments;
    attr.max_request_iov = segments;
    attr.max_rdma_read_in = 2;
    attr.max_rdma_read_out = 2;
    attr.max_rdma_read_iov = segments;
    attr.max_rdma_write_iov = segments;
    return attr;
}

/* ---- Adapters ----------------------------------------------------------------------------------- */

static void adapters_are_listed(void)
{
    DAT_PROVIDER_INFO storage[64], *list[64];
    DAT_COUNT i, count = 0, found = 0;

    CHECK(dat_registry_list_providers(0, &count, NULL) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
    CHECK(count > 0 && count <= 64);
    for (i = 0; i < 64; ++i)
        list[i] = &storage[i];
    MUST(dat_registry_list_providers(64, &count, list));
    for (i = 0; i < count; ++i) {
        CHECK(storage[i].dapl_version_major == 1 && storage[i].dapl_version_minor == 2);
        found += strcmp(storage[i].ia_name, adapter) == 0;
    }
    CHECK(found == 2); /* threadsafe and nonthreadsafe */
}

static void open_checks_the_version(void)
{
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia;

    CHECK(dat_ia_openv(as_name(adapter), 8, &evd, &ia, 1, 1, DAT_FALSE) ==
          ERROR_OF(DAT_PROVIDER_NOT_FOUND, DAT_MINOR_NOT_FOUND));
    CHECK(dat_ia_openv(as_name(adapter), 8, &evd, &ia, 3, 2, DAT_FALSE) ==
          ERROR_OF(DAT_PROVIDER_NOT_FOUND, DAT_MAJOR_NOT_FOUND));
    CHECK(dat_ia_openv(as_name("no-such-adapter"), 8, &evd, &ia, 1, 2, DAT_FALSE) ==
          ERROR_OF(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
    evd = DAT_HANDLE_NULL;
    MUST(dat_ia_openv(as_name(adapter), 8, &evd, &ia, 1, 2, DAT_FALSE));
    MUST(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}

static void threads_are_as_the_line_says(void)
{
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia;
    DAT_PROVIDER_ATTR *attr = (DAT_PROVIDER_ATTR *)malloc(sizeof *attr);

    CHECK(attr != NULL);
    MUST(dat_ia_openv(as_name(adapter), 8, &evd, &ia, 1, 2, DAT_TRUE));
    MUST(dat_ia_query(ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, attr));
    CHECK(attr->is_thread_safe == DAT_TRUE);
    MUST(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
    free(attr);
}

static void adapter_is_described(void)
{
    struct world w;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;

    SOUND(enter(&w, 8));
    CHECK(w.attr.ia_address_ptr != NULL && w.attr.ia_address_ptr->sa_family == AF_INET);
    CHECK(w.attr.max_eps > 0 && w.attr.max_evd_qlen >= 64 && w.attr.max_message_size >= LENGTH);
    CHECK(w.attr.max_iov_segments_per_dto > 0 && w.attr.max_iov_segments_per_dto <= 64);
    CHECK(w.attr.num_transport_attr >= 0 && w.attr.num_vendor_attr >= 0);
    CHECK(w.provider->dapl_version_major == 1 && w.provider->dapl_version_minor == 2);
    CHECK(w.provider->iov_ownership_on_return == DAT_IOV_CONSUMER);
    CHECK(w.provider->is_thread_safe == DAT_FALSE);
    CHECK(w.provider->pz_support == DAT_PZ_UNIQUE || w.provider->pz_support == DAT_PZ_SHAREABLE);
    CHECK(w.provider->max_private_data_size >= 56);
    MUST(dat_ia_query(w.ia, &evd, 0, NULL, 0, NULL));
    CHECK(evd == w.async_evd);
    SOUND(leave(&w));
}

static void graceful_close_refuses(void)
{
    struct world w;

    SOUND(enter(&w, 8));
    CHECK(dat_ia_close(w.ia, DAT_CLOSE_GRACEFUL_FLAG) ==
          ERROR_OF(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE));
    SOUND(leave(&w));
}

static void abrupt_close_ends_all(void)
{
    struct world w;
    struct pair p;
    DAT_EVENT event;
    DAT_LMR_TRIPLET in;

    SOUND(enter(&w, 8));
    SOUND(connect_pair(&w, NULL, &p));
    in = local(&w.far_end, 0, 8);
    MUST(dat_ep_post_recv(p.passive, 1, &in, as_context(1), DAT_COMPLETION_DEFAULT_FLAG));
    SOUND(leave(&w));
    CHECK(IS(dat_ep_free(p.active), DAT_INVALID_HANDLE));
    CHECK(IS(dat_evd_dequeue(w.requests, &event), DAT_INVALID_HANDLE));
    CHECK(IS(dat_pz_free(w.pz), DAT_INVALID_HANDLE));
    CHECK(IS(dat_ia_query(w.ia, NULL, 0, NULL, 0, NULL), DAT_INVALID_HANDLE));
}

/* In a child, whose exit is its only end. */
static void exit_without_close(void)
{
    int status = -1;
    pid_t child;

    fflush(stdout);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct world w;
        struct pair p;

        enter(&w, 8);
        if (!case_failed)
            connect_pair(&w, NULL, &p);
        exit(case_failed);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What the child below does: connects, and is gone with a receive posted. */
static void connect_and_go(DAT_CONN_QUAL qualifier, int killed)
{
    struct world w;
    struct pair p;
    DAT_EVENT event;
    DAT_LMR_TRIPLET in;

    SOUND(enter(&w, 8));
    SOUND(make_endpoints(&w, NULL, &p));
    in = local(&w.near_end, 0, 8);
    MUST(dat_ep_post_recv(p.active, 1, &in, as_context(1), DAT_COMPLETION_DEFAULT_FLAG));
    MUST(dat_ep_connect(p.active, w.attr.ia_address_ptr, qualifier, SECONDS, 0, NULL,
                        DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    SOUND(wait_event(w.connections, DAT_CONNECTION_EVENT_ESTABLISHED, &event));
    SOUND(poll_dto(w.receives, p.active, 1, 8)); /* the peer has seen the connection, too */
    if (killed)
        raise(SIGKILL);
}

/* Its peer hears of the end, gets its receives back, and goes on with the next one. */
static void peer_exits_without_close(void)
{
    int round;

    for (round = 0; round < 2; ++round) {
        struct world w;
        struct pair p;
        DAT_PSP_HANDLE psp;
        DAT_CONN_QUAL qualifier = new_qualifier();
        DAT_EVENT event;
        DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;
        DAT_LMR_TRIPLET segment;
        DAT_COUNT more;
        int ready[2], status = -1;
        unsigned i;
        char byte = 0;
        pid_t child;

        CHECK(pipe(ready) == 0);
        fflush(stdout);
        child = fork(); /* forks before there are threads */
        CHECK(child >= 0);
        if (child == 0) {
            case_failed = read(ready[0], &byte, 1) != 1;
            if (!case_failed)
                connect_and_go(qualifier, round == 1);
            exit(case_failed);
        }
        SOUND(enter(&w, 8));
        SOUND(make_endpoints(&w, NULL, &p));
        segment = local(&w.far_end, 0, 8);
        for (i = 0; i < 3; ++i)
            MUST(dat_ep_post_recv(p.passive, 1, &segment, as_context(i),
                                  DAT_COMPLETION_DEFAULT_FLAG));
        MUST(dat_psp_create(w.ia, qualifier, w.connections, DAT_PSP_CONSUMER_FLAG, &psp));
        CHECK(write(ready[1], &byte, 1) == 1);
        SOUND(wait_event(w.connections, DAT_CONNECTION_REQUEST_EVENT, &event));
        MUST(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, p.passive, 0, NULL));
        SOUND(wait_event(w.connections, DAT_CONNECTION_EVENT_ESTABLISHED, &event));
        MUST(dat_ep_post_send(p.passive, 1, &segment, as_context(9), DAT_COMPLETION_DEFAULT_FLAG));
        /* A peer that leaves so may not have acknowledged the message. */
        SOUND(wait_event(w.requests, DAT_DTO_COMPLETION_EVENT, &event));
        CHECK(dto->ep_handle == p.passive && dto->user_cookie.as_64 == 9);
        CHECK(dto->status == DAT_DTO_SUCCESS || dto->status == DAT_DTO_ERR_FLUSHED);
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(round == 1 ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
        MUST(dat_evd_wait(w.connections, SECONDS, 1, &event, &more));
        CHECK(event.event_number == DAT_CONNECTION_EVENT_DISCONNECTED ||
              event.event_number == DAT_CONNECTION_EVENT_BROKEN);
        CHECK(event.event_data.connect_event_data.ep_handle == p.passive);
        for (i = 0; i < 3; ++i) {
            SOUND(wait_event(w.receives, DAT_DTO_COMPLETION_EVENT, &event));
            CHECK(dto->status == DAT_DTO_ERR_FLUSHED && dto->ep_handle == p.passive);
            CHECK(dto->user_cookie.as_64 == i);
        }
        MUST(dat_psp_free(psp));
        MUST(dat_ep_reset(p.passive));
        SOUND(connect_endpoints(&w, &p, NULL, 0, NULL, 0));
        SOUND(send_once(&w, p.active, p.passive, 64));
        SOUND(leave(&w));
        close(ready[0]);
        close(ready[1]);
    }
}

/* ---- Objects ------------------------------------------------------------------------------------ */

static void handles_have_types(void)
{
    struct world w;
    struct pair p;
    DAT_HANDLE_TYPE type;

    SOUND(enter(&w, 8));
    SOUND(make_endpoints(&w, NULL, &p));
    MUST(dat_get_handle_type(w.ia, &type));
    CHECK(type == DAT_HANDLE_TYPE_IA);
    MUST(dat_get_handle_type(w.pz, &type));
    CHECK(type == DAT_HANDLE_TYPE_PZ);
    MUST(dat_get_handle_type(w.requests, &type));
    CHECK(type == DAT_HANDLE_TYPE_EVD);
    MUST(dat_get_handle_type(p.active, &type));
    CHECK(type == DAT_HANDLE_TYPE_EP);
    MUST(dat_get_handle_type(w.near_end.lmr, &type));
    CHECK(type == DAT_HANDLE_TYPE_LMR);
    SOUND(leave(&w));
}

static void contexts_are_kept(void)
{
    struct world w;
    DAT_CONTEXT context;

    SOUND(enter(&w, 8));
    context.as_64 = 1;
    MUST(dat_get_consumer_context(w.pz, &context));
    CHECK(context.as_64 == 0);
    context.as_ptr = &w;
    MUST(dat_set_consumer_context(w.pz, context));
    MUST(dat_set_consumer_context(w.ia, as_context(9)));
    context.as_64 = 1;
    MUST(dat_get_consumer_context(w.pz, &context));
    CHECK(context.as_ptr == &w);
    MUST(dat_get_consumer_context(w.ia, &context));
    CHECK(context.as_64 == 9);
    SOUND(leave(&w));
}

static void regions_are_described(void)
{
    struct world w;
    DAT_LMR_PARAM param;
    DAT_PZ_PARAM zone;

    SOUND(enter(&w, 8));
    MUST(dat_lmr_query(w.near_end.lmr, DAT_LMR_FIELD_ALL, &param));
    CHECK(param.ia_handle == w.ia && param.pz_handle == w.pz);
    CHECK(param.mem_type == DAT_MEM_TYPE_VIRTUAL && param.region_desc.for_va == w.near_end.memory);
    CHECK(param.length == LENGTH && param.mem_priv == DAT_MEM_PRIV_ALL_FLAG);
    CHECK(param.lmr_context == w.near_end.lmr_context);
    CHECK(param.rmr_context == w.near_end.rmr_context);
    CHECK(param.registered_size >= LENGTH);
    MUST(dat_pz_query(w.pz, DAT_PZ_FIELD_ALL, &zone));
    CHECK(zone.ia_handle == w.ia);
    CHECK(dat_pz_free(w.pz) == ERROR_OF(DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE));
    SOUND(leave(&w));
}

/* A region of another region's memory names that one by a handle, both ways. */
static void region_of_a_region(void)
{
    struct world w;
    DAT_REGION_DESCRIPTION region;
    DAT_LMR_HANDLE second;
    DAT_LMR_CONTEXT context = 0;
    DAT_LMR_PARAM param;
    DAT_RETURN status;

    SOUND(enter(&w, 8));
    memset(&region, 0, sizeof region);
    region.for_lmr_handle = w.near_end.lmr;
    status = dat_lmr_create(w.ia, DAT_MEM_TYPE_LMR, region, LENGTH, w.pz, DAT_MEM_PRIV_ALL_FLAG,
                            &second, &context, NULL, NULL, NULL);
    if (!IS(status, DAT_MODEL_NOT_SUPPORTED)) {
        MUST(status);
        MUST(dat_lmr_query(second, DAT_LMR_FIELD_ALL, &param));
        CHECK(param.mem_type == DAT_MEM_TYPE_LMR && param.lmr_context == context);
        MUST(dat_lmr_free(second));
        CHECK(IS(dat_lmr_free(second), DAT_INVALID_HANDLE));
    }
    region.for_lmr_handle = w.pz;
    CHECK(IS(dat_lmr_create(w.ia, DAT_MEM_TYPE_LMR, region, LENGTH, w.pz, DAT_MEM_PRIV_ALL_FLAG,
                            &second, NULL, NULL, NULL, NULL),
             DAT_INVALID_HANDLE));
    SOUND(leave(&w));
}

static void endpoints_are_described(void)
{
    struct world w;
    struct pair p;
    DAT_EP_ATTR attr = attributes(8, 2);
    DAT_EP_PARAM param;
    DAT_PZ_HANDLE other;
    DAT_EP_STATE state;
    DAT_BOOLEAN recv_idle, request_idle;

    SOUND(enter(&w, 8));
    SOUND(make_endpoints(&w, &attr, &p));
    MUST(dat_ep_query(p.active, DAT_EP_FIELD_ALL, &param));
    CHECK(param.ia_handle == w.ia && param.pz_handle == w.pz);
    CHECK(param.ep_state == DAT_EP_STATE_UNCONNECTED);
    CHECK(param.recv_evd_handle == w.receives && param.request_evd_handle == w.requests);
    CHECK(param.connect_evd_handle == w.connections && param.srq_handle == DAT_HANDLE_NULL);
    CHECK(param.ep_attr.max_message_size >= LENGTH && param.ep_attr.max_recv_dtos >= 8);
    CHECK(param.ep_attr.max_request_iov >= 2);

    MUST(dat_pz_create(w.ia, &other));
    memset(&param, 0x55, sizeof param); /* only what the mask names is looked at */
    param.pz_handle = other;
    MUST(dat_ep_modify(p.active, DAT_EP_FIELD_PZ_HANDLE, &param));
    MUST(dat_ep_query(p.active, DAT_EP_FIELD_PZ_HANDLE, &param));
    CHECK(param.pz_handle == other);
    CHECK(IS(dat_ep_modify(p.active, DAT_EP_FIELD_EP_STATE, &param), DAT_INVALID_PARAMETER));
    CHECK(dat_ep_modify(p.active, UINT64_C(0x800), &param) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    MUST(dat_ep_get_status(p.active, &state, &recv_idle, &request_idle));
    CHECK(state == DAT_EP_STATE_UNCONNECTED && recv_idle == DAT_TRUE && request_idle == DAT_TRUE);
    MUST(dat_ep_free(p.active));
    CHECK(dat_ep_free(p.active) == ERROR_OF(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
    SOUND(leave(&w));
}

static void lengths_that_do_not_fit_are_refused(void)
{
    struct world w;
    struct pair p;
    DAT_EP_ATTR attr = attributes(8, 2);
    DAT_EP_HANDLE ep;
    DAT_LMR_TRIPLET out[2];
    DAT_RMR_TRIPLET target;
    DAT_VLEN long_one = ((DAT_VLEN)1 << 32) + 8;

    SOUND(enter(&w, 8));
    attr.max_message_size = long_one;
    CHECK(dat_ep_create(w.ia, w.pz, w.receives, w.requests, w.connections, &attr, &ep) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG6));
    attr = attributes(8, 2);
    SOUND(connect_pair(&w, &attr, &p));
    out[0] = local(&w.near_end, 0, 8);
    out[1] = local(&w.near_end, 8, long_one);
    target = remote(&w.far_end, 0, 8);
    CHECK(IS(dat_ep_post_send(p.active, 1, &out[1], as_context(0), DAT_COMPLETION_DEFAULT_FLAG),
             DAT_LENGTH_ERROR));
    CHECK(IS(dat_ep_post_send(p.active, 2, out, as_context(0), DAT_COMPLETION_DEFAULT_FLAG),
             DAT_LENGTH_ERROR));
    CHECK(IS(dat_ep_post_recv(p.active, 2, out, as_context(0), DAT_COMPLETION_DEFAULT_FLAG),
             DAT_LENGTH_ERROR));
    CHECK(IS(dat_ep_post_rdma_write(p.active, 1, &out[1], as_context(0), &target,
                                    DAT_COMPLETION_DEFAULT_FLAG),
             DAT_LENGTH_ERROR));
    target.segment_length = long_one;
    CHECK(IS(dat_ep_post_rdma_read(p.active, 1, out, as_context(0), &target,
                                   DAT_COMPLETION_DEFAULT_FLAG),
             DAT_LENGTH_ERROR));
    CHECK(IS(dat_lmr_sync_rdma_read(w.ia, out, 2), DAT_LENGTH_ERROR));
    SOUND(leave(&w));
}

/* ---- Connections -------------------------------------------------------------------------------- */

static void private_data_goes_both_ways(void)
{
    static const DAT_COUNT sizes[] = {4, 12, 40, 56};
    struct world w;
    struct pair p;
    unsigned char asked[56], answered[56];
    unsigned i;

    SOUND(enter(&w, 8));
    fill(asked, sizeof asked, 11);
    fill(answered, sizeof answered, 99);
    for (i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        SOUND(make_endpoints(&w, NULL, &p));
        SOUND(connect_endpoints(&w, &p, asked, sizes[i], answered, sizes[3 - i]));
        SOUND(send_once(&w, p.passive, p.active, 100));
        MUST(dat_ep_free(p.active));
        MUST(dat_ep_free(p.passive));
        /* The peer's end and its leavings are of no interest here. */
        while (1) {
            DAT_EVENT event;
            if (dat_evd_dequeue(w.connections, &event) != DAT_SUCCESS)
                break;
        }
    }
    SOUND(leave(&w));
}

static void disconnect_is_seen_once_on_both_sides(void)
{
    struct world w;
    struct pair p;
    DAT_EVENT event;
    DAT_EP_STATE state;
    int i;

    SOUND(enter(&w, 8));
    SOUND(connect_pair(&w, NULL, &p));
    MUST(dat_ep_disconnect(p.active, DAT_CLOSE_GRACEFUL_FLAG));
    for (i = 0; i < 2; ++i)
        SOUND(wait_event(w.connections, DAT_CONNECTION_EVENT_DISCONNECTED, &event));
    CHECK(dat_evd_dequeue(w.connections, &event) == DAT_QUEUE_EMPTY);
    MUST(dat_ep_get_status(p.passive, &state, NULL, NULL));
    CHECK(state == DAT_EP_STATE_DISCONNECTED);
    MUST(dat_ep_reset(p.active));
    MUST(dat_ep_reset(p.passive));
    SOUND(connect_endpoints(&w, &p, NULL, 0, NULL, 0));
    SOUND(send_once(&w, p.active, p.passive, 500));
    SOUND(leave(&w));
}

static void reset_after_a_rejection(void)
{
    struct world w;
    struct pair p;
    DAT_PSP_HANDLE psp;
    DAT_CONN_QUAL qualifier = 0;
    DAT_EVENT event;
    DAT_CR_HANDLE request;
    DAT_HANDLE_TYPE type;
    int tries;

    SOUND(enter(&w, 8));
    SOUND(make_endpoints(&w, NULL, &p));
    MUST(dat_psp_create_any(w.ia, &qualifier, w.connections, DAT_PSP_CONSUMER_FLAG, &psp));
    for (tries = 0; tries < 2; ++tries) {
        MUST(dat_ep_connect(p.active, w.attr.ia_address_ptr, qualifier, SECONDS, 0, NULL,
                            DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
        SOUND(wait_event(w.connections, DAT_CONNECTION_REQUEST_EVENT, &event));
        request = event.event_data.cr_arrival_event_data.cr_handle;
        MUST(dat_cr_reject(request));
        CHECK(dat_cr_reject(request) == ERROR_OF(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CR));
        CHECK(IS(dat_get_handle_type(request, &type), DAT_INVALID_HANDLE));
        SOUND(wait_event(w.connections, DAT_CONNECTION_EVENT_PEER_REJECTED, &event));
        CHECK(event.event_data.connect_event_data.ep_handle == p.active);
        MUST(dat_ep_reset(p.active));
    }
    MUST(dat_psp_free(psp));
    SOUND(connect_endpoints(&w, &p, NULL, 0, NULL, 0));
    SOUND(send_once(&w, p.active, p.passive, 8));
    SOUND(leave(&w));
}

static void qualifier_is_searched_for(void)
{
    struct world w;
    DAT_PSP_HANDLE first, second;
    DAT_PSP_PARAM param;
    DAT_CONN_QUAL qualifier = new_qualifier(), taken = qualifier;
    DAT_RETURN status;

    SOUND(enter(&w, 8));
    MUST(dat_psp_create(w.ia, qualifier, w.connections, DAT_PSP_CONSUMER_FLAG, &first));
    do {
        status = dat_psp_create(w.ia, qualifier, w.connections, DAT_PSP_CONSUMER_FLAG, &second);
        if (IS(status, DAT_CONN_QUAL_IN_USE))
            ++qualifier;
    } while (IS(status, DAT_CONN_QUAL_IN_USE));
    MUST(status);
    CHECK(qualifier != taken);
    MUST(dat_psp_query(second, DAT_PSP_FIELD_ALL, &param));
    CHECK(param.ia_handle == w.ia && param.evd_handle == w.connections);
    CHECK(param.conn_qual == qualifier && param.psp_flags == DAT_PSP_CONSUMER_FLAG);
    SOUND(leave(&w));
}

static void reserved_service_point(void)
{
    struct world w;
    struct pair p;
    DAT_RSP_HANDLE rsp;
    DAT_RSP_PARAM param;
    DAT_CONN_QUAL qualifier = new_qualifier();
    DAT_EVENT event;
    DAT_CR_PARAM request;
    int sides;

    SOUND(enter(&w, 8));
    SOUND(make_endpoints(&w, NULL, &p));
    MUST(dat_rsp_create(w.ia, qualifier, p.passive, w.connections, &rsp));
    MUST(dat_rsp_query(rsp, DAT_RSP_FIELD_ALL, &param));
    CHECK(param.ia_handle == w.ia && param.evd_handle == w.connections);
    CHECK(param.ep_handle == p.passive && param.conn_qual == qualifier);
    MUST(dat_ep_connect(p.active, w.attr.ia_address_ptr, qualifier, SECONDS, 0, NULL,
                        DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    SOUND(wait_event(w.connections, DAT_CONNECTION_REQUEST_EVENT, &event));
    CHECK(event.event_data.cr_arrival_event_data.sp_handle.rsp_handle == rsp);
    MUST(dat_cr_query(event.event_data.cr_arrival_event_data.cr_handle, DAT_CR_FIELD_ALL, &request));
    CHECK(request.local_ep_handle == p.passive);
    MUST(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, DAT_HANDLE_NULL, 0, NULL));
    for (sides = 0; sides < 2; ++sides)
        SOUND(wait_event(w.connections, DAT_CONNECTION_EVENT_ESTABLISHED, &event));
    MUST(dat_rsp_free(rsp));
    SOUND(send_once(&w, p.active, p.passive, 64));
    SOUND(leave(&w));
}

/* The endpoint of such a request is the provider's: it gets a handle when it is asked for. */
static void endpoint_made_by_the_provider(void)
{
    struct world w;
    struct pair p;
    DAT_PSP_HANDLE psp;
    DAT_CONN_QUAL qualifier = new_qualifier();
    DAT_EVENT event;
    DAT_CR_PARAM request;
    DAT_EP_PARAM param;
    DAT_HANDLE_TYPE type;
    DAT_RETURN status;
    int sides, accepted;

    SOUND(enter(&w, 8));
    SOUND(make_endpoints(&w, NULL, &p));
    status = dat_psp_create(w.ia, qualifier, w.connections, DAT_PSP_PROVIDER_FLAG, &psp);
    if (IS(status, DAT_MODEL_NOT_SUPPORTED)) {
        printf("    none here\n");
        SOUND(leave(&w));
        return;
    }
    MUST(status);
    for (accepted = 0; accepted < 2; ++accepted) {
        MUST(dat_ep_connect(p.active, w.attr.ia_address_ptr, qualifier, SECONDS, 0, NULL,
                            DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
        SOUND(wait_event(w.connections, DAT_CONNECTION_REQUEST_EVENT, &event));
        MUST(dat_cr_query(event.event_data.cr_arrival_event_data.cr_handle, DAT_CR_FIELD_ALL,
                          &request));
        CHECK(request.local_ep_handle != DAT_HANDLE_NULL);
        MUST(dat_get_handle_type(request.local_ep_handle, &type));
        CHECK(type == DAT_HANDLE_TYPE_EP);
        if (accepted)
            break;
        MUST(dat_cr_reject(event.event_data.cr_arrival_event_data.cr_handle));
        CHECK(IS(dat_ep_free(request.local_ep_handle), DAT_INVALID_HANDLE)); /* gone with it */
        CHECK(IS(dat_get_handle_type(request.local_ep_handle, &type), DAT_INVALID_HANDLE));
        SOUND(wait_event(w.connections, DAT_CONNECTION_EVENT_PEER_REJECTED, &event));
        MUST(dat_ep_reset(p.active));
    }
    memset(&param, 0, sizeof param);
    param.pz_handle = w.pz;
    param.recv_evd_handle = w.receives;
    param.request_evd_handle = w.requests;
    param.connect_evd_handle = w.connections;
    MUST(dat_ep_modify(request.local_ep_handle,
                       DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                           DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                       &param));
    MUST(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, DAT_HANDLE_NULL, 0, NULL));
    for (sides = 0; sides < 2; ++sides) {
        SOUND(wait_event(w.connections, DAT_CONNECTION_EVENT_ESTABLISHED, &event));
        CHECK(event.event_data.connect_event_data.ep_handle == p.active ||
              event.event_data.connect_event_data.ep_handle == request.local_ep_handle);
    }
    SOUND(send_once(&w, p.active, request.local_ep_handle, 64));
    SOUND(leave(&w));
}

static void two_endpoints_for_each_peer(void)
{
    enum { peers = 24 };
    struct world w;
    static struct pair pairs[peers][2];
    int i, second;

    SOUND(enter(&w, 8));
    for (i = 0; i < peers; ++i) {
        for (second = 0; second < 2; ++second)
            SOUND(connect_pair(&w, NULL, &pairs[i][second]));
        /* The queue of transfers grows as peers join. */
        MUST(dat_evd_resize(w.requests, 16 + 16 * i));
        MUST(dat_evd_resize(w.receives, 16 + 16 * i));
    }
    for (i = peers - 1; i >= 0; --i) {
        for (second = 0; second < 2; ++second) {
            SOUND(send_once(&w, pairs[i][second].active, pairs[i][second].passive, 32));
            SOUND(send_once(&w, pairs[i][second].passive, pairs[i][second].active, 32));
        }
    }
    SOUND(leave(&w));
}

/* As many endpoints as a large job has peers: events and queries name the right one. */
static void thousands_of_endpoints(void)
{
    enum { most = 3000, connected = 6 };
    static DAT_EP_HANDLE eps[most];
    struct world w;
    DAT_EP_ATTR attr = attributes(1, 1);
    DAT_EP_PARAM param;
    DAT_HANDLE_TYPE type;
    DAT_COUNT i, count;

    SOUND(enter(&w, 8));
    count = w.attr.max_eps < most ? w.attr.max_eps : most;
    CHECK(count >= 2 * connected);
    for (i = 0; i < count; ++i) {
        MUST(dat_ep_create(w.ia, w.pz, w.receives, w.requests, w.connections, &attr, &eps[i]));
        MUST(dat_set_consumer_context(eps[i], as_context((unsigned)i)));
    }
    for (i = 0; i < connected; ++i) {
        struct pair p;

        p.active = eps[i * (count / connected)];
        p.passive = eps[count - 1 - i];
        SOUND(connect_endpoints(&w, &p, NULL, 0, NULL, 0));
        SOUND(send_once(&w, p.active, p.passive, 64));
        SOUND(send_once(&w, p.passive, p.active, 64));
    }
    for (i = 0; i < count; ++i) {
        DAT_CONTEXT context = as_context((unsigned)-1);

        MUST(dat_get_consumer_context(eps[i], &context));
        CHECK(context.as_64 == (DAT_UINT64)i);
        if (i % 2 == 0)
            MUST(dat_ep_free(eps[i]));
    }
    for (i = 0; i < count; ++i) {
        if (i % 2 == 0)
            CHECK(IS(dat_get_handle_type(eps[i], &type), DAT_INVALID_HANDLE));
        else
            MUST(dat_ep_query(eps[i], DAT_EP_FIELD_PZ_HANDLE, &param));
    }
    SOUND(leave(&w));
    for (i = 0; i < count; ++i)
        CHECK(IS(dat_ep_free(eps[i]), DAT_INVALID_HANDLE));
}

static void second_connection_to_the_same_place(void)
{
    struct world w;
    struct pair p, q;
    DAT_RETURN status;

    SOUND(enter(&w, 8));
    SOUND(connect_pair(&w, NULL, &p));
    SOUND(make_endpoints(&w, NULL, &q));
    status = dat_ep_dup_connect(q.active, w.pz, SECONDS, 0, NULL, DAT_QOS_BEST_EFFORT);
    CHECK(IS(status, DAT_INVALID_HANDLE)); /* no endpoint at all */
    MUST(dat_ep_dup_connect(q.active, p.active, SECONDS, 0, NULL, DAT_QOS_BEST_EFFORT));
    SOUND(leave(&w));
}

/* ---- Transfers ---------------------------------------------------------------------------------- */

static void messages_of_several_segments(void)
{
    struct world w;
    struct pair p;
    DAT_COUNT most, count, i;
    DAT_EP_ATTR attr;
    DAT_LMR_TRIPLET out[64], in[64];

    SOUND(enter(&w, 8));
    most = w.attr.max_iov_segments_per_dto;
    attr = attributes(8, most);
    SOUND(connect_pair(&w, &attr, &p));
    fill(w.near_end.memory, LENGTH, 5);
    for (count = 1; count <= most; ++count) {
        for (i = 0; i < count; ++i) {
            out[i] = local(&w.near_end, (unsigned)i * 64, 16);
            in[i] = local(&w.far_end, (unsigned)i * 32, 16);
        }
        memset(w.far_end.memory, 0, LENGTH);
        MUST(dat_ep_post_recv(p.passive, count, in, as_context(1), DAT_COMPLETION_DEFAULT_FLAG));
        MUST(dat_ep_post_send(p.active, count, out, as_context(2), DAT_COMPLETION_DEFAULT_FLAG));
        SOUND(poll_dto(w.receives, p.passive, 1, (DAT_VLEN)count * 16));
        SOUND(poll_dto(w.requests, p.active, 2, (DAT_VLEN)count * 16));
        for (i = 0; i < count; ++i)
            CHECK(memcmp(w.near_end.memory + i * 64, w.far_end.memory + i * 32, 16) == 0);
    }
    CHECK(dat_ep_post_send(p.active, 65, out, as_context(2), DAT_COMPLETION_DEFAULT_FLAG) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    CHECK(dat_ep_post_send(p.active, -1, out, as_context(2), DAT_COMPLETION_DEFAULT_FLAG) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    SOUND(leave(&w));
}

static void empty_messages(void)
{
    struct world w;
    struct pair p;

    SOUND(enter(&w, 8));
    SOUND(connect_pair(&w, NULL, &p));
    MUST(dat_ep_post_recv(p.passive, 0, NULL, as_context(1), DAT_COMPLETION_DEFAULT_FLAG));
    MUST(dat_ep_post_send(p.active, 0, NULL, as_context(2), DAT_COMPLETION_DEFAULT_FLAG));
    SOUND(poll_dto(w.receives, p.passive, 1, 0));
    SOUND(poll_dto(w.requests, p.active, 2, 0));
    SOUND(leave(&w));
}

/* Nothing tells the target but the data themselves: the last byte is there last. */
static void last_byte_is_written_last(void)
{
    struct world w;
    struct pair p;
    int round;
    long turns;
    DAT_LMR_TRIPLET out;
    DAT_RMR_TRIPLET target;

    SOUND(enter(&w, 8));
    SOUND(connect_pair(&w, NULL, &p));
    for (round = 1; round <= 50; ++round) {
        const unsigned length = round % 2 ? LENGTH : 64u * (unsigned)round + 1;
        volatile unsigned char *last = w.far_end.memory + length - 1;

        memset(w.far_end.memory, 0, LENGTH);
        memset(w.near_end.memory, round, length);
        out = local(&w.near_end, 0, length);
        target = remote(&w.far_end, 0, length);
        MUST(dat_ep_post_rdma_write(p.active, 1, &out, as_context((unsigned)round), &target,
                                    DAT_COMPLETION_DEFAULT_FLAG));
        for (turns = 0; *last == 0 && turns < 4000000; ++turns)
            if (turns > 100000)
                usleep(5);
        CHECK(*last == round);
        CHECK(memcmp(w.near_end.memory, w.far_end.memory, length) == 0);
        SOUND(poll_dto(w.requests, p.active, (unsigned)round, length));
    }
    SOUND(leave(&w));
}

static void reads_come_before_what_is_fenced(void)
{
    struct world w;
    struct pair p;
    DAT_LMR_TRIPLET into, out, in;
    DAT_RMR_TRIPLET source;

    SOUND(enter(&w, 8));
    SOUND(connect_pair(&w, NULL, &p));
    fill(w.far_end.memory, 4096, 8);
    into = local(&w.near_end, 0, 4096);
    source = remote(&w.far_end, 0, 4096);
    out = local(&w.near_end, 0, 4096); /* the data just read */
    in = local(&w.far_end, 8192, 4096);
    MUST(dat_ep_post_recv(p.passive, 1, &in, as_context(3), DAT_COMPLETION_DEFAULT_FLAG));
    MUST(dat_ep_post_rdma_read(p.active, 1, &into, as_context(1), &source,
                               DAT_COMPLETION_DEFAULT_FLAG));
    MUST(dat_ep_post_send(p.active, 1, &out, as_context(2), DAT_COMPLETION_BARRIER_FENCE_FLAG));
    SOUND(poll_dto(w.requests, p.active, 1, 4096));
    SOUND(poll_dto(w.requests, p.active, 2, 4096));
    SOUND(poll_dto(w.receives, p.passive, 3, 4096));
    CHECK(memcmp(w.far_end.memory, w.far_end.memory + 8192, 4096) == 0);
    SOUND(leave(&w));
}

/* Suppressed successes make no event; a later success with an event gives their places back. */
static void suppressed_successes_are_retired(void)
{
    struct world w;
    struct pair p;
    DAT_EP_ATTR attr = attributes(8, 1);
    DAT_EVENT event;
    DAT_LMR_TRIPLET out;
    DAT_RMR_TRIPLET target;
    unsigned round, i;

    SOUND(enter(&w, 8));
    SOUND(connect_pair(&w, &attr, &p));
    out = local(&w.near_end, 0, 64);
    target = remote(&w.far_end, 0, 64);
    for (round = 0; round < 50; ++round) {
        for (i = 0; i < 7; ++i)
            MUST(dat_ep_post_rdma_write(p.active, 1, &out, as_context(i), &target,
                                        DAT_COMPLETION_SUPPRESS_FLAG));
        MUST(dat_ep_post_rdma_write(p.active, 1, &out, as_context(1000 + round), &target,
                                    DAT_COMPLETION_DEFAULT_FLAG));
        SOUND(poll_dto(w.requests, p.active, 1000 + round, 64));
        CHECK(dat_evd_dequeue(w.requests, &event) == DAT_QUEUE_EMPTY);
    }
    SOUND(leave(&w));
}

/* A full queue refuses a post; after completions it succeeds. */
static void full_queue_is_posted_to_again(void)
{
    struct world w;
    struct pair p;
    DAT_EP_ATTR attr = attributes(4, 1);
    DAT_LMR_TRIPLET out;
    DAT_RMR_TRIPLET target;
    unsigned posted = 0, taken = 0, refusals = 0;
    DAT_EVENT event;

    SOUND(enter(&w, 8));
    SOUND(connect_pair(&w, &attr, &p));
    out = local(&w.near_end, 0, LENGTH);
    target = remote(&w.far_end, 0, LENGTH);
    while (taken < 500) {
        DAT_RETURN status = DAT_SUCCESS;

        while (posted < 500 && status == DAT_SUCCESS) {
            status = dat_ep_post_rdma_write(p.active, 1, &out, as_context(posted), &target,
                                            DAT_COMPLETION_DEFAULT_FLAG);
            if (status == DAT_SUCCESS)
                ++posted;
            else
                CHECK(IS(status, DAT_INSUFFICIENT_RESOURCES));
        }
        refusals += status != DAT_SUCCESS;
        SOUND(wait_event(w.requests, DAT_DTO_COMPLETION_EVENT, &event));
        CHECK(event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS);
        CHECK(event.event_data.dto_completion_event_data.user_cookie.as_64 == taken);
        ++taken;
    }
    CHECK(refusals > 0);
    SOUND(leave(&w));
}

/* Lengths of 1, 8 and 10 are minima, and more events than that are left lying. */
static void small_queues_take_more(void)
{
    static const DAT_COUNT lengths[] = {1, 8, 10};
    unsigned which;

    for (which = 0; which < 3; ++which) {
        struct world w;
        struct pair p;
        DAT_EP_ATTR attr = attributes(40, 1);
        DAT_EVD_PARAM param;
        DAT_EVENT event;
        unsigned i;

        SOUND(enter(&w, lengths[which]));
        MUST(dat_evd_query(w.requests, DAT_EVD_FIELD_ALL, &param));
        CHECK(param.ia_handle == w.ia && param.cno_handle == DAT_HANDLE_NULL);
        CHECK(param.evd_qlen >= lengths[which]);
        CHECK(param.evd_flags == (DAT_EVD_FLAGS)(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG));
        SOUND(connect_pair(&w, &attr, &p));
        for (i = 0; i < 40; ++i) {
            DAT_LMR_TRIPLET in = local(&w.far_end, i * 64, 64);
            MUST(dat_ep_post_recv(p.passive, 1, &in, as_context(i), DAT_COMPLETION_DEFAULT_FLAG));
        }
        for (i = 0; i < 40; ++i) {
            DAT_LMR_TRIPLET out = local(&w.near_end, 0, 64);
            MUST(dat_ep_post_send(p.active, 1, &out, as_context(i), DAT_COMPLETION_DEFAULT_FLAG));
        }
        usleep(100000); /* lets all arrive while none has been taken */
        for (i = 0; i < 40; ++i) {
            SOUND(poll_dto(w.requests, p.active, i, 64));
            SOUND(poll_dto(w.receives, p.passive, i, 64));
        }
        CHECK(dat_evd_dequeue(w.async_evd, &event) == DAT_QUEUE_EMPTY);
        SOUND(leave(&w));
    }
}

static void resize_while_busy(void)
{
    struct world w;
    struct pair p;
    DAT_EP_ATTR attr = attributes(32, 1);
    DAT_COUNT length = 8;
    unsigned posted = 0, taken;

    SOUND(enter(&w, 8));
    SOUND(connect_pair(&w, &attr, &p));
    for (taken = 0; taken < 300; ++taken) {
        for (; posted < 300 && posted < taken + 16; ++posted) {
            DAT_LMR_TRIPLET in = local(&w.far_end, posted % 16 * 64, 64);
            DAT_LMR_TRIPLET out = local(&w.near_end, posted % 16 * 64, 64);
            MUST(dat_ep_post_recv(p.passive, 1, &in, as_context(posted),
                                  DAT_COMPLETION_DEFAULT_FLAG));
            MUST(dat_ep_post_send(p.active, 1, &out, as_context(posted),
                                  DAT_COMPLETION_DEFAULT_FLAG));
        }
        if (taken % 10 == 0) {
            length += 17;
            MUST(dat_evd_resize(w.requests, length));
            MUST(dat_evd_resize(w.receives, length));
        }
        SOUND(poll_dto(w.requests, p.active, taken, 64));
        SOUND(poll_dto(w.receives, p.passive, taken, 64));
    }
    SOUND(leave(&w));
}

static void disconnect_flushes_receives(void)
{
    struct world w;
    struct pair p;
    DAT_EVENT event;
    DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;
    DAT_LMR_TRIPLET in;
    unsigned i;

    SOUND(enter(&w, 8));
    SOUND(connect_pair(&w, NULL, &p));
    in = local(&w.far_end, 0, 64);
    for (i = 0; i < 4; ++i)
        MUST(dat_ep_post_recv(p.passive, 1, &in, as_context(i), DAT_COMPLETION_DEFAULT_FLAG));
    MUST(dat_ep_disconnect(p.active, DAT_CLOSE_ABRUPT_FLAG));
    for (i = 0; i < 4; ++i) {
        SOUND(wait_event(w.receives, DAT_DTO_COMPLETION_EVENT, &event));
        CHECK(dto->status == DAT_DTO_ERR_FLUSHED && dto->ep_handle == p.passive);
        CHECK(dto->user_cookie.as_64 == i);
    }
    SOUND(leave(&w));
}

/* ---- Windows ------------------------------------------------------------------------------------ */

static void wait_bind(struct world *w, DAT_RMR_HANDLE rmr, unsigned cookie)
{
    DAT_EVENT event;
    DAT_RMR_BIND_COMPLETION_EVENT_DATA *bound = &event.event_data.rmr_completion_event_data;

    SOUND(wait_event(w->requests, DAT_RMR_BIND_COMPLETION_EVENT, &event));
    CHECK(bound->status == DAT_RMR_BIND_SUCCESS);
    CHECK(bound->rmr_handle == rmr && bound->user_cookie.as_64 == cookie);
}

static void windows_open_memory(void)
{
    struct world w;
    struct pair p;
    DAT_RMR_HANDLE rmr;
    DAT_RMR_PARAM param;
    DAT_RMR_CONTEXT context = 0;
    DAT_LMR_TRIPLET part, out;
    DAT_RMR_TRIPLET target;
    DAT_RETURN status;

    SOUND(enter(&w, 8));
    SOUND(connect_pair(&w, NULL, &p));
    status = dat_rmr_create(w.pz, &rmr);
    if (status == DAT_SUCCESS) {
        part = local(&w.far_end, 4096, 4096);
        status = dat_rmr_bind(rmr, &part, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, p.passive, as_context(5),
                              DAT_COMPLETION_DEFAULT_FLAG, &context);
    }
    if (IS(status, DAT_MODEL_NOT_SUPPORTED) || IS(status, DAT_INSUFFICIENT_RESOURCES)) {
        printf("    no windows here\n");
        SOUND(leave(&w));
        return;
    }
    MUST(status);
    SOUND(wait_bind(&w, rmr, 5));
    CHECK(context != 0);
    MUST(dat_rmr_query(rmr, DAT_RMR_FIELD_ALL, &param));
    CHECK(param.ia_handle == w.ia && param.pz_handle == w.pz && param.rmr_context == context);
    CHECK(param.lmr_triplet.lmr_context == part.lmr_context && param.lmr_triplet.pad == 0);
    CHECK(param.lmr_triplet.virtual_address == part.virtual_address);
    CHECK(param.lmr_triplet.segment_length == 4096);
    CHECK(dat_lmr_free(w.far_end.lmr) ==
          ERROR_OF(DAT_INVALID_STATE, DAT_INVALID_STATE_LMR_IN_USE));

    fill(w.near_end.memory, 256, 77);
    out = local(&w.near_end, 0, 256);
    target = remote(&w.far_end, 4096, 256);
    target.rmr_context = context;
    MUST(dat_ep_post_rdma_write(p.active, 1, &out, as_context(6), &target,
                                DAT_COMPLETION_DEFAULT_FLAG));
    SOUND(poll_dto(w.requests, p.active, 6, 256));
    CHECK(memcmp(w.near_end.memory, w.far_end.memory + 4096, 256) == 0);

    part.lmr_context += 0x5a5a5a5; /* belongs to no region */
    CHECK(dat_rmr_bind(rmr, &part, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, p.passive, as_context(7),
                       DAT_COMPLETION_DEFAULT_FLAG, &context) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    CHECK(dat_rmr_bind(rmr, NULL, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, p.passive, as_context(7),
                       DAT_COMPLETION_DEFAULT_FLAG, &context) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    part = local(&w.far_end, 0, 0); /* no length: unbound */
    MUST(dat_rmr_bind(rmr, &part, DAT_MEM_PRIV_NONE_FLAG, p.passive, as_context(8),
                      DAT_COMPLETION_DEFAULT_FLAG, &context));
    SOUND(wait_bind(&w, rmr, 8));
    MUST(dat_lmr_free(w.far_end.lmr));
    MUST(dat_rmr_free(rmr));
    SOUND(leave(&w));
}

/* ---- Waiting ------------------------------------------------------------------------------------ */

static void several_queues_feed_one_cno(void)
{
    struct world w;
    struct pair p;
    DAT_CNO_HANDLE cno;
    DAT_CNO_PARAM param;
    DAT_EVD_PARAM evd_param;
    DAT_EVD_HANDLE triggered = DAT_HANDLE_NULL;
    DAT_EVENT event;
    DAT_LMR_TRIPLET in, out;
    DAT_OS_WAIT_PROXY_AGENT none = DAT_OS_WAIT_PROXY_AGENT_NULL;
    int left = 2, waits;

    SOUND(enter(&w, 8));
    MUST(dat_cno_create(w.ia, none, &cno));
    MUST(dat_cno_query(cno, DAT_CNO_FIELD_ALL, &param));
    CHECK(param.ia_handle == w.ia && param.agent.proxy_agent_func == none.proxy_agent_func);
    CHECK(IS(dat_cno_wait(cno, 0, &triggered), DAT_QUEUE_EMPTY) ||
          IS(dat_cno_wait(cno, 0, &triggered), DAT_TIMEOUT_EXPIRED));
    CHECK(triggered == DAT_HANDLE_NULL);
    SOUND(connect_pair(&w, NULL, &p));
    MUST(dat_evd_modify_cno(w.requests, cno));
    MUST(dat_evd_modify_cno(w.receives, cno));
    MUST(dat_evd_query(w.receives, DAT_EVD_FIELD_CNO, &evd_param));
    CHECK(evd_param.cno_handle == cno);
    in = local(&w.far_end, 0, 64);
    out = local(&w.near_end, 0, 64);
    MUST(dat_ep_post_recv(p.passive, 1, &in, as_context(1), DAT_COMPLETION_DEFAULT_FLAG));
    MUST(dat_ep_post_send(p.active, 1, &out, as_context(2), DAT_COMPLETION_DEFAULT_FLAG));
    for (waits = 0; left > 0 && waits < 100; ++waits) {
        const DAT_RETURN status = dat_cno_wait(cno, 100000, &triggered);

        CHECK(status != DAT_SUCCESS || triggered == w.requests || triggered == w.receives);
        while (dat_evd_dequeue(w.requests, &event) == DAT_SUCCESS)
            --left;
        while (dat_evd_dequeue(w.receives, &event) == DAT_SUCCESS)
            --left;
    }
    CHECK(left == 0);
    CHECK(dat_cno_free(cno) == ERROR_OF(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_IN_USE));
    SOUND(leave(&w));
}

static volatile int agent_calls;
static DAT_EVD_HANDLE agent_evd;
static DAT_PVOID agent_data;

static void count_agent(DAT_PVOID instance, DAT_EVD_HANDLE evd)
{
    agent_data = instance;
    agent_evd = evd;
    __sync_synchronize();
    ++agent_calls;
}

static void agents_are_called_with_the_evd(void)
{
    struct world w;
    DAT_CNO_HANDLE cno;
    DAT_CNO_PARAM param;
    DAT_EVD_HANDLE evd;
    DAT_EVENT event;
    DAT_OS_WAIT_PROXY_AGENT agent;
    int i;

    SOUND(enter(&w, 8));
    agent.instance_data = &w;
    agent.proxy_agent_func = count_agent;
    agent_calls = 0;
    MUST(dat_cno_create(w.ia, agent, &cno));
    MUST(dat_cno_query(cno, DAT_CNO_FIELD_AGENT, &param));
    CHECK(param.agent.proxy_agent_func == count_agent && param.agent.instance_data == &w);
    MUST(dat_evd_create(w.ia, 8, cno, DAT_EVD_SOFTWARE_FLAG, &evd));
    memset(&event, 0, sizeof event);
    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer = &event;
    MUST(dat_evd_post_se(evd, &event));
    for (i = 0; agent_calls == 0 && i < 2000; ++i)
        usleep(1000);
    CHECK(agent_calls == 1 && agent_evd == evd && agent_data == &w);
    memset(&event, 0, sizeof event);
    MUST(dat_evd_dequeue(evd, &event));
    CHECK(event.event_number == DAT_SOFTWARE_EVENT && event.evd_handle == evd);
    CHECK(event.event_data.software_event_data.pointer == &event);
    agent.instance_data = &cno;
    MUST(dat_cno_modify_agent(cno, agent));
    MUST(dat_cno_query(cno, DAT_CNO_FIELD_AGENT, &param));
    CHECK(param.agent.instance_data == &cno);
    SOUND(leave(&w));
}

static void waits_end_at_their_time(void)
{
    struct world w;
    DAT_EVENT event;
    DAT_COUNT more = -1;

    SOUND(enter(&w, 8));
    CHECK(dat_evd_wait(w.receives, 10000, 1, &event, &more) == DAT_TIMEOUT_EXPIRED);
    CHECK(more == 0);
    CHECK(dat_evd_wait(w.receives, 0, 1, &event, &more) == DAT_TIMEOUT_EXPIRED);
    CHECK(dat_evd_wait(w.receives, 0, 1, NULL, &more) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4));
    MUST(dat_evd_set_unwaitable(w.receives));
    CHECK(dat_evd_wait(w.receives, 0, 1, &event, &more) ==
          ERROR_OF(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_UNWAITABLE));
    MUST(dat_evd_clear_unwaitable(w.receives));
    MUST(dat_evd_disable(w.receives));
    MUST(dat_evd_enable(w.receives));
    MUST(dat_evd_free(w.receives));
    CHECK(IS(dat_evd_free(w.receives), DAT_INVALID_HANDLE));
    SOUND(leave(&w));
}

/* ---- Shared receive queues ---------------------------------------------------------------------- */

static void shared_queue_feeds_endpoints(void)
{
    struct world w;
    struct pair p;
    DAT_SRQ_HANDLE srq;
    DAT_SRQ_ATTR attr;
    DAT_SRQ_PARAM param;
    DAT_EP_PARAM ep;
    DAT_LMR_TRIPLET in[2], out;
    DAT_RETURN status;

    SOUND(enter(&w, 8));
    attr.max_recv_dtos = 16;
    attr.max_recv_iov = 2;
    attr.low_watermark = DAT_SRQ_LW_DEFAULT;
    status = dat_srq_create(w.ia, w.pz, &attr, &srq);
    if (IS(status, DAT_MODEL_NOT_SUPPORTED)) {
        printf("    none here\n");
        SOUND(leave(&w));
        return;
    }
    MUST(status);
    MUST(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, &param));
    CHECK(param.ia_handle == w.ia && param.pz_handle == w.pz);
    CHECK(param.srq_state == DAT_SRQ_STATE_OPERATIONAL && param.max_recv_dtos >= 16);
    MUST(dat_ep_create(w.ia, w.pz, w.receives, w.requests, w.connections, NULL, &p.active));
    MUST(dat_ep_create_with_srq(w.ia, w.pz, w.receives, w.requests, w.connections, srq, NULL,
                                &p.passive));
    MUST(dat_ep_query(p.passive, DAT_EP_FIELD_SRQ_HANDLE, &ep));
    CHECK(ep.srq_handle == srq);
    CHECK(dat_srq_free(srq) == ERROR_OF(DAT_INVALID_STATE, DAT_INVALID_STATE_SRQ_IN_USE));
    SOUND(connect_endpoints(&w, &p, NULL, 0, NULL, 0));
    in[0] = local(&w.far_end, 0, 16);
    in[1] = local(&w.far_end, 64, 48);
    out = local(&w.near_end, 0, 64);
    fill(w.near_end.memory, 64, 21);
    MUST(dat_srq_post_recv(srq, 2, in, as_context(4)));
    MUST(dat_ep_post_send(p.active, 1, &out, as_context(5), DAT_COMPLETION_DEFAULT_FLAG));
    SOUND(poll_dto(w.receives, p.passive, 4, 64));
    SOUND(poll_dto(w.requests, p.active, 5, 64));
    CHECK(memcmp(w.near_end.memory, w.far_end.memory, 16) == 0);
    CHECK(memcmp(w.near_end.memory + 16, w.far_end.memory + 64, 48) == 0);
    SOUND(leave(&w));
}

/* ---- Codes -------------------------------------------------------------------------------------- */

static int named(DAT_RETURN code, const char *major, const char *minor)
{
    const char *type = NULL, *subtype = NULL;

    return dat_strerror(code, &type, &subtype) == DAT_SUCCESS && strcmp(type, major) == 0 &&
           strcmp(subtype, minor) == 0;
}

static void codes_have_names(void)
{
    const char *major = NULL, *minor = NULL;

    CHECK(named(DAT_SUCCESS, "DAT_SUCCESS", ""));
    CHECK(named(ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3), "DAT_INVALID_PARAMETER",
                "DAT_INVALID_ARG3"));
    CHECK(named(ERROR_OF(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_SRQ), "DAT_INVALID_HANDLE",
                "DAT_INVALID_HANDLE_SRQ"));
    CHECK(named(ERROR_OF(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1), "DAT_INVALID_HANDLE",
                "DAT_INVALID_HANDLE1"));
    CHECK(named(ERROR_OF(DAT_PROVIDER_NOT_FOUND, DAT_THREAD_SAFETY_NOT_FOUND),
                "DAT_PROVIDER_NOT_FOUND", "DAT_THREAD_SAFETY_NOT_FOUND"));
    CHECK(named(ERROR_OF(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_READ), "DAT_PRIVILEGES_VIOLATION",
                "DAT_PRIVILEGES_READ"));
    CHECK(named(ERROR_OF(DAT_NOT_IMPLEMENTED, 0), "DAT_NOT_IMPLEMENTED", ""));
    CHECK(named(DAT_CONN_QUAL_UNAVAILABLE, "DAT_CONN_QUAL_UNAVAILABLE", ""));
    CHECK(dat_strerror(0x00150000, &major, &minor) == DAT_INVALID_PARAMETER); /* of DAT 2.0 */
    CHECK(dat_strerror(DAT_INVALID_STATE | 102, &major, &minor) == DAT_INVALID_PARAMETER);
    CHECK(major != NULL && minor != NULL);
}

static const struct a_case cases[] = {
    {"adapters are listed under DAT 1.2", adapters_are_listed},
    {"open checks the version", open_checks_the_version},
    {"threads are as the line of dat.conf says", threads_are_as_the_line_says},
    {"adapter is described in the structures of DAT 1.2", adapter_is_described},
    {"graceful close refuses while objects are left", graceful_close_refuses},
    {"abrupt close ends all objects", abrupt_close_ends_all},
    {"exit without close", exit_without_close},
    {"peer exits without close, or is killed", peer_exits_without_close},
    {"handles have types", handles_have_types},
    {"contexts are kept", contexts_are_kept},
    {"regions are described", regions_are_described},
    {"region of a region", region_of_a_region},
    {"endpoints are described", endpoints_are_described},
    {"lengths over 32 bits are refused", lengths_that_do_not_fit_are_refused},
    {"private data goes both ways", private_data_goes_both_ways},
    {"disconnect is seen once on both sides", disconnect_is_seen_once_on_both_sides},
    {"reset after a rejection", reset_after_a_rejection},
    {"qualifier is searched for while it is in use", qualifier_is_searched_for},
    {"reserved service point", reserved_service_point},
    {"endpoint made by the provider", endpoint_made_by_the_provider},
    {"two endpoints for each peer, queues resized as they join", two_endpoints_for_each_peer},
    {"thousands of endpoints", thousands_of_endpoints},
    {"second connection to the same place", second_connection_to_the_same_place},
    {"messages of several segments", messages_of_several_segments},
    {"empty messages without a segment list", empty_messages},
    {"last byte of an RDMA write is written last", last_byte_is_written_last},
    {"reads come before what is fenced", reads_come_before_what_is_fenced},
    {"suppressed successes are retired", suppressed_successes_are_retired},
    {"full queue is posted to again", full_queue_is_posted_to_again},
    {"small queues take more than was asked for", small_queues_take_more},
    {"resize while busy", resize_while_busy},
    {"disconnect flushes receives", disconnect_flushes_receives},
    {"windows open memory", windows_open_memory},
    {"several queues feed one CNO", several_queues_feed_one_cno},
    {"agents are called with the EVD", agents_are_called_with_the_evd},
    {"waits end at their time", waits_end_at_their_time},
    {"shared receive queue feeds endpoints", shared_queue_feeds_endpoints},
    {"codes have names", codes_have_names}
};

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s ADAPTER [CASE]\n", argv[0]);
        return 2;
    }
    adapter = argv[1];
    return run_cases(cases, sizeof cases / sizeof *cases, argc > 2 ? argv[2] : NULL);
}
