#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libfabric 1.17.0-3 (Debian 12). Two threads sleep in fi_cq_sread() on one CQ; fi_cq_signal() is called once.
# Guess: what fi_cq(3) says of it: it "will unblock any thread waiting", that is both, and nobody later.
# Seen: over each provider one thread comes back and the other sleeps on. Where nobody waits, the signal is
# kept, as by a semaphore, and the next fi_cq_sread() comes back at once with FI_EAGAIN (sockets:
# FI_ECANCELED), long before its timeout. So a program that ends its readers by one signal waits for the
# last of them for ever: it has to signal each. 2.1.0 behaves alike.

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

static volatile int awake;
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

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void *wait_long(void *unused)
{
    struct fi_cq_msg_entry entry;
    fi_cq_sread(cq, &entry, 1, NULL, 60000);
    __sync_fetch_and_add(&awake, 1);
    return unused;
}

int main(int argc, char **argv)
{
    struct fi_cq_msg_entry entry;
    pthread_t threads[2];
    provider = argv[argc - 1];
    alarm(100);
    open_endpoint(FI_WAIT_UNSPEC);
    for (int k = 0; k < 2; ++k) {
        pthread_create(&threads[k], NULL, wait_long, NULL);
    }
    sleep(2);
    must("fi_cq_signal", fi_cq_signal(cq));
    sleep(3);
    printf("%s: of two sleepers, one signal has woken %d, ", provider, awake);
    must("fi_cq_signal", fi_cq_signal(cq));
    sleep(3);
    printf("a second one %d; ", awake);
    for (int k = 0; k < 2; ++k) {
        pthread_join(threads[k], NULL);
    }
    must("fi_cq_signal", fi_cq_signal(cq));
    sleep(1);
    double begin = now();
    int result = (int)-fi_cq_sread(cq, &entry, 1, NULL, 20000);
    printf("a later sleep of 20 s: %s, %s\n", fi_strerror(result),
           now() - begin < 10 ? "cut short" : "whole");
    return 0;
}
C
cc -I usr/include -o probe probe.c -L "$libraries" -Wl,-rpath-link,"$LD_LIBRARY_PATH" -lfabric -lpthread
for provider in net "tcp;ofi_rxm" "udp;ofi_rxd" shm sockets; do
    ./probe "$provider" >"output of $provider" &
done
wait
cat "output of "* | tee output
diff - output <<'SEEN'
net: of two sleepers, one signal has woken 1, a second one 2; a later sleep of 20 s: Resource temporarily unavailable, cut short
shm: of two sleepers, one signal has woken 1, a second one 2; a later sleep of 20 s: Resource temporarily unavailable, cut short
sockets: of two sleepers, one signal has woken 1, a second one 2; a later sleep of 20 s: Operation canceled, cut short
tcp;ofi_rxm: of two sleepers, one signal has woken 1, a second one 2; a later sleep of 20 s: Resource temporarily unavailable, cut short
udp;ofi_rxd: of two sleepers, one signal has woken 1, a second one 2; a later sleep of 20 s: Resource temporarily unavailable, cut short
SEEN
echo "as seen before"
