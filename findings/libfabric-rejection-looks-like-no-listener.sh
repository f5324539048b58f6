#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libfabric 1.17.0-3 (Debian 12), provider tcp, FI_EP_MSG. What a caller learns whose request fi_reject()
# has answered without private data.
# Guess: another error than where nobody listens; fi_cm(3) says that "the error entry will provide
# additional details describing the reason".
# Seen: the entry is the same in each member, ECONNREFUSED, and fi_eq_strerror() calls both "Success". So a
# caller cannot tell a server that said no from a server that is down, unless the server sends private
# data with each rejection. 2.1.0 answers alike.

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

/* Returns after the caller's error has come; both sides are read, for they share the progress. */
static void show_refusal(const char *when, struct sockaddr_in *to, struct fid_eq *listener,
                         struct fid_pep *pep, const char *data)
{
    struct fid_eq *eq = open_eq();
    struct fid_ep *ep = open_ep(info, eq, open_cq());
    struct fi_eq_cm_entry entry;
    struct fi_eq_err_entry error = {0};
    uint32_t event;
    must("fi_connect", fi_connect(ep, to, NULL, 0));
    while (fi_eq_sread(eq, &event, &entry, sizeof entry, 10, 0) != -FI_EAVAIL) {
        if (fi_eq_read(listener, &event, &entry, sizeof entry, 0) > 0) {
            must("fi_reject", fi_reject(pep, entry.info->handle, data, strlen(data)));
            fi_freeinfo(entry.info);
        }
    }
    must("fi_eq_readerr", fi_eq_readerr(eq, &error, 0));
    printf("%s: err %d, prov_errno %d, %zu bytes of data, \"%s\"\n", when, error.err, error.prov_errno,
           error.err_data_size, fi_eq_strerror(eq, error.prov_errno, error.err_data, NULL, 0));
    fi_close(&ep->fid);
}

int main(void)
{
    open_domain();
    struct sockaddr_in there;
    struct fid_eq *eq = open_eq();
    struct fid_pep *pep = listen_at(eq, &there);

    /* A port that is taken, at which nobody listens. */
    struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof nobody;
    int taken = socket(AF_INET, SOCK_STREAM, 0);
    must("bind", bind(taken, (struct sockaddr *)&nobody, sizeof nobody));
    must("getsockname", getsockname(taken, (struct sockaddr *)&nobody, &length));

    show_refusal("nobody listens", &nobody, eq, pep, "");
    show_refusal("fi_reject without data", &there, eq, pep, "");
    show_refusal("fi_reject with \"busy\"", &there, eq, pep, "busy");
    return 0;
}
C
cc -I usr/include -o probe probe.c -L "$libraries" -Wl,-rpath-link,"$LD_LIBRARY_PATH" -lfabric
./probe | tee output
diff - output <<'SEEN'
nobody listens: err 111, prov_errno 0, 0 bytes of data, "Success"
fi_reject without data: err 111, prov_errno 0, 0 bytes of data, "Success"
fi_reject with "busy": err 111, prov_errno 0, 4 bytes of data, "Success"
SEEN
echo "as seen before"
