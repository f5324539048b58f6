/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls of the data path through either generation, to be counted by callgrind: each phase is
 * dumped under its name, with counting switched on inside the calls only. See facade_cost.py.
 *
 *   cost_probe ADAPTER CALLS
 */
#if defined(DAT_1_2)
#include <dat/udat.h>
#define REMOTE_ADDRESS target_address
#define LMR_CREATE(ia, region, length, pz, lmr, lmr_context, rmr_context) \
    dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, length, pz, DAT_MEM_PRIV_ALL_FLAG, lmr, \
                   lmr_context, rmr_context, NULL, NULL)
#else
#include <dat2/udat.h>
#define REMOTE_ADDRESS virtual_address
#define LMR_CREATE(ia, region, length, pz, lmr, lmr_context, rmr_context) \
    dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, length, pz, DAT_MEM_PRIV_ALL_FLAG, \
                   DAT_VA_TYPE_VA, lmr, lmr_context, rmr_context, NULL, NULL)
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#define SEGMENTS 4

static char memory[4096];
static DAT_EP_HANDLE active, passive;
static DAT_EVD_HANDLE requests, receives, connections;
static DAT_LMR_TRIPLET segments[SEGMENTS];
static DAT_RMR_TRIPLET target;

static void must(const char *what, DAT_RETURN status)
{
    if (status != DAT_SUCCESS) {
        fprintf(stderr, "%s: %#x\n", what, (unsigned)status);
        exit(1);
    }
}

static void await(DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
    DAT_COUNT more;

    must("dat_evd_wait", dat_evd_wait(evd, 30000000, 1, event, &more));
}

static void set_up(const char *adapter)
{
    DAT_IA_HANDLE ia;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz;
    DAT_LMR_HANDLE lmr;
    DAT_LMR_CONTEXT lmr_context;
    DAT_RMR_CONTEXT rmr_context;
    DAT_REGION_DESCRIPTION region;
    DAT_IA_ATTR attr;
    DAT_PSP_HANDLE psp;
    DAT_CONN_QUAL qualifier;
    DAT_EVENT event;
    int i;

    must("dat_ia_open", dat_ia_open((DAT_NAME_PTR)adapter, 8, &async, &ia));
    must("dat_ia_query", dat_ia_query(ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL));
    must("dat_pz_create", dat_pz_create(ia, &pz));
    must("dat_evd_create", dat_evd_create(ia, 256, NULL, DAT_EVD_DTO_FLAG, &requests));
    must("dat_evd_create", dat_evd_create(ia, 256, NULL, DAT_EVD_DTO_FLAG, &receives));
    must("dat_evd_create",
         dat_evd_create(ia, 64, NULL, (DAT_EVD_FLAGS)(DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG),
                        &connections));
    memset(&region, 0, sizeof region);
    region.for_va = memory;
    must("dat_lmr_create",
         LMR_CREATE(ia, region, sizeof memory, pz, &lmr, &lmr_context, &rmr_context));
    must("dat_ep_create", dat_ep_create(ia, pz, receives, requests, connections, NULL, &active));
    must("dat_ep_create", dat_ep_create(ia, pz, receives, requests, connections, NULL, &passive));
    must("dat_psp_create_any",
         dat_psp_create_any(ia, &qualifier, connections, DAT_PSP_CONSUMER_FLAG, &psp));
    must("dat_ep_connect", dat_ep_connect(active, attr.ia_address_ptr, qualifier, 30000000, 0, NULL,
                                          DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    await(connections, &event);
    must("dat_cr_accept",
         dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, passive, 0, NULL));
    await(connections, &event);
    await(connections, &event);
    memset(segments, 0, sizeof segments);
    memset(&target, 0, sizeof target);
    for (i = 0; i < SEGMENTS; ++i) {
        segments[i].lmr_context = lmr_context;
        segments[i].virtual_address = (DAT_VADDR)(size_t)(memory + 64 * i);
        segments[i].segment_length = 16;
    }
    target.rmr_context = rmr_context;
    target.REMOTE_ADDRESS = (DAT_VADDR)(size_t)(memory + 2048);
    target.segment_length = 64;
}

/* One call, counted; its answer is to be `expected`. */
#define COUNTED(expected, call) \
    do { \
        DAT_RETURN code_; \
        CALLGRIND_TOGGLE_COLLECT; \
        code_ = (call); \
        CALLGRIND_TOGGLE_COLLECT; \
        if (DAT_GET_TYPE(code_) != (DAT_RETURN)(expected)) \
            must(#call, code_ != DAT_SUCCESS ? code_ : DAT_INTERNAL_ERROR); \
    } while (0)

static void phase(const char *name, int calls)
{
    DAT_CONTEXT cookie;
    DAT_EVENT event;
    int i;

    cookie.as_64 = 0;
    CALLGRIND_ZERO_STATS;
    for (i = 0; i < calls; ++i) {
        if (strncmp(name, "send", 4) == 0) {
            must("dat_ep_post_recv", dat_ep_post_recv(passive, 4, segments, cookie,
                                                      DAT_COMPLETION_DEFAULT_FLAG));
            COUNTED(DAT_SUCCESS, dat_ep_post_send(active, name[4] - '0', segments, cookie,
                                                  DAT_COMPLETION_DEFAULT_FLAG));
            await(requests, &event);
            await(receives, &event);
        } else if (strcmp(name, "recv1") == 0) {
            COUNTED(DAT_SUCCESS, dat_ep_post_recv(passive, 1, segments, cookie,
                                                  DAT_COMPLETION_DEFAULT_FLAG));
            must("dat_ep_post_send", dat_ep_post_send(active, 1, segments, cookie,
                                                      DAT_COMPLETION_DEFAULT_FLAG));
            await(requests, &event);
            await(receives, &event);
        } else if (strcmp(name, "empty") == 0) {
            COUNTED(DAT_QUEUE_EMPTY, dat_evd_dequeue(requests, &event));
        } else { /* writes and dequeue */
            if (*name == 'w')
                COUNTED(DAT_SUCCESS,
                        dat_ep_post_rdma_write(active, name[5] - '0', segments, cookie, &target,
                                               DAT_COMPLETION_DEFAULT_FLAG));
            else
                must("dat_ep_post_rdma_write",
                     dat_ep_post_rdma_write(active, 1, segments, cookie, &target,
                                            DAT_COMPLETION_DEFAULT_FLAG));
            usleep(2000);
            if (*name == 'w') {
                await(requests, &event);
            } else {
                DAT_RETURN code;
                CALLGRIND_TOGGLE_COLLECT;
                code = dat_evd_dequeue(requests, &event);
                CALLGRIND_TOGGLE_COLLECT;
                if (code != DAT_SUCCESS) { /* too early: the phase is counted again */
                    await(requests, &event);
                    i = -1;
                    CALLGRIND_ZERO_STATS;
                }
            }
        }
    }
    if (calls > 3) {
        CALLGRIND_DUMP_STATS_AT(name);
        printf("%s %d 0\n", name, calls);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    static const char *const phases[] = {"send1",  "send2",  "send4",  "recv1",  "write1",
                                         "write2", "write4", "empty", "dequeue"};
    unsigned i, round;

    if (argc != 3)
        return 2;
    set_up(argv[1]);
    for (round = 0; round < 2; ++round) { /* the first resolves symbols */
        for (i = 0; i < sizeof phases / sizeof *phases; ++i)
            phase(phases[i], round == 0 ? 3 : atoi(argv[2]));
    }
    return 0;
}
