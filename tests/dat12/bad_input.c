/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Handles that are none: null, small numbers, stale, of another type, of the other generation. Every
 * call of DAT 1.2 answers DAT_INVALID_HANDLE, and so does every call of DAT 2.0 with one of ours.
 *
 *   bad_input ADAPTER [CASE [SEED]]
 */
#if defined(THROUGH_MACROS)
#include "through_macros.h"
#endif
#include <dat/udat.h>

#include "checks.h"
#include "dat2_side.h"

#include <stdlib.h>

static const char *adapter;

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define ALL_TYPES 12

/* One live object of each type, by DAT_HANDLE_TYPE; null where the adapter has none. */
struct zoo {
    DAT_IA_HANDLE ia;
    DAT_HANDLE objects[ALL_TYPES];
};

static void open_zoo(struct zoo *zoo)
{
    static char memory[4096];
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_REGION_DESCRIPTION region;
    DAT_OS_WAIT_PROXY_AGENT none = DAT_OS_WAIT_PROXY_AGENT_NULL;
    DAT_SRQ_ATTR srq;
    DAT_HANDLE *o = zoo->objects;
    DAT_CONN_QUAL qualifier;

    memset(zoo, 0, sizeof *zoo);
    MUST(dat_ia_open((DAT_NAME_PTR)adapter, 8, &async, &zoo->ia));
    o[DAT_HANDLE_TYPE_IA] = zoo->ia;
    MUST(dat_pz_create(zoo->ia, &o[DAT_HANDLE_TYPE_PZ]));
    MUST(dat_evd_create(zoo->ia, 8, DAT_HANDLE_NULL,
                        (DAT_EVD_FLAGS)(DAT_EVD_CR_FLAG | DAT_EVD_DTO_FLAG),
                        &o[DAT_HANDLE_TYPE_EVD]));
    MUST(dat_cno_create(zoo->ia, none, &o[DAT_HANDLE_TYPE_CNO]));
    MUST(dat_ep_create(zoo->ia, o[DAT_HANDLE_TYPE_PZ], o[DAT_HANDLE_TYPE_EVD], DAT_HANDLE_NULL,
                       DAT_HANDLE_NULL, NULL, &o[DAT_HANDLE_TYPE_EP]));
    memset(&region, 0, sizeof region);
    region.for_va = memory;
    MUST(dat_lmr_create(zoo->ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof memory,
                        o[DAT_HANDLE_TYPE_PZ], DAT_MEM_PRIV_ALL_FLAG, &o[DAT_HANDLE_TYPE_LMR], NULL,
                        NULL, NULL, NULL));
    (void)dat_rmr_create(o[DAT_HANDLE_TYPE_PZ], &o[DAT_HANDLE_TYPE_RMR]);
    MUST(dat_psp_create_any(zoo->ia, &qualifier, o[DAT_HANDLE_TYPE_EVD], DAT_PSP_CONSUMER_FLAG,
                            &o[DAT_HANDLE_TYPE_PSP]));
    srq.max_recv_dtos = 4;
    srq.max_recv_iov = 1;
    srq.low_watermark = 0;
    (void)dat_srq_create(zoo->ia, o[DAT_HANDLE_TYPE_PZ], &srq, &o[DAT_HANDLE_TYPE_SRQ]);
}

/* Every call with this first handle; all other arguments would do. */
static int all_refuse(DAT_HANDLE h, int type)
{
    DAT_HANDLE made;
    DAT_EVENT event;
    DAT_COUNT n, m;
    DAT_CONTEXT context;
    DAT_IA_ATTR ia_attr;
    DAT_EVD_PARAM evd_param;
    DAT_EP_PARAM ep_param;
    DAT_EP_STATE state;
    DAT_LMR_PARAM lmr_param;
    DAT_RMR_PARAM rmr_param;
    DAT_PSP_PARAM psp_param;
    DAT_RSP_PARAM rsp_param;
    DAT_PZ_PARAM pz_param;
    DAT_SRQ_PARAM srq_param;
    DAT_SRQ_ATTR srq_attr;
    DAT_CR_PARAM cr_param;
    DAT_CNO_PARAM cno_param;
    DAT_CONN_QUAL qualifier;
    DAT_LMR_TRIPLET segment;
    DAT_RMR_TRIPLET target;
    DAT_RMR_CONTEXT rmr_context;
    DAT_REGION_DESCRIPTION region;
    DAT_OS_WAIT_PROXY_AGENT none = DAT_OS_WAIT_PROXY_AGENT_NULL;
    int good = 1;

    memset(&event, 0, sizeof event);
    memset(&segment, 0, sizeof segment);
    memset(&target, 0, sizeof target);
    memset(&region, 0, sizeof region);
    memset(&srq_attr, 0, sizeof srq_attr);
    memset(&ep_param, 0, sizeof ep_param);
    context.as_64 = 0;

#define REFUSED(call) \
    do { \
        const DAT_RETURN answer_ = (call); \
        if (!IS(answer_, DAT_INVALID_HANDLE)) { \
            printf("    %#lx: %s\n", (unsigned long)answer_, #call); \
            good = 0; \
        } \
    } while (0)

    if (type != DAT_HANDLE_TYPE_IA) {
        REFUSED(dat_ia_query(h, NULL, DAT_IA_ALL, &ia_attr, 0, NULL));
        REFUSED(dat_ia_close(h, DAT_CLOSE_ABRUPT_FLAG));
        REFUSED(dat_cno_create(h, none, &made));
        REFUSED(dat_evd_create(h, 8, NULL, DAT_EVD_DTO_FLAG, &made));
        REFUSED(dat_ep_create(h, NULL, NULL, NULL, NULL, NULL, &made));
        REFUSED(dat_ep_create_with_srq(h, NULL, NULL, NULL, NULL, NULL, NULL, &made));
        REFUSED(dat_lmr_create(h, DAT_MEM_TYPE_VIRTUAL, region, 8, NULL, DAT_MEM_PRIV_ALL_FLAG, &made,
                               NULL, NULL, NULL, NULL));
        REFUSED(dat_lmr_sync_rdma_read(h, &segment, 1));
        REFUSED(dat_lmr_sync_rdma_write(h, &segment, 1));
        REFUSED(dat_psp_create(h, 77, NULL, DAT_PSP_CONSUMER_FLAG, &made));
        REFUSED(dat_psp_create_any(h, &qualifier, NULL, DAT_PSP_CONSUMER_FLAG, &made));
        REFUSED(dat_rsp_create(h, 77, NULL, NULL, &made));
        REFUSED(dat_pz_create(h, &made));
        REFUSED(dat_srq_create(h, NULL, &srq_attr, &made));
    }
    if (type != DAT_HANDLE_TYPE_CNO) {
        REFUSED(dat_cno_modify_agent(h, none));
        REFUSED(dat_cno_query(h, DAT_CNO_FIELD_ALL, &cno_param));
        REFUSED(dat_cno_free(h));
        REFUSED(dat_cno_wait(h, 0, &made));
    }
    if (type != DAT_HANDLE_TYPE_CR) {
        REFUSED(dat_cr_query(h, DAT_CR_FIELD_ALL, &cr_param));
        REFUSED(dat_cr_accept(h, NULL, 0, NULL));
        REFUSED(dat_cr_reject(h));
        REFUSED(dat_cr_handoff(h, 77));
    }
    if (type != DAT_HANDLE_TYPE_EVD) {
        REFUSED(dat_evd_query(h, DAT_EVD_FIELD_ALL, &evd_param));
        REFUSED(dat_evd_modify_cno(h, NULL));
        REFUSED(dat_evd_enable(h));
        REFUSED(dat_evd_disable(h));
        REFUSED(dat_evd_wait(h, 0, 1, &event, &n));
        REFUSED(dat_evd_resize(h, 8));
        REFUSED(dat_evd_post_se(h, &event));
        REFUSED(dat_evd_dequeue(h, &event));
        REFUSED(dat_evd_set_unwaitable(h));
        REFUSED(dat_evd_clear_unwaitable(h));
        REFUSED(dat_evd_free(h));
    }
    if (type != DAT_HANDLE_TYPE_EP) {
        REFUSED(dat_ep_query(h, DAT_EP_FIELD_ALL, &ep_param));
        REFUSED(dat_ep_modify(h, DAT_EP_FIELD_PZ_HANDLE, &ep_param));
        REFUSED(dat_ep_connect(h, NULL, 77, 1, 0, NULL, DAT_QOS_BEST_EFFORT,
                               DAT_CONNECT_DEFAULT_FLAG));
        REFUSED(dat_ep_dup_connect(h, NULL, 1, 0, NULL, DAT_QOS_BEST_EFFORT));
        REFUSED(dat_ep_disconnect(h, DAT_CLOSE_ABRUPT_FLAG));
        REFUSED(dat_ep_post_send(h, 1, &segment, context, DAT_COMPLETION_DEFAULT_FLAG));
        REFUSED(dat_ep_post_send(h, 0, NULL, context, DAT_COMPLETION_DEFAULT_FLAG));
        REFUSED(dat_ep_post_recv(h, 1, &segment, context, DAT_COMPLETION_DEFAULT_FLAG));
        REFUSED(dat_ep_post_rdma_read(h, 1, &segment, context, &target,
                                      DAT_COMPLETION_DEFAULT_FLAG));
        REFUSED(dat_ep_post_rdma_write(h, 1, &segment, context, &target,
                                       DAT_COMPLETION_DEFAULT_FLAG));
        target.segment_length = ~(DAT_VLEN)0;
        REFUSED(dat_ep_post_rdma_write(h, 1, &segment, context, &target,
                                       DAT_COMPLETION_DEFAULT_FLAG));
        REFUSED(dat_ep_post_rdma_write(h, 1, &segment, context, NULL,
                                       DAT_COMPLETION_DEFAULT_FLAG));
        REFUSED(dat_ep_get_status(h, &state, NULL, NULL));
        REFUSED(dat_ep_reset(h));
        REFUSED(dat_ep_recv_query(h, &n, &m));
        REFUSED(dat_ep_set_watermark(h, 1, 1));
        REFUSED(dat_ep_free(h));
    }
    if (type != DAT_HANDLE_TYPE_LMR) {
        REFUSED(dat_lmr_query(h, DAT_LMR_FIELD_ALL, &lmr_param));
        REFUSED(dat_lmr_free(h));
    }
    if (type != DAT_HANDLE_TYPE_RMR) {
        REFUSED(dat_rmr_query(h, DAT_RMR_FIELD_ALL, &rmr_param));
        REFUSED(dat_rmr_bind(h, &segment, DAT_MEM_PRIV_NONE_FLAG, NULL, context,
                             DAT_COMPLETION_DEFAULT_FLAG, &rmr_context));
        REFUSED(dat_rmr_free(h));
    }
    if (type != DAT_HANDLE_TYPE_PSP) {
        REFUSED(dat_psp_query(h, DAT_PSP_FIELD_ALL, &psp_param));
        REFUSED(dat_psp_free(h));
    }
    if (type != DAT_HANDLE_TYPE_RSP) {
        REFUSED(dat_rsp_query(h, DAT_RSP_FIELD_ALL, &rsp_param));
        REFUSED(dat_rsp_free(h));
    }
    if (type != DAT_HANDLE_TYPE_PZ) {
        REFUSED(dat_pz_query(h, DAT_PZ_FIELD_ALL, &pz_param));
        REFUSED(dat_pz_free(h));
        REFUSED(dat_rmr_create(h, &made));
    }
    if (type != DAT_HANDLE_TYPE_SRQ) {
        REFUSED(dat_srq_post_recv(h, 1, &segment, context));
        REFUSED(dat_srq_query(h, DAT_SRQ_FIELD_ALL, &srq_param));
        REFUSED(dat_srq_resize(h, 8));
        REFUSED(dat_srq_set_lw(h, 1));
        REFUSED(dat_srq_free(h));
    }
    return good;
}

static int any_refuses(DAT_HANDLE h)
{
    DAT_CONTEXT context;
    DAT_HANDLE_TYPE type;

    context.as_64 = 0;
    return IS(dat_set_consumer_context(h, context), DAT_INVALID_HANDLE) &&
           IS(dat_get_consumer_context(h, &context), DAT_INVALID_HANDLE) &&
           IS(dat_get_handle_type(h, &type), DAT_INVALID_HANDLE);
}

#if !defined(THROUGH_MACROS) /* the macros reach through any value that they are given */
static void numbers_are_refused(void)
{
    static const size_t numbers[] = {0, 1, 2, 3, 4, 12, 4096, 65536, 65540 - 8, (size_t)-4,
                                     (size_t)1 << 60, ((size_t)1 << 60) + 4};
    unsigned i;

    for (i = 0; i < COUNT(numbers); ++i) {
        CHECK(all_refuse((DAT_HANDLE)numbers[i], -1));
        CHECK(any_refuses((DAT_HANDLE)numbers[i]));
    }
}

static void handles_of_dat2_are_refused(void)
{
    DAT_HANDLE ia = dat2_adapter(adapter);

    CHECK(ia != NULL && dat2_zone() != NULL && dat2_queue() != NULL && dat2_endpoint() != NULL);
    CHECK(all_refuse(ia, -1) && any_refuses(ia));
    CHECK(all_refuse(dat2_zone(), -1) && any_refuses(dat2_zone()));
    CHECK(all_refuse(dat2_queue(), -1) && any_refuses(dat2_queue()));
    CHECK(all_refuse(dat2_endpoint(), -1) && any_refuses(dat2_endpoint()));
    CHECK(dat2_close());
}
#endif

static void other_types_are_refused(void)
{
    struct zoo zoo;
    int type;

    SOUND(open_zoo(&zoo));
    for (type = 0; type < ALL_TYPES; ++type) {
        if (zoo.objects[type] != NULL)
            CHECK(all_refuse(zoo.objects[type], type));
    }
    MUST(dat_ia_close(zoo.ia, DAT_CLOSE_ABRUPT_FLAG));
    for (type = 0; type < ALL_TYPES; ++type) {
        if (zoo.objects[type] == NULL)
            continue;
        CHECK(all_refuse(zoo.objects[type], -1)); /* stale */
        CHECK(any_refuses(zoo.objects[type]));
    }
}

/* Bad handles as second or later arguments: the provider answers. */
static void bad_handles_behind_the_first(void)
{
    struct zoo zoo;
    DAT_HANDLE made, bad[5];
    unsigned i;
    DAT_REGION_DESCRIPTION region;
    static char memory[64];

    SOUND(open_zoo(&zoo));
    bad[0] = (DAT_HANDLE)(size_t)7;
    bad[1] = zoo.ia;
    bad[2] = dat2_adapter(adapter);
    bad[3] = dat2_zone();
    bad[4] = zoo.objects[DAT_HANDLE_TYPE_PSP];
    CHECK(bad[2] != NULL && bad[3] != NULL);
    memset(&region, 0, sizeof region);
    region.for_va = memory;
    for (i = 0; i < COUNT(bad); ++i) {
        CHECK(IS(dat_evd_create(zoo.ia, 8, bad[i], DAT_EVD_DTO_FLAG, &made), DAT_INVALID_HANDLE));
        CHECK(IS(dat_ep_create(zoo.ia, bad[i], NULL, NULL, NULL, NULL, &made), DAT_INVALID_HANDLE));
        CHECK(IS(dat_ep_create(zoo.ia, NULL, bad[i], NULL, NULL, NULL, &made), DAT_INVALID_HANDLE));
        CHECK(IS(dat_lmr_create(zoo.ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof memory, bad[i],
                                DAT_MEM_PRIV_ALL_FLAG, &made, NULL, NULL, NULL, NULL),
                 DAT_INVALID_HANDLE));
        CHECK(IS(dat_psp_create(zoo.ia, 0x70001, bad[i], DAT_PSP_CONSUMER_FLAG, &made),
                 DAT_INVALID_HANDLE));
        CHECK(IS(dat_evd_modify_cno(zoo.objects[DAT_HANDLE_TYPE_EVD], bad[i]), DAT_INVALID_HANDLE));
    }
    CHECK(dat2_close());
    MUST(dat_ia_close(zoo.ia, DAT_CLOSE_ABRUPT_FLAG));
}

static void handles_of_ours_are_refused_by_dat2(void)
{
    struct zoo zoo;
    int type;

    SOUND(open_zoo(&zoo));
    for (type = 0; type < ALL_TYPES; ++type) {
        const char *call = dat2_accepts(zoo.objects[type]);

        if (call != NULL)
            printf("    type %d: %s\n", type, call);
        CHECK(call == NULL);
    }
    CHECK(IS(dat_ia_close(zoo.ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_INVALID_STATE)); /* all there yet */
    MUST(dat_ia_close(zoo.ia, DAT_CLOSE_ABRUPT_FLAG));
}

/* Both in one process, one after the other and mixed. */
static void generations_live_together(void)
{
    struct zoo zoo;
    int i;

    for (i = 0; i < 3; ++i) {
        CHECK(dat2_adapter(adapter) != NULL);
        SOUND(open_zoo(&zoo));
        if (i == 1)
            CHECK(dat2_close());
        MUST(dat_ia_close(zoo.ia, DAT_CLOSE_ABRUPT_FLAG));
        if (i != 1)
            CHECK(dat2_close());
    }
}

static void null_arguments(void)
{
    struct zoo zoo;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_COUNT count;
    DAT_EVENT event;
    DAT_CONTEXT context;

    CHECK(dat_ia_open(NULL, 8, &evd, &zoo.ia) == ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
    CHECK(dat_ia_open((DAT_NAME_PTR)adapter, 8, &evd, NULL) ==
          ERROR_OF(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));
    CHECK(IS(dat_ia_open((DAT_NAME_PTR)adapter, 8, NULL, &zoo.ia), DAT_INVALID_PARAMETER));
    CHECK(IS(dat_ia_open((DAT_NAME_PTR)adapter, -1, &evd, &zoo.ia), DAT_INVALID_PARAMETER));
    CHECK(dat_registry_list_providers(1, NULL, NULL) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    CHECK(dat_registry_list_providers(1, &count, NULL) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    SOUND(open_zoo(&zoo));
    CHECK(dat_pz_create(zoo.ia, NULL) == ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    CHECK(dat_evd_create(zoo.ia, 8, NULL, DAT_EVD_DTO_FLAG, NULL) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG5));
    CHECK(IS(dat_evd_create(zoo.ia, 0, NULL, DAT_EVD_DTO_FLAG, &evd), DAT_INVALID_PARAMETER));
    CHECK(dat_ep_create(zoo.ia, NULL, NULL, NULL, NULL, NULL, NULL) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG7));
    CHECK(dat_evd_dequeue(zoo.objects[DAT_HANDLE_TYPE_EVD], NULL) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    CHECK(IS(dat_evd_post_se(zoo.objects[DAT_HANDLE_TYPE_EVD], NULL), DAT_INVALID_PARAMETER));
    CHECK(dat_evd_wait(zoo.objects[DAT_HANDLE_TYPE_EVD], 0, 1, &event, NULL) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG5));
    CHECK(dat_ep_query(zoo.objects[DAT_HANDLE_TYPE_EP], DAT_EP_FIELD_ALL, NULL) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    CHECK(dat_ep_query(zoo.objects[DAT_HANDLE_TYPE_EP], ~DAT_EP_FIELD_ALL, NULL) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    CHECK(dat_ep_modify(zoo.objects[DAT_HANDLE_TYPE_EP], DAT_EP_FIELD_PZ_HANDLE, NULL) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    context.as_64 = 0;
    CHECK(IS(dat_ep_post_recv(zoo.objects[DAT_HANDLE_TYPE_EP], 1, NULL, context,
                              DAT_COMPLETION_DEFAULT_FLAG),
             DAT_INVALID_PARAMETER));
    CHECK(dat_lmr_query(zoo.objects[DAT_HANDLE_TYPE_LMR], DAT_LMR_FIELD_ALL, NULL) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    CHECK(dat_lmr_query(zoo.objects[DAT_HANDLE_TYPE_LMR], (DAT_LMR_PARAM_MASK)0x400, NULL) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    CHECK(dat_get_handle_type(zoo.ia, NULL) == ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    CHECK(dat_get_consumer_context(zoo.ia, NULL) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    CHECK(dat_ia_query(zoo.ia, NULL, DAT_IA_ALL, NULL, 0, NULL) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4));
    CHECK(dat_ia_query(zoo.ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, NULL) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG6));
    CHECK(dat_ia_query(zoo.ia, NULL, UINT64_C(0x800000000), NULL, 0, NULL) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    CHECK(IS(dat_ia_close(zoo.ia, (DAT_CLOSE_FLAGS)77), DAT_INVALID_PARAMETER));
    MUST(dat_ia_close(zoo.ia, DAT_CLOSE_ABRUPT_FLAG));
}

/* The handle of a freed object is refused, however many come after it. */
static void stale_handles_stay_stale(void)
{
    enum { many = 100 };
    struct zoo zoo;
    DAT_PZ_HANDLE first, zones[many];
    int i;

    SOUND(open_zoo(&zoo));
    MUST(dat_pz_create(zoo.ia, &first));
    MUST(dat_pz_free(first));
    for (i = 0; i < many; ++i) {
        MUST(dat_pz_create(zoo.ia, &zones[i]));
        CHECK(zones[i] != first);
    }
    CHECK(all_refuse(first, -1));
    MUST(dat_ia_close(zoo.ia, DAT_CLOSE_ABRUPT_FLAG));
}

#define RANDOM_CALLS 4000

static unsigned long random_state = 1;

static unsigned below(unsigned limit)
{
    random_state = random_state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(random_state >> 33) % limit;
}

/* What calls are given: mostly the right handle, or else one of another kind, null, a small number, a
   stale one, one of DAT 2.0, or nearly one of ours. */
struct handles {
    struct zoo zoo;
    DAT_HANDLE stale[ALL_TYPES];
    DAT_HANDLE others[4]; /* of DAT 2.0 */
};

static DAT_HANDLE pick(const struct handles *h, int type)
{
    DAT_HANDLE any = h->zoo.objects[below(ALL_TYPES)];

    switch (below(12)) {
    case 0:
        return any;
    case 1:
        return DAT_HANDLE_NULL;
    case 2:
        return (DAT_HANDLE)(size_t)below(65536);
    case 3:
        return h->stale[below(ALL_TYPES)];
    case 4:
#if defined(THROUGH_MACROS)
        return h->stale[below(ALL_TYPES)]; /* theirs have a vector of their own */
#else
        return h->others[below(COUNT(h->others))];
    case 5:
        return any != NULL ? (char *)any + below(8) - 4 : NULL;
#endif
    default:
        return h->zoo.objects[type];
    }
}

/* The macros of the older headers reach through the first handle: it has to be one of ours. */
static DAT_HANDLE pick_first(const struct handles *h, int type)
{
#if defined(THROUGH_MACROS)
    DAT_HANDLE ours = below(2) ? h->zoo.objects[below(ALL_TYPES)] : h->stale[below(ALL_TYPES)];

    if (below(8) || ours == NULL)
        ours = h->zoo.objects[type];
    return ours != NULL ? ours : h->zoo.ia;
#else
    return pick(h, type);
#endif
}

#define PZ DAT_HANDLE_TYPE_PZ
#define EVD DAT_HANDLE_TYPE_EVD
#define EP DAT_HANDLE_TYPE_EP
#define CNO DAT_HANDLE_TYPE_CNO
#define SRQ DAT_HANDLE_TYPE_SRQ
#define LMR DAT_HANDLE_TYPE_LMR
#define RMR DAT_HANDLE_TYPE_RMR

/* One call of DAT 1.2; structures are there or null. */
static DAT_RETURN call_at_random(const struct handles *h)
{
    static char memory[4096];
    static DAT_EP_ATTR ep_attr;
    static DAT_EP_PARAM ep_param;
    static DAT_EVD_PARAM evd_param;
    static DAT_LMR_PARAM lmr_param;
    static DAT_RMR_PARAM rmr_param;
    static DAT_PSP_PARAM psp_param;
    static DAT_SRQ_PARAM srq_param;
    static DAT_SRQ_ATTR srq_attr;
    static DAT_CNO_PARAM cno_param;
    static DAT_EVENT event;
    static DAT_LMR_TRIPLET segments[10]; /* as many as `count` may say */
    static DAT_RMR_TRIPLET target;
    DAT_OS_WAIT_PROXY_AGENT none = DAT_OS_WAIT_PROXY_AGENT_NULL;
    DAT_REGION_DESCRIPTION region;
    DAT_CONTEXT cookie;
    DAT_CONN_QUAL qualifier = 0;
    DAT_HANDLE made;
    DAT_COUNT more, count = (DAT_COUNT)below(12) - 2, qlen = (DAT_COUNT)below(300) - 20;
    const DAT_UINT64 mask = below(4) ? 1u << below(12) : (DAT_UINT64)below(1u << 30) << below(20);
    const int there = below(5) != 0;
    const DAT_COMPLETION_FLAGS flags = (DAT_COMPLETION_FLAGS)(below(3) ? 0 : below(64));
    unsigned i;

    cookie.as_64 = below(1000);
    for (i = 0; i < COUNT(segments); ++i) {
        segments[i].lmr_context = below(100);
        segments[i].virtual_address = (DAT_VADDR)(size_t)memory + below(8192);
        segments[i].segment_length = below(3) ? below(64) : (DAT_VLEN)below(64) << below(60);
    }
    target.rmr_context = below(100);
    target.segment_length = segments[0].segment_length;
    ep_attr.max_recv_dtos = qlen;
    ep_attr.max_request_dtos = (DAT_COUNT)below(100);
    ep_attr.max_message_size = segments[1].segment_length;
    ep_attr.max_recv_iov = ep_attr.max_request_iov = (DAT_COUNT)below(300);
    ep_param.pz_handle = pick(h, PZ);
    ep_param.recv_evd_handle = pick(h, EVD);
    ep_param.srq_handle = pick(h, SRQ);
    srq_attr.max_recv_dtos = qlen;
    srq_attr.max_recv_iov = (DAT_COUNT)below(300);
    event.event_number = DAT_SOFTWARE_EVENT;
    memset(&region, 0, sizeof region);
    if (below(3))
        region.for_va = memory;
    else
        region.for_lmr_handle = pick(h, LMR);

    switch (below(34)) {
    case 0:
        return dat_evd_create(pick_first(h, DAT_HANDLE_TYPE_IA), qlen, pick(h, CNO),
                              (DAT_EVD_FLAGS)below(128), there ? &made : NULL);
    case 1:
        return dat_evd_query(pick_first(h, EVD), (DAT_EVD_PARAM_MASK)mask, there ? &evd_param : NULL);
    case 2:
        return dat_evd_modify_cno(pick_first(h, EVD), pick(h, CNO));
    case 3:
        return dat_evd_resize(pick_first(h, EVD), qlen);
    case 4:
        return dat_evd_post_se(pick_first(h, EVD), there ? &event : NULL);
    case 5:
        return dat_evd_dequeue(pick_first(h, EVD), there ? &event : NULL);
    case 6:
        return dat_evd_wait(pick_first(h, EVD), 0, count, there ? &event : NULL,
                            below(5) ? &more : NULL);
    case 7:
        return below(20) ? dat_evd_set_unwaitable(pick_first(h, EVD)) : dat_evd_free(pick_first(h, EVD));
    case 8:
        return dat_evd_clear_unwaitable(pick_first(h, EVD));
    case 9:
        return dat_ep_create(pick_first(h, DAT_HANDLE_TYPE_IA), pick(h, PZ), pick(h, EVD), pick(h, EVD),
                             pick(h, EVD), there ? &ep_attr : NULL, below(5) ? &made : NULL);
    case 10:
        return dat_ep_create_with_srq(pick_first(h, DAT_HANDLE_TYPE_IA), pick(h, PZ), pick(h, EVD),
                                      pick(h, EVD), pick(h, EVD), pick(h, SRQ), there ? &ep_attr : NULL,
                                      below(5) ? &made : NULL);
    case 11:
        return dat_ep_query(pick_first(h, EP), mask, there ? &ep_param : NULL);
    case 12:
        return dat_ep_modify(pick_first(h, EP), mask, there ? &ep_param : NULL);
    case 13:
        return dat_ep_dup_connect(pick_first(h, EP), pick(h, EP), 1000, 0, NULL, DAT_QOS_BEST_EFFORT);
    case 14:
        return below(20) ? dat_ep_reset(pick_first(h, EP)) : dat_ep_free(pick_first(h, EP));
    case 15:
        return dat_ep_post_send(pick_first(h, EP), count, there ? segments : NULL, cookie, flags);
    case 16:
        return dat_ep_post_recv(pick_first(h, EP), count, there ? segments : NULL, cookie, flags);
    case 17:
        return dat_ep_post_rdma_read(pick_first(h, EP), count, there ? segments : NULL, cookie,
                                     below(5) ? &target : NULL, flags);
    case 18:
        return dat_ep_post_rdma_write(pick_first(h, EP), count, there ? segments : NULL, cookie,
                                      below(5) ? &target : NULL, flags);
    case 19:
        return dat_lmr_create(pick_first(h, DAT_HANDLE_TYPE_IA), (DAT_MEM_TYPE)below(4), region, 64,
                              pick(h, PZ), (DAT_MEM_PRIV_FLAGS)below(128), there ? &made : NULL, NULL,
                              NULL, NULL, NULL);
    case 20:
        return dat_lmr_query(pick_first(h, LMR), (DAT_LMR_PARAM_MASK)mask, there ? &lmr_param : NULL);
    case 21:
        return dat_lmr_sync_rdma_read(pick_first(h, DAT_HANDLE_TYPE_IA), there ? segments : NULL,
                                      below(8));
    case 22:
        return below(10) ? dat_rmr_create(pick_first(h, PZ), there ? &made : NULL)
                         : dat_lmr_free(pick_first(h, LMR));
    case 23:
        return dat_rmr_query(pick_first(h, RMR), (DAT_RMR_PARAM_MASK)mask, there ? &rmr_param : NULL);
    case 24:
        return dat_rmr_bind(pick_first(h, RMR), there ? segments : NULL, DAT_MEM_PRIV_ALL_FLAG,
                            pick(h, EP), cookie, flags, NULL);
    case 25:
        return dat_psp_create_any(pick_first(h, DAT_HANDLE_TYPE_IA), &qualifier, pick(h, EVD),
                                  (DAT_PSP_FLAGS)below(3), there ? &made : NULL);
    case 26:
        return dat_psp_query(pick_first(h, DAT_HANDLE_TYPE_PSP), (DAT_PSP_PARAM_MASK)mask,
                             there ? &psp_param : NULL);
    case 27:
        return dat_rsp_create(pick_first(h, DAT_HANDLE_TYPE_IA), 0x70000 + below(1000), pick(h, EP),
                              pick(h, EVD), there ? &made : NULL);
    case 28:
        return below(10) ? dat_cr_reject(pick_first(h, DAT_HANDLE_TYPE_CR))
                         : dat_psp_free(pick_first(h, DAT_HANDLE_TYPE_PSP));
    case 29:
        return dat_srq_create(pick_first(h, DAT_HANDLE_TYPE_IA), pick(h, PZ), there ? &srq_attr : NULL,
                              below(5) ? &made : NULL);
    case 30:
        return dat_srq_post_recv(pick_first(h, SRQ), count, there ? segments : NULL, cookie);
    case 31:
        return dat_srq_query(pick_first(h, SRQ), (DAT_SRQ_PARAM_MASK)mask, there ? &srq_param : NULL);
    case 32:
        return below(2) ? dat_cno_wait(pick_first(h, CNO), 0, there ? &made : NULL)
                        : dat_cno_modify_agent(pick_first(h, CNO), none);
    default:
        return dat_cno_query(pick_first(h, CNO), (DAT_CNO_PARAM_MASK)mask, there ? &cno_param : NULL);
    }
}

/* All answer one of the codes that DAT 1.2 has, and the adapter closes. */
static void calls_at_random(void)
{
    struct handles h;
    unsigned calls;
    int round;

    for (round = 0; round < 4; ++round) {
        SOUND(open_zoo(&h.zoo));
        memcpy(h.stale, h.zoo.objects, sizeof h.stale);
        MUST(dat_ia_close(h.zoo.ia, DAT_CLOSE_ABRUPT_FLAG));
        CHECK(dat2_adapter(adapter) != NULL);
        h.others[0] = dat2_zone();
        h.others[1] = dat2_queue();
        h.others[2] = dat2_endpoint();
        h.others[3] = DAT_HANDLE_NULL;
        SOUND(open_zoo(&h.zoo));
        h.zoo.objects[DAT_HANDLE_TYPE_CR] = h.stale[DAT_HANDLE_TYPE_PSP]; /* there are none */
        for (calls = 0; calls < RANDOM_CALLS; ++calls) {
            const DAT_RETURN answer = call_at_random(&h);
            const char *major = NULL, *minor = NULL;

            if (dat_strerror(answer, &major, &minor) != DAT_SUCCESS)
                printf("    call %u of round %d: %#lx\n", calls, round, (unsigned long)answer);
            CHECK(major != NULL && dat_strerror(answer, &major, &minor) == DAT_SUCCESS);
        }
        CHECK(dat2_close());
        MUST(dat_ia_close(h.zoo.ia, DAT_CLOSE_ABRUPT_FLAG));
    }
}

static const struct a_case cases[] = {
#if !defined(THROUGH_MACROS)
    {"numbers are refused", numbers_are_refused},
    {"handles of DAT 2.0 are refused", handles_of_dat2_are_refused},
#endif
    {"other types and stale handles are refused", other_types_are_refused},
    {"bad handles behind the first", bad_handles_behind_the_first},
    {"handles of ours are refused by DAT 2.0", handles_of_ours_are_refused_by_dat2},
    {"both generations live in one process", generations_live_together},
    {"null arguments", null_arguments},
    {"stale handles stay stale", stale_handles_stay_stale},
    {"calls at random", calls_at_random}
};

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s ADAPTER [CASE [SEED]]\n", argv[0]);
        return 2;
    }
    adapter = argv[1];
    if (argc > 3)
        random_state = strtoul(argv[3], NULL, 0);
    return run_cases(cases, COUNT(cases), argc > 2 ? argv[2] : NULL);
}
