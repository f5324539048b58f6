#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libfabric 1.17.0-3 (Debian 12), provider tcp, FI_EP_MSG. A peer sends a message, for which no receive
# is posted yet, and an RDMA write behind it.
# Guess: what fi_poll(3) says of fi_trywait(): once it returns 0, a program may sleep on the descriptor
# of its CQ, since whatever has still to be moved makes that readable.
# Seen: fi_trywait() looks for data that the provider holds *before* it reads the socket itself. The
# first call takes message and write from the socket, finds no receive, and returns 0. The socket is
# empty now: when the receive is posted, the descriptor stays silent and the write stays away. Had the
# program asked a second time, it would have been told -FI_EAGAIN. fi_cq_read() moves both.
# So a program that sleeps beside posted receives has to read its CQ once after each of them.

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
#include <poll.h>
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

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static char region_bytes[64], inbox[8];

static long ok(long result, const char *call)
{
    if (result < 0) {
        printf("%s: %s\n", call, fi_strerror((int)-result));
        exit(1);
    }
    return result;
}
#define OK(call) ok(call, #call)

struct side {
    struct fid_eq *eq;
    struct fid_cq *sends, *receives;
    struct fid_ep *ep;
};

static struct fid_cq *new_cq(void)
{
    struct fi_cq_attr how = {.size = 16, .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD};
    struct fid_cq *cq;
    OK(fi_cq_open(domain, &how, &cq, NULL));
    return cq;
}

static struct fid_eq *new_eq(void)
{
    struct fi_eq_attr how = {.wait_obj = FI_WAIT_FD};
    struct fid_eq *eq;
    OK(fi_eq_open(fabric, &how, &eq, NULL));
    return eq;
}

static struct side new_side(struct fi_info *info)
{
    struct side made = {.eq = new_eq(), .sends = new_cq(), .receives = new_cq()};
    OK(fi_endpoint(domain, info, &made.ep, NULL));
    OK(fi_ep_bind(made.ep, &made.eq->fid, 0));
    OK(fi_ep_bind(made.ep, &made.sends->fid, FI_TRANSMIT));
    OK(fi_ep_bind(made.ep, &made.receives->fid, FI_RECV));
    OK(fi_enable(made.ep));
    return made;
}

/* Reads both event queues until `of` has something. */
static void next_event(struct fid_eq *of, struct fid_eq *other, struct fi_eq_cm_entry *entry)
{
    struct fi_eq_cm_entry left_alone;
    uint32_t event;
    while (fi_eq_read(of, &event, entry, sizeof *entry, 0) <= 0) {
        fi_eq_read(other, &event, &left_alone, 0, FI_PEEK);
        usleep(1000);
    }
}

static const char *told(long trywait)
{
    return trywait == 0 ? "0" : trywait == -FI_EAGAIN ? "-FI_EAGAIN" : "something else";
}

static void show(int fd)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};
    const int readable = poll(&look, 1, 1000) != 0;
    printf("the descriptor is %s, the memory %s\n", readable ? "readable" : "silent for a second",
           region_bytes[0] != '\0' ? "written" : "as before");
}

int main(void)
{
    alarm(60);
    struct fi_info *hints = fi_allocinfo(), *info;
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_MSG;
    hints->fabric_attr->prov_name = strdup("tcp");
    OK(fi_getinfo(FI_VERSION(1, 11), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
    OK(fi_fabric(info->fabric_attr, &fabric, NULL));
    OK(fi_domain(fabric, info, &domain, NULL));
    struct fid_mr *region;
    OK(fi_mr_reg(domain, region_bytes, sizeof region_bytes, FI_REMOTE_WRITE, 0, 5, 0, &region, NULL));

    struct fid_pep *listener;
    struct fid_eq *requests = new_eq();
    struct sockaddr_in address;
    size_t size = sizeof address;
    OK(fi_passive_ep(fabric, info, &listener, NULL));
    OK(fi_pep_bind(listener, &requests->fid, 0));
    OK(fi_listen(listener));
    OK(fi_getname(&listener->fid, &address, &size));
    struct side peer = new_side(info);
    OK(fi_connect(peer.ep, &address, NULL, 0));
    struct fi_eq_cm_entry entry;
    next_event(requests, peer.eq, &entry);
    struct side here = new_side(entry.info);
    OK(fi_accept(here.ep, NULL, 0));
    next_event(peer.eq, here.eq, &entry);
    next_event(here.eq, peer.eq, &entry);

    static char message[8] = "message", data[64] = "written";
    OK(fi_send(peer.ep, message, sizeof message, NULL, 0, NULL));
    OK(fi_write(peer.ep, data, sizeof data, NULL, 0, 0, 5, NULL));
    struct fi_cq_data_entry done;
    for (int sent = 0; sent < 2;)
        sent += fi_cq_read(peer.sends, &done, 1) == 1;
    usleep(100000);

    struct fid *watched = &here.receives->fid;
    int fd;
    OK(fi_control(watched, FI_GETWAIT, &fd));
    printf("fi_trywait: %s\n", told(fi_trywait(fabric, &watched, 1)));
    OK(fi_recv(here.ep, inbox, sizeof inbox, NULL, 0, NULL));
    printf("a receive is posted: ");
    show(fd);
    printf("fi_trywait: %s\n", told(fi_trywait(fabric, &watched, 1)));
    while (fi_cq_read(here.receives, &done, 1) != 1)
        usleep(1000);
    printf("fi_cq_read: the message \"%s\", the memory %s\n", inbox,
           region_bytes[0] != '\0' ? "written" : "as before");
    return 0;
}
C
cc -I usr/include -o probe probe.c -L "$libraries" -Wl,-rpath-link,"$LD_LIBRARY_PATH" -lfabric
./probe | tee output
diff - output <<'SEEN'
fi_trywait: 0
a receive is posted: the descriptor is silent for a second, the memory as before
fi_trywait: -FI_EAGAIN
fi_cq_read: the message "message", the memory written
SEEN
echo "as seen before"
