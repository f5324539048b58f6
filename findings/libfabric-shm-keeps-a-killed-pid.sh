#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libfabric 1.17.0-3 (Debian 12), provider shm. A process opens an endpoint and is killed; another process
# that has the same number in its pid namespace, and the same /dev/shm, enables an endpoint. In containers
# that share /dev/shm the first process of each has number 1.
# Guess: the memory of an endpoint is named by chance, or what a dead process left is taken over.
# Seen: the name is made of process and user number, and the file stays for whoever has that number next.
# fi_enable() then answers EBUSY, as long as the file stands; an endpoint that was closed leaves none.
# So a program that is killed can keep its successor in a restarted container from its adapter.

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
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void tell(const char *call, int result)
{
    printf("process %d, %s: %s\n", (int)getpid(), call, result == 0 ? "ready" : fi_strerror(-result));
    fflush(stdout);
    if (result != 0)
        exit(0);
}

static void must(const char *call, int result)
{
    if (result != 0)
        tell(call, result);
}

int main(int argc, char **argv)
{
    struct fi_info *info, *hints = fi_allocinfo();
    struct fi_cq_attr queue = {.size = 16, .format = FI_CQ_FORMAT_MSG};
    struct fi_av_attr vector = {.type = FI_AV_TABLE};
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep;
    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup("shm");
    must("fi_getinfo", fi_getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, &info));
    must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    must("fi_domain", fi_domain(fabric, info, &domain, NULL));
    must("fi_cq_open", fi_cq_open(domain, &queue, &cq, NULL));
    must("fi_av_open", fi_av_open(domain, &vector, &av, NULL));
    must("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
    must("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
    must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV));
    tell("fi_enable", fi_enable(ep));
    if (argc > 1 && strcmp(argv[1], "killed") == 0)
        raise(SIGKILL);
    fi_close(&ep->fid);
    fi_close(&av->fid);
    fi_close(&cq->fid);
    fi_close(&domain->fid);
    fi_close(&fabric->fid);
    return 0;
}
C
cc -I usr/include -o probe probe.c -L "$libraries" -Wl,-rpath-link,"$LD_LIBRARY_PATH" -lfabric

# A /dev/shm of its own, and in it three processes with number 2, each in a pid namespace of its own.
cat >rounds.sh <<'SH'
mount -t tmpfs none /dev/shm
for end in closes killed closes; do
    unshare --pid --fork sh -c './probe "$1"; exit 0' sh "$end" 2>/dev/null
done
SH
unshare --user --map-root-user --mount sh rounds.sh | tee output
diff - output <<'SEEN'
process 2, fi_enable: ready
process 2, fi_enable: ready
process 2, fi_enable: Device or resource busy
SEEN
echo "as seen before"
