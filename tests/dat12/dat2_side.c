/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "dat2_side.h"

#include <dat2/udat.h>

#include <stdlib.h>
#include <string.h>

static DAT_IA_HANDLE ia;
static DAT_PZ_HANDLE zone;
static DAT_EVD_HANDLE queue;
static DAT_EP_HANDLE endpoint;

void *dat2_adapter(const char *name)
{
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;

    if (dat_ia_open((DAT_NAME_PTR)name, 8, &async, &ia) != DAT_SUCCESS ||
        dat_pz_create(ia, &zone) != DAT_SUCCESS ||
        dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &queue) != DAT_SUCCESS ||
        dat_ep_create(ia, zone, queue, queue, DAT_HANDLE_NULL, NULL, &endpoint) != DAT_SUCCESS)
        return NULL;
    return ia;
}

void *dat2_zone(void)
{
    return zone;
}

void *dat2_queue(void)
{
    return queue;
}

void *dat2_endpoint(void)
{
    return endpoint;
}

int dat2_close(void)
{
    DAT_EP_STATE state;

    return dat_ep_get_status(endpoint, &state, NULL, NULL) == DAT_SUCCESS &&
           dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS;
}

#define TRY(call) \
    do { \
        if (DAT_GET_TYPE(call) != DAT_INVALID_HANDLE) \
            return #call; \
    } while (0)

const char *dat2_accepts(void *h)
{
    DAT_EVENT event;
    DAT_HANDLE made;
    DAT_HANDLE_TYPE type;
    DAT_CONTEXT context;
    DAT_COUNT n;
    DAT_EVD_PARAM evd;
    DAT_EP_PARAM ep;
    DAT_LMR_PARAM lmr;
    DAT_LMR_TRIPLET segment;
    DAT_RMR_TRIPLET target;
    DAT_RMR_CONTEXT rmr_context;

    memset(&segment, 0, sizeof segment);
    memset(&target, 0, sizeof target);
    memset(&event, 0, sizeof event);
    context.as_64 = 0;
    TRY(dat_get_handle_type(h, &type));
    TRY(dat_set_consumer_context(h, context));
    TRY(dat_ia_query(h, NULL, 0, NULL, 0, NULL));
    TRY(dat_ia_close(h, DAT_CLOSE_ABRUPT_FLAG));
    TRY(dat_pz_create(h, &made));
    TRY(dat_pz_free(h));
    TRY(dat_evd_query(h, DAT_EVD_FIELD_ALL, &evd));
    TRY(dat_evd_dequeue(h, &event));
    TRY(dat_evd_wait(h, 0, 1, &event, &n));
    TRY(dat_evd_free(h));
    TRY(dat_ep_query(h, DAT_EP_FIELD_ALL, &ep));
    TRY(dat_ep_post_send(h, 1, &segment, context, DAT_COMPLETION_DEFAULT_FLAG));
    TRY(dat_ep_post_recv(h, 1, &segment, context, DAT_COMPLETION_DEFAULT_FLAG));
    TRY(dat_ep_post_rdma_write(h, 1, &segment, context, &target, DAT_COMPLETION_DEFAULT_FLAG));
    TRY(dat_ep_free(h));
    TRY(dat_lmr_query(h, DAT_LMR_FIELD_ALL, &lmr));
    TRY(dat_lmr_free(h));
    TRY(dat_rmr_bind(h, h, &segment, DAT_MEM_PRIV_NONE_FLAG, DAT_VA_TYPE_VA, h, context,
                     DAT_COMPLETION_DEFAULT_FLAG, &rmr_context));
    TRY(dat_psp_free(h));
    TRY(dat_cno_free(h));
    TRY(dat_srq_free(h));
    TRY(dat_cr_reject(h, 0, NULL));
    return NULL;
}
