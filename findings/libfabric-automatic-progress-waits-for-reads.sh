#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libfabric 1.17.0-3 (Debian 12), provider tcp, FI_EP_MSG, between two processes. fi_getinfo() says
# FI_PROGRESS_AUTO for control and data, unasked.
# Guess: what fi_domain(3) says of it: operations go on "without further intervention by the application".
# Seen: nothing goes on. A listener that reads its EQ gets a request not before the *caller* has read its
# own. An RDMA write of 64 bytes is completed at the source, and the target's memory stays as it was
# until the target reads its CQ. So a program that calls fi_connect() and does other work, or that
# watches its memory, needs a thread that reads. 2.1.0 behaves alike.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root libfabric1=1.17.0-3 libfabric-dev=1.17.0-3 \
    ibverbs-providers=44.0-2 libibverbs1=44.0-2 librdmacm1=44.0-2 libpsm2-2=11.2.185-2 \
    libpsm-infinipath1=3.3+20.604758e7-6.2 libnl-3-200=3.7.0-0.2+b1 libnl-route-3-200=3.7.0-0.2+b1 \
    libnuma1=2.0.16-1
for package in ./*.deb; do dpkg -x "$package" .; done
libraries=$PWD/usr/lib/x86_64-linux-gnu
ln -s "$PWD/usr/lib/libpsm1/libpsm_infinipath.so.1.16" "$libraries/libpsm_infinipath.so.1"
export LD_LIBRARY_PATH=$libraries:$PWD/lib/x86_64-linux-gnu FI_PROVIDER=tcp

cat >probe.c <<'C'
#include <arpa/inet.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;

static void must(const char *call, long result)
{
    if (result < 0) {
        printf("%s: %s\n", call, fi_strerror((int)-result));
        exit(1);
    }
}

static void open_domain(void)
{
    struct fi_info *hints = fi_allocinfo();
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_MSG;
    hints->fabric_attr->prov_name = strdup("tcp");
    must("fi_getinfo", fi_getinfo(FI_VERSION(1, 11), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
    must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    must("fi_domain", fi_domain(fabric, info, &domain, NULL));
    fi_freeinfo(hints);
}

static struct fid_eq *open_eq(void)
{
    struct fi_eq_attr attributes = {.wait_obj = FI_WAIT_FD};
    struct fid_eq *eq;
    must("fi_eq_open", fi_eq_open(fabric, &attributes, &eq, NULL));
    return eq;
}

static struct fid_cq *open_cq(void)
{
    struct fi_cq_attr attributes = {.size = 64, .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD};
    struct fid_cq *cq;
    must("fi_cq_open", fi_cq_open(domain, &attributes, &cq, NULL));
    return cq;
}

static struct fid_ep *open_ep(struct fi_info *of, struct fid_eq *eq, struct fid_cq *cq)
{
    struct fid_ep *ep;
    must("fi_endpoint", fi_endpoint(domain, of, &ep, NULL));
    must("fi_ep_bind", fi_ep_bind(ep, &eq->fid, 0));
    must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV));
    must("fi_enable", fi_enable(ep));
    return ep;
}

static struct fid_pep *listen_at(struct fid_eq *eq, struct sockaddr_in *address)
{
    size_t length = sizeof *address;
    struct fid_pep *pep;
    must("fi_passive_ep", fi_passive_ep(fabric, info, &pep, NULL));
    must("fi_pep_bind", fi_pep_bind(pep, &eq->fid, 0));
    must("fi_listen", fi_listen(pep));
    must("fi_getname", fi_getname(&pep->fid, address, &length));
    return pep;
}

struct shared {
    char sink[64];
    struct sockaddr_in address;
    volatile int step; /* what the target may do */
    volatile int done; /* what the target has done */
};
static struct shared *shared;

static void await(volatile int *what, int value)
{
    while (*what < value) {
        usleep(1000);
    }
}

static void run_target(void)
{
    open_domain();
    struct fi_eq_cm_entry entry;
    struct fi_cq_data_entry completion;
    struct fid_mr *region;
    uint32_t event;
    struct fid_eq *listener = open_eq(), *eq = open_eq();
    struct fid_cq *cq = open_cq();
    listen_at(listener, &shared->address);
    must("fi_mr_reg", fi_mr_reg(domain, shared->sink, sizeof shared->sink, FI_REMOTE_WRITE, 0, 7, 0,
                                &region, NULL));
    shared->done = 1;
    await(&shared->step, 1);
    for (int k = 0; k < 100; ++k) { /* one second */
        if (fi_eq_read(listener, &event, &entry, sizeof entry, 0) > 0) {
            printf("a request came by itself\n");
            exit(1);
        }
        usleep(10000);
    }
    printf("one second after fi_connect: the listener has no request\n");
    fflush(stdout);
    shared->done = 2;
    while (fi_eq_read(listener, &event, &entry, sizeof entry, 0) <= 0) {
        usleep(1000);
    }
    printf("since the caller reads its EQ: it has\n");
    fflush(stdout);
    struct fid_ep *ep = open_ep(entry.info, eq, cq);
    must("fi_accept", fi_accept(ep, NULL, 0));
    while (fi_eq_read(eq, &event, &entry, sizeof entry, 0) <= 0) {
        usleep(1000);
    }
    shared->done = 3;
    await(&shared->step, 4);
    while (shared->sink[0] == '\0') {
        fi_cq_read(cq, &completion, 1);
        usleep(1000);
    }
    shared->done = 4;
    await(&shared->step, 5);
    exit(0);
}

int main(void)
{
    alarm(60);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fork() == 0) {
        alarm(60);
        run_target();
    }
    open_domain();
    printf("progress of control: %s, of data: %s\n",
           info->domain_attr->control_progress == FI_PROGRESS_AUTO ? "automatic" : "manual",
           info->domain_attr->data_progress == FI_PROGRESS_AUTO ? "automatic" : "manual");
    fflush(stdout);
    static char source[64] = "new";
    struct fi_eq_cm_entry entry;
    struct fi_cq_data_entry completion;
    uint32_t event;
    struct fid_eq *eq = open_eq();
    struct fid_cq *cq = open_cq();
    struct fid_ep *ep = open_ep(info, eq, cq);
    await(&shared->done, 1);
    must("fi_connect", fi_connect(ep, &shared->address, NULL, 0));
    shared->step = 1;
    await(&shared->done, 2);
    while (fi_eq_read(eq, &event, &entry, sizeof entry, 0) <= 0) {
        usleep(1000);
    }
    await(&shared->done, 3);
    must("fi_write", fi_write(ep, source, sizeof source, NULL, 0, 0, 7, NULL));
    while (fi_cq_read(cq, &completion, 1) != 1) {
        usleep(1000);
    }
    sleep(1);
    printf("one second after the write's completion: the target's memory is %s\n",
           shared->sink[0] == '\0' ? "as before" : "written");
    shared->step = 4;
    await(&shared->done, 4);
    printf("since the target reads its CQ: it is written\n");
    shared->step = 5;
    wait(NULL);
    return 0;
}
C
cc -I usr/include -o probe probe.c -L "$libraries" -Wl,-rpath-link,"$LD_LIBRARY_PATH" -lfabric
./probe | tee output
diff - output <<'SEEN'
progress of control: automatic, of data: automatic
one second after fi_connect: the listener has no request
since the caller reads its EQ: it has
one second after the write's completion: the target's memory is as before
since the target reads its CQ: it is written
SEEN
echo "as seen before"
