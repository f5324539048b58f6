#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libfabric 1.17.0-3 (Debian 12). fi_cntr_wait() for a success that does not come, on a counter whose error
# value has risen before the call, or during it: so a program waits for transfers of which one has failed.
# Guess: what fi_cntr(3) says: it waits "until the counter reaches the specified threshold, or until an error
# or timeout occurs", so that it answers -FI_EAVAIL at once, or as soon as the error comes.
# Seen: over tcp;ofi_rxm, net and udp;ofi_rxd it does not look at an error that was there before: it waits for
# its whole timeout. Whether it tells of a failed transfer hangs on who was first,
# so read fi_cntr_readerr() around short waits. sockets answers at once; but without an error it does not
# wait at all, and says FI_ETIMEDOUT at once (2.1.0 does wait).

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
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct fid_cntr *counter;
static const char *provider;
static struct fi_info *info;
static struct fid_domain *domain;

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

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void *fail_later(void *unused)
{
    sleep(1);
    fi_cntr_adderr(counter, 1);
    return unused;
}

static void wait_for_one(const char *when)
{
    double begin = now();
    int result = (int)-fi_cntr_wait(counter, 1, 4000);
    double took = now() - begin;
    printf("%s, %s: %s %s\n", provider, when, fi_strerror(result),
           took < 0.8   ? "at once"
           : took < 3.9 ? "before the timeout"
                        : "after the timeout");
}

int main(int argc, char **argv)
{
    struct fi_cntr_attr attributes = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
    pthread_t thread;
    provider = argv[argc - 1];
    open_domain();
    must("fi_cntr_open", fi_cntr_open(domain, &attributes, &counter, NULL));
    wait_for_one("no error");
    pthread_create(&thread, NULL, fail_later, NULL);
    wait_for_one("an error during the wait");
    pthread_join(thread, NULL);
    wait_for_one("an error before the wait");
    return 0;
}
C
cc -I usr/include -o probe probe.c -L "$libraries" -Wl,-rpath-link,"$LD_LIBRARY_PATH" -lfabric -lpthread
for provider in net "tcp;ofi_rxm" "udp;ofi_rxd" sockets; do
    ./probe "$provider" >"output of $provider" &
done
wait
cat "output of "* | tee output
diff - output <<'SEEN'
net, no error: Connection timed out after the timeout
net, an error during the wait: Error available before the timeout
net, an error before the wait: Connection timed out after the timeout
sockets, no error: Connection timed out at once
sockets, an error during the wait: Connection timed out at once
sockets, an error before the wait: Error available at once
tcp;ofi_rxm, no error: Connection timed out after the timeout
tcp;ofi_rxm, an error during the wait: Error available before the timeout
tcp;ofi_rxm, an error before the wait: Connection timed out after the timeout
udp;ofi_rxd, no error: Connection timed out after the timeout
udp;ofi_rxd, an error during the wait: Error available before the timeout
udp;ofi_rxd, an error before the wait: Connection timed out after the timeout
SEEN
echo "as seen before"
