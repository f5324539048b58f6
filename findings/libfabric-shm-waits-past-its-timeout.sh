#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libfabric 1.17.0-3 (Debian 12), provider shm. fi_cq_sread() with a timeout of half a second, on a CQ opened
# with FI_WAIT_UNSPEC or FI_WAIT_YIELD, the only wait objects of that provider, while nothing arrives.
# Guess: what fi_cq(3) says of it: "if the timeout expires", it returns -FI_EAGAIN.
# Seen: it has no timeout. It waits until something comes: here the fi_cq_signal()
# of another thread after five seconds. tcp;ofi_rxm keeps to its half second. So a program that looks at a
# flag of its own between timed reads, say to end, does so no more once it runs over shm. 2.1.0 keeps to it.

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
export LD_LIBRARY_PATH=$libraries:$PWD/lib/x86_64-linux-gnu

cat >probe.c <<'C'
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *provider;
static struct fi_info *info;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_cq *cq;

static void must(const char *call, long result)
{
    if (result < 0) {
        printf("%s, %s: %s\n", provider, call, fi_strerror((int)-result));
        exit(1);
    }
}

static void open_domain(void)
{
    struct fid_fabric *fabric;
    struct fi_info *hints = fi_allocinfo();
    int is_shm = strcmp(provider, "shm") == 0;
    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(provider);
    must("fi_getinfo", fi_getinfo(FI_VERSION(1, 11), is_shm ? NULL : "127.0.0.1", NULL,
                                  is_shm ? 0 : FI_SOURCE, hints, &info));
    must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    must("fi_domain", fi_domain(fabric, info, &domain, NULL));
}

static void open_endpoint(enum fi_wait_obj wait)
{
    struct fi_cq_attr queue = {.size = 256, .format = FI_CQ_FORMAT_MSG, .wait_obj = wait};
    struct fi_av_attr vector = {.type = FI_AV_TABLE};
    struct fid_av *av;
    open_domain();
    must("fi_cq_open", fi_cq_open(domain, &queue, &cq, NULL));
    must("fi_av_open", fi_av_open(domain, &vector, &av, NULL));
    must("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
    must("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
    must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV));
    must("fi_enable", fi_enable(ep));
}

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void *signal_later(void *unused)
{
    sleep(5);
    fi_cq_signal(cq);
    return unused;
}

int main(int argc, char **argv)
{
    struct fi_cq_msg_entry entry;
    pthread_t thread;
    provider = argv[1];
    int yields = strcmp(argv[argc - 1], "yield") == 0;
    alarm(100);
    open_endpoint(yields ? FI_WAIT_YIELD : FI_WAIT_UNSPEC);
    pthread_create(&thread, NULL, signal_later, NULL);
    double begin = now(CLOCK_MONOTONIC);
    int result = (int)-fi_cq_sread(cq, &entry, 1, NULL, 500);
    printf("%s%s: %s, %s\n", provider, yields ? ", FI_WAIT_YIELD" : "", fi_strerror(result),
           now(CLOCK_MONOTONIC) - begin < 4 ? "by its timeout" : "by the signal");
    fi_close(&ep->fid);
    return 0;
}
C
cc -I usr/include -o probe probe.c -L "$libraries" -Wl,-rpath-link,"$LD_LIBRARY_PATH" -lfabric -lpthread
{
    ./probe "tcp;ofi_rxm"
    ./probe shm
    ./probe shm yield
} | tee output
diff - output <<'SEEN'
tcp;ofi_rxm: Resource temporarily unavailable, by its timeout
shm: Resource temporarily unavailable, by the signal
shm, FI_WAIT_YIELD: Resource temporarily unavailable, by the signal
SEEN
echo "as seen before"
