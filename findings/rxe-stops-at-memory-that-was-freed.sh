#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# rdma_rxe of linux-image-6.1.0-56-amd64 6.1.192-2 (Debian 12). A send without a receive, and a request
# behind it, whose region is deregistered while rxe repeats both, "receiver not ready". Then the peer
# posts the receive.
# Guess: the send completes, and the request fails with "local protection error".
# Seen: neither completes, and nothing is sent any more, while the queue pair says RTS. It lasts
# until ibv_modify_qp to ERR, which brings both back flushed. An RDMA read ends as guessed, for its memory
# is not looked at before the data come. With 7.2.13 of Debian sid both come back flushed at once, the
# queue pair says ERR, and there is no event.
#
# Runs in the machine of the source tree:
#   tools/vm/run-in-vm -- findings/rxe-stops-at-memory-that-was-freed.sh

set -euo pipefail
if [[ $(uname -r) != 6.1.* || ! -e /sys/class/infiniband/rxe0 ]]; then
    echo "skipped: needs Linux 6.1 with an rxe0"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >probe.c <<'C'
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { gid_index = 1, size = 30000, state_mask = IBV_QP_STATE };

static void *need(void *object, const char *call)
{
    if (object == NULL) {
        perror(call);
        exit(1);
    }
    return object;
}

static void done(int error, const char *call)
{
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", call, strerror(error));
        exit(1);
    }
}

static struct ibv_qp *queue_pair(struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr wanted = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                      .cap = {4, 4, 1, 1, 0}, .sq_sig_all = 1};
    return need(ibv_create_qp(pd, &wanted), "ibv_create_qp");
}

static void connect_to(struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid)
{
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
                              .dest_qp_num = peer, .max_dest_rd_atomic = 1, .min_rnr_timer = 12};
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 17, .retry_cnt = 7,
                              .rnr_retry = 7, .max_rd_atomic = 1};
    rtr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1,
        .grh = {.dgid = *gid, .sgid_index = gid_index, .hop_limit = 64}};
    done(ibv_modify_qp(qp, &init, state_mask | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                      IBV_QP_ACCESS_FLAGS), "ibv_modify_qp to INIT");
    done(ibv_modify_qp(qp, &rtr, state_mask | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                     IBV_QP_MIN_RNR_TIMER), "ibv_modify_qp to RTR");
    done(ibv_modify_qp(qp, &rts, state_mask | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
         "ibv_modify_qp to RTS");
}

static void completions(const char *when, struct ibv_cq *cq, unsigned seconds)
{
    struct ibv_wc wc;
    int count = 0;
    for (unsigned tries = 0; count < 2 && tries < seconds * 1000; ++tries, usleep(1000))
        while (ibv_poll_cq(cq, 1, &wc) > 0) {
            ++count;
            printf("%s: %s, %s\n", when, wc.wr_id == 1 ? "send" : "request",
                   ibv_wc_status_str(wc.status));
        }
    printf("%s: %d completions\n", when, count);
}

static void run(struct ibv_context *device, enum ibv_wr_opcode opcode, const char *name)
{
    union ibv_gid gid;
    done(ibv_query_gid(device, 1, gid_index, &gid), "ibv_query_gid");
    struct ibv_pd *pd = need(ibv_alloc_pd(device), "ibv_alloc_pd");
    struct ibv_cq *ours = need(ibv_create_cq(device, 8, NULL, NULL, 0), "ibv_create_cq");
    struct ibv_cq *theirs = need(ibv_create_cq(device, 8, NULL, NULL, 0), "ibv_create_cq");
    struct ibv_qp *qp = queue_pair(pd, ours);
    struct ibv_qp *peer = queue_pair(pd, theirs);
    connect_to(qp, peer->qp_num, &gid);
    connect_to(peer, qp->qp_num, &gid);

    const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    static char kept[64], gone[size], there[size];
    struct ibv_mr *kept_mr = need(ibv_reg_mr(pd, kept, sizeof kept, all), "ibv_reg_mr");
    struct ibv_mr *gone_mr = need(ibv_reg_mr(pd, gone, sizeof gone, all), "ibv_reg_mr");
    struct ibv_mr *there_mr = need(ibv_reg_mr(pd, there, sizeof there, all), "ibv_reg_mr");
    struct ibv_sge from[] = {{(uintptr_t)kept, sizeof kept, kept_mr->lkey},
                             {(uintptr_t)gone, sizeof gone, gone_mr->lkey}};
    struct ibv_sge to = {(uintptr_t)there, sizeof there, there_mr->lkey};
    struct ibv_send_wr send = {.wr_id = 1, .sg_list = &from[0], .num_sge = 1,
                               .opcode = IBV_WR_SEND};
    struct ibv_send_wr request = {.wr_id = 2, .sg_list = &from[1], .num_sge = 1, .opcode = opcode,
                                  .wr.rdma = {(uintptr_t)there, there_mr->rkey}};
    struct ibv_recv_wr receive = {.sg_list = &to, .num_sge = 1};
    struct ibv_send_wr *bad_send;
    struct ibv_recv_wr *bad_receive;
    done(ibv_post_send(qp, &send, &bad_send), "ibv_post_send");
    done(ibv_post_send(qp, &request, &bad_send), "ibv_post_send");
    done(ibv_dereg_mr(gone_mr), "ibv_dereg_mr");
    usleep(100000); // some repetitions, 0.64 ms apart
    done(ibv_post_recv(peer, &receive, &bad_receive), "ibv_post_recv");
    completions(name, ours, 5);

    struct ibv_qp_attr now, error = {.qp_state = IBV_QPS_ERR};
    struct ibv_qp_init_attr unused;
    done(ibv_query_qp(qp, &now, state_mask, &unused), "ibv_query_qp");
    printf("%s: the queue pair is in %s\n", name, now.qp_state == IBV_QPS_RTS ? "RTS" : "ERR");
    if (now.qp_state == IBV_QPS_RTS) {
        done(ibv_modify_qp(qp, &error, state_mask), "ibv_modify_qp to ERR");
        completions("after ERR", ours, 5);
    }
    ibv_destroy_qp(qp);
    ibv_destroy_qp(peer);
}

int main(void)
{
    struct ibv_device **list = need(ibv_get_device_list(NULL), "ibv_get_device_list");
    while (*list != NULL && strcmp(ibv_get_device_name(*list), "rxe0") != 0)
        ++list;
    struct ibv_context *device = need(*list == NULL ? NULL : ibv_open_device(*list), "rxe0");
    run(device, IBV_WR_RDMA_READ, "read");
    run(device, IBV_WR_RDMA_WRITE, "write");
    return 0;
}
C
cc -o probe probe.c -libverbs
./probe | tee output
diff - output <<'SEEN'
read: send, success
read: request, local protection error
read: 2 completions
read: the queue pair is in ERR
write: 0 completions
write: the queue pair is in RTS
after ERR: send, Work Request Flushed Error
after ERR: request, Work Request Flushed Error
after ERR: 2 completions
SEEN
echo "as seen before"
