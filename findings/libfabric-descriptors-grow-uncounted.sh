#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libfabric 1.17.0-3 (Debian 12), provider tcp. What a CQ opened with FI_WAIT_POLLFD lists by FI_GETWAIT.
# Guess: what fi_poll(3) says: any time a descriptor is added, change_index is incremented, so that a
# program that has the list of that index need not fetch the list again.
# Seen: one descriptor after fi_cq_open(), two after the first fi_cq_read(), and change_index is 1 both
# times. A program that fetches the list when it has opened the CQ, and again when the index differs,
# never watches the second one, by which the provider wakes readers. 2.1.0 lists one, with index 2.

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
#include <poll.h>

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

static void show(struct fid_cq *cq, const char *when)
{
    struct pollfd descriptors[16];
    struct fi_wait_pollfd list = {.nfds = 16, .fd = descriptors};
    must("FI_GETWAIT", fi_control(&cq->fid, FI_GETWAIT, &list));
    printf("%s: %zu, change_index %llu\n", when, list.nfds, (unsigned long long)list.change_index);
}

int main(void)
{
    open_domain();
    struct fi_cq_attr attributes = {
        .size = 64, .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_POLLFD};
    struct fid_cq *cq;
    struct fi_cq_data_entry entry;
    must("fi_cq_open", fi_cq_open(domain, &attributes, &cq, NULL));
    show(cq, "after fi_cq_open");
    show(cq, "looked at again");
    fi_cq_read(cq, &entry, 1);
    show(cq, "after fi_cq_read");
    return 0;
}
C
cc -I usr/include -o probe probe.c -L "$libraries" -Wl,-rpath-link,"$LD_LIBRARY_PATH" -lfabric
./probe | tee output
diff - output <<'SEEN'
after fi_cq_open: 1, change_index 1
looked at again: 1, change_index 1
after fi_cq_read: 2, change_index 1
SEEN
echo "as seen before"
