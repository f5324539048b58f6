/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The life of an adapter in a program: opened, connected to itself, a message, closed. */
#ifndef GUEST_LIFE_H
#define GUEST_LIFE_H

#include <dat2/udat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(int is_so, const char *what)
{
    if (is_so)
        return;
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}
#define MUST(call) expect((call) == DAT_SUCCESS, #call)

static DAT_EVENT next_event(DAT_EVD_HANDLE from, DAT_EVENT_NUMBER wanted)
{
    DAT_EVENT event;
    DAT_COUNT more;
    MUST(dat_evd_wait(from, 60 * 1000 * 1000, 1, &event, &more));
    expect(event.event_number == wanted, "the event is the one that was waited for");
    return event;
}

static DAT_LMR_TRIPLET whole_of(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, void *memory, DAT_VLEN size,
                                DAT_LMR_HANDLE *lmr)
{
    DAT_LMR_TRIPLET triplet;
    DAT_REGION_DESCRIPTION region;
    memset(&triplet, 0, sizeof triplet);
    region.for_va = memory;
    MUST(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, size, pz,
                        DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG,
                        DAT_VA_TYPE_VA, lmr, &triplet.lmr_context, NULL, NULL, NULL));
    triplet.virtual_address = (DAT_VADDR)(size_t)memory;
    triplet.segment_length = size;
    return triplet;
}

/* `open` runs while the adapter is. */
static void live(const char *adapter, void (*open)(void))
{
    static char memory[2][64];
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL, dto, conn, requests;
    DAT_EP_HANDLE ep[2];
    DAT_LMR_HANDLE lmr[2];
    DAT_LMR_TRIPLET place[2];
    DAT_DTO_COOKIE cookie;
    DAT_CONN_QUAL qualifier;
    DAT_IA_ATTR about;
    DAT_IA_HANDLE ia;
    DAT_PZ_HANDLE pz;
    DAT_PSP_HANDLE psp;
    int i;

    memset(&cookie, 0, sizeof cookie);
    MUST(dat_ia_open((char *)adapter, 8, &async, &ia));
    MUST(dat_ia_query(ia, &async, DAT_IA_FIELD_ALL, &about, 0, NULL));
    MUST(dat_pz_create(ia, &pz));
    MUST(dat_evd_create(ia, 16, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &dto));
    MUST(dat_evd_create(ia, 16, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &conn));
    MUST(dat_evd_create(ia, 16, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &requests));
    MUST(dat_psp_create_any(ia, &qualifier, requests, DAT_PSP_CONSUMER_FLAG, &psp));
    for (i = 0; i < 2; ++i) {
        MUST(dat_ep_create(ia, pz, dto, dto, conn, NULL, &ep[i]));
        place[i] = whole_of(ia, pz, memory[i], sizeof memory[i], &lmr[i]);
    }
    strcpy(memory[0], "a message");
    MUST(dat_ep_post_recv(ep[1], 1, &place[1], cookie, DAT_COMPLETION_DEFAULT_FLAG));

    MUST(dat_ep_connect(ep[0], about.ia_address_ptr, qualifier, 60 * 1000 * 1000, 0, NULL,
                        DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    MUST(dat_cr_accept(next_event(requests, DAT_CONNECTION_REQUEST_EVENT)
                           .event_data.cr_arrival_event_data.cr_handle,
                       ep[1], 0, NULL));
    for (i = 0; i < 2; ++i)
        next_event(conn, DAT_CONNECTION_EVENT_ESTABLISHED);
    MUST(dat_ep_post_send(ep[0], 1, &place[0], cookie, DAT_COMPLETION_DEFAULT_FLAG));
    for (i = 0; i < 2; ++i)
        next_event(dto, DAT_DTO_COMPLETION_EVENT);
    expect(strcmp(memory[1], memory[0]) == 0, "the message arrives");
    if (open != NULL)
        open();

    MUST(dat_ep_disconnect(ep[0], DAT_CLOSE_GRACEFUL_FLAG));
    for (i = 0; i < 2; ++i)
        next_event(conn, DAT_CONNECTION_EVENT_DISCONNECTED);
    for (i = 0; i < 2; ++i) {
        MUST(dat_ep_free(ep[i]));
        MUST(dat_lmr_free(lmr[i]));
    }
    MUST(dat_psp_free(psp));
    MUST(dat_evd_free(requests));
    MUST(dat_evd_free(conn));
    MUST(dat_evd_free(dto));
    MUST(dat_pz_free(pz));
    MUST(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}

#endif
