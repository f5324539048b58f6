#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libfabric 1.17.0-3 (Debian 12), FI_EP_RDM. Two processes exchange 1,000 messages of 64 bytes there and back and poll
# their completion queues, which are opened with FI_WAIT_NONE: nobody can sleep on them. Each counts its
# calls of write(2) and read(2), by /proc/self/io; what the sockets do is sendto() and recvfrom(), which
# do not count there.
# Guess: none of either; fi_cq(3) says of FI_WAIT_NONE that the queue has no wait object.
# Seen: for each message there and back tcp;ofi_rxm writes one byte to a pipe of its own and reads it again, with
# FI_WAIT_NONE as with FI_WAIT_FD, and sockets does so two or three times. net, the successor of both over
# the same TCP, does neither, nor does udp;ofi_rxd.

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
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { address_room = 256, messages = 1000, warm = 10 };

static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;
static char sent[64], received[64];

static void must(const char *call, long result)
{
    if (result < 0) {
        printf("%s: %s\n", call, fi_strerror((int)-result));
        exit(1);
    }
}

static long calls_of(const char *kind)
{
    char name[32], line[64];
    long value, found = -1;
    FILE *counts = fopen("/proc/self/io", "r");
    while (fgets(line, sizeof line, counts) != NULL) {
        if (sscanf(line, "%31[^:]: %ld", name, &value) == 2 && strcmp(name, kind) == 0) {
            found = value;
        }
    }
    fclose(counts);
    return found;
}

static void open_endpoint(const char *provider, enum fi_wait_obj wait)
{
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fi_cq_attr queue = {.size = 256, .format = FI_CQ_FORMAT_MSG, .wait_obj = wait};
    struct fi_av_attr vector = {.type = FI_AV_TABLE};
    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(provider);
    must("fi_getinfo", fi_getinfo(FI_VERSION(1, 11), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
    must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    must("fi_domain", fi_domain(fabric, info, &domain, NULL));
    must("fi_cq_open", fi_cq_open(domain, &queue, &cq, NULL));
    must("fi_av_open", fi_av_open(domain, &vector, &av, NULL));
    must("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
    must("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
    must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV));
    must("fi_enable", fi_enable(ep));
}

static void complete(uint64_t kind, int *sends, int *receives)
{
    struct fi_cq_msg_entry entry;
    while ((kind & FI_SEND ? *sends : *receives) == 0) {
        long read = fi_cq_read(cq, &entry, 1);
        if (read == 1) {
            *sends += (entry.flags & FI_SEND) != 0;
            *receives += (entry.flags & FI_RECV) != 0;
        } else if (read != -FI_EAGAIN) {
            must("fi_cq_read", read);
        }
    }
}

static void exchange(fi_addr_t peer, int begins, long count)
{
    static int sends, receives;
    for (long k = 0; k < 2 * count; ++k) {
        if ((k % 2 == 0) == begins) {
            long result;
            while ((result = fi_send(ep, sent, sizeof sent, NULL, peer, NULL)) == -FI_EAGAIN) {
                fi_cq_read(cq, NULL, 0);
            }
            must("fi_send", result);
            complete(FI_SEND, &sends, &receives);
            --sends;
        } else {
            complete(FI_RECV, &sends, &receives);
            --receives;
            must("fi_recv", fi_recv(ep, received, sizeof received, NULL, FI_ADDR_UNSPEC, NULL));
        }
    }
}

static const char *times(long calls)
{
    return calls < messages / 10 ? "none" : calls < 9 * messages / 10 ? "some" : "one or more";
}

int main(int argc, char **argv)
{
    char address[address_room] = {0};
    size_t length = sizeof address;
    int there[2], back[2];
    fi_addr_t peer;
    alarm(60);
    if (argc != 3 || pipe(there) != 0 || pipe(back) != 0) {
        return 1;
    }
    int begins = fork() != 0;
    alarm(60);
    open_endpoint(argv[1], strcmp(argv[2], "FI_WAIT_FD") == 0 ? FI_WAIT_FD : FI_WAIT_NONE);
    must("fi_recv", fi_recv(ep, received, sizeof received, NULL, FI_ADDR_UNSPEC, NULL));
    must("fi_getname", fi_getname(&ep->fid, address, &length));
    must("write", write((begins ? there : back)[1], address, sizeof address));
    must("read", read((begins ? back : there)[0], address, sizeof address));
    if (fi_av_insert(av, address, 1, &peer, 0, NULL) != 1) {
        return 1;
    }
    exchange(peer, begins, warm);
    long writes = calls_of("syscw"), reads = calls_of("syscr");
    exchange(peer, begins, messages);
    writes = calls_of("syscw") - writes;
    reads = calls_of("syscr") - reads;
    if (!begins) {
        return 0;
    }
    printf("%s, %s: for a message there and back, writes: %s, reads: %s\n", argv[1], argv[2], times(writes),
           times(reads));
    wait(NULL);
    return 0;
}
C
cc -I usr/include -o probe probe.c -L "$libraries" -Wl,-rpath-link,"$LD_LIBRARY_PATH" -lfabric
for provider in "tcp;ofi_rxm" net "udp;ofi_rxd" sockets; do
    for wait in FI_WAIT_NONE FI_WAIT_FD; do
        ./probe "$provider" "$wait"
    done
done | tee output
diff - output <<'SEEN'
tcp;ofi_rxm, FI_WAIT_NONE: for a message there and back, writes: one or more, reads: one or more
tcp;ofi_rxm, FI_WAIT_FD: for a message there and back, writes: one or more, reads: one or more
net, FI_WAIT_NONE: for a message there and back, writes: none, reads: none
net, FI_WAIT_FD: for a message there and back, writes: none, reads: none
udp;ofi_rxd, FI_WAIT_NONE: for a message there and back, writes: none, reads: none
udp;ofi_rxd, FI_WAIT_FD: for a message there and back, writes: none, reads: none
sockets, FI_WAIT_NONE: for a message there and back, writes: one or more, reads: one or more
sockets, FI_WAIT_FD: for a message there and back, writes: one or more, reads: one or more
SEEN
echo "as seen before"
