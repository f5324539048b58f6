#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libfabric 1.17.0-3 (Debian 12), FI_EP_RDM. What a sender learns of a peer that is not there, and of one that
# was killed after its first message. fi_msg(3) says of -FI_EAGAIN that resources are lacking for now, and
# fi_cq(3) that what fails gives an error entry.
# Guess: an error within seconds: TCP answers such a connect with "refused" at once.
# Seen: no error in 8 s, of the absent one not in 120. tcp;ofi_rxm, net and shm go on saying FI_EAGAIN, as for a queue that
# is full (rxm after error entries for what was under way, shm after it has completed 1,024 sends to the
# dead); udp;ofi_rxd goes on taking sends, of which none completes. Only sockets says something
# (FI_ENOENT). So who repeats on FI_EAGAIN, as fi_msg(3) asks, spins for ever, unless it has a limit of
# its own. 2.1.0 behaves alike, with tcp in the place of net.

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
#include <arpa/inet.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { address_room = 256, limit = 8 }; /* seconds */

static const char *provider;
static struct fi_info *info;
static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;
static char message[64];

static void must(const char *call, long result)
{
    if (result < 0) {
        printf("%s, %s: %s\n", provider, call, fi_strerror((int)-result));
        exit(1);
    }
}

static void open_endpoint(void)
{
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fi_cq_attr queue = {.size = 256, .format = FI_CQ_FORMAT_MSG};
    struct fi_av_attr vector = {.type = FI_AV_TABLE};
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
    must("fi_cq_open", fi_cq_open(domain, &queue, &cq, NULL));
    must("fi_av_open", fi_av_open(domain, &vector, &av, NULL));
    must("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
    must("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
    must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV));
    must("fi_enable", fi_enable(ep));
}

static fi_addr_t known(const char *address)
{
    fi_addr_t result;
    if (fi_av_insert(av, address, 1, &result, 0, NULL) != 1) {
        printf("%s: fi_av_insert fails\n", provider);
        exit(1);
    }
    return result;
}

static long completed, refused;

static void look(void)
{
    struct fi_cq_msg_entry entry;
    struct fi_cq_err_entry error = {0};
    long read = fi_cq_read(cq, &entry, 1);
    if (read == -FI_EAVAIL) {
        fi_cq_readerr(cq, &error, 0);
        ++refused;
    } else if (read == 1) {
        ++completed;
    }
}

static void send_for_a_while(fi_addr_t peer, const char *whom)
{
    long sent = 0, result = 0, early = 0;
    time_t begin = time(NULL);
    completed = refused = 0;
    for (long k = 0; k < 1500 || time(NULL) < begin + limit; ++k) {
        result = fi_send(ep, message, sizeof message, NULL, peer, NULL);
        sent += result == 0;
        look();
        usleep(2000);
        if (time(NULL) <= begin + 2) {
            early += refused;
            refused = 0;
        }
    }
    printf("%s, %s peer: %s; error entries: %s, later %s; fi_send says %s\n", provider, whom,
           completed > 1000 ? "more than 1,000 completed"
           : sent > 1000    ? "more than 1,000 taken, none completed"
                            : "fewer taken",
           early > 0 ? "some" : "none", refused > 0 ? "some" : "none", fi_strerror((int)-result));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char address[address_room] = {0};
    struct fi_cq_msg_entry entry;
    int names[2], arrived[2];
    char byte;
    provider = argv[argc - 1];
    alarm(100);
    if (pipe(names) != 0 || pipe(arrived) != 0) {
        return 1;
    }
    pid_t peer = fork();
    open_endpoint();
    if (peer == 0) {
        size_t length = sizeof address;
        alarm(100);
        must("fi_recv", fi_recv(ep, message, sizeof message, NULL, FI_ADDR_UNSPEC, NULL));
        must("fi_getname", fi_getname(&ep->fid, address, &length));
        must("write", write(names[1], address, sizeof address));
        while (fi_cq_read(cq, &entry, 1) != 1) {
            usleep(100);
        }
        must("write", write(arrived[1], "x", 1));
        while (1) {
            fi_cq_read(cq, &entry, 1);
        }
    }
    must("read", read(names[0], address, sizeof address));
    fi_addr_t killed = known(address);
    while (fi_send(ep, message, sizeof message, NULL, killed, NULL) == -FI_EAGAIN) {
        look();
    }
    while (completed == 0) {
        look();
    }
    must("read", read(arrived[0], &byte, 1));
    kill(peer, SIGKILL);
    waitpid(peer, NULL, 0);
    send_for_a_while(killed, "killed");
    fi_close(&ep->fid);
    if (info->addr_format == FI_ADDR_STR) {
        shm_unlink(strstr(address, "://") + 3); /* the killed process has left it */
    }

    open_endpoint();
    memset(address, 0, sizeof address);
    if (info->addr_format == FI_ADDR_STR) {
        strcpy(address, "fi_shm://999999999:0:0"); /* beyond the greatest process id */
    } else {
        struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_port = htons(1)};
        nobody.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        memcpy(address, &nobody, sizeof nobody);
    }
    send_for_a_while(known(address), "absent");
    fi_close(&ep->fid);
    return 0;
}
C
cc -I usr/include -o probe probe.c -L "$libraries" -Wl,-rpath-link,"$LD_LIBRARY_PATH" -lfabric
for provider in "tcp;ofi_rxm" net "udp;ofi_rxd" shm sockets; do
    ./probe "$provider" >"output of $provider" &
done
wait
cat "output of "* | tee output
diff - output <<'SEEN'
net, killed peer: fewer taken; error entries: none, later none; fi_send says Resource temporarily unavailable
net, absent peer: fewer taken; error entries: none, later none; fi_send says Resource temporarily unavailable
shm, killed peer: more than 1,000 completed; error entries: none, later none; fi_send says Resource temporarily unavailable
shm, absent peer: fewer taken; error entries: none, later none; fi_send says Resource temporarily unavailable
sockets, killed peer: fewer taken; error entries: none, later none; fi_send says No such file or directory
sockets, absent peer: fewer taken; error entries: none, later none; fi_send says No such file or directory
tcp;ofi_rxm, killed peer: fewer taken; error entries: some, later none; fi_send says Resource temporarily unavailable
tcp;ofi_rxm, absent peer: fewer taken; error entries: none, later none; fi_send says Resource temporarily unavailable
udp;ofi_rxd, killed peer: more than 1,000 taken, none completed; error entries: none, later none; fi_send says Success
udp;ofi_rxd, absent peer: more than 1,000 taken, none completed; error entries: none, later none; fi_send says Success
SEEN
echo "as seen before"
