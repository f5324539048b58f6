#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libfabric 1.17.0-3 (Debian 12), provider shm. The signal dispositions of a program before fi_enable() of an
# endpoint, after it, and after fi_close(). fi_shm(7) has no word on signals.
# Guess: the same: a library leaves them to the program.
# Seen: SIGINT, SIGTERM, SIGBUS and SIGSEGV are handled by libfabric, without SA_RESTART, and stay so when the
# endpoint is closed. Its handler calls the program's afterwards, and a signal that was ignored stays so for
# the process; but a child that it starts no more ignores it (what nohup and "trap '' INT" rely on), and calls
# that a handler with SA_RESTART let go on end with EINTR the first time. 2.1.0 behaves alike.

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
#include <errno.h>
#include <rdma/fabric.h>
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
#include <sys/wait.h>

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

static void handle(int signal)
{
    (void)signal;
}

static void show(const char *when)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGBUS, SIGSEGV};
    printf("%s:", when);
    for (int k = 0; k < 4; ++k) {
        struct sigaction now;
        sigaction(signals[k], NULL, &now);
        printf(" SIG%s %s%s", sigabbrev_np(signals[k]),
               now.sa_handler == SIG_DFL  ? "default"
               : now.sa_handler == SIG_IGN ? "ignored"
               : now.sa_handler == handle  ? "ours"
                                           : "libfabric's",
               now.sa_handler == handle && (now.sa_flags & SA_RESTART) ? " (restarts)" : "");
    }
    printf("\n");
    fflush(stdout);
    if (system("grep -q '^SigIgn:.*[2367abef]$' /proc/self/status && echo 'a child ignores SIGINT' || "
               "echo 'a child does not ignore SIGINT'") != 0) {
        exit(1);
    }
}

static void read_through_a_signal(const char *when)
{
    int ends[2];
    char byte;
    if (pipe(ends) != 0) {
        exit(1);
    }
    pid_t child = fork();
    if (child == 0) {
        sleep(1);
        kill(getppid(), SIGTERM);
        sleep(1);
        _exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
    }
    printf("%s, a read() that SIGTERM interrupts: %s\n", when,
           read(ends[0], &byte, 1) == 1 ? "goes on" : strerror(errno));
    fflush(stdout);
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    provider = argv[argc - 1];
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, handle);
    show("before");
    read_through_a_signal("before");
    open_endpoint(FI_WAIT_NONE);
    show("with an endpoint");
    must("fi_close", fi_close(&ep->fid));
    show("after fi_close");
    read_through_a_signal("after fi_close");
    return 0;
}
C
cc -D_GNU_SOURCE -I usr/include -o probe probe.c -L "$libraries" -Wl,-rpath-link,"$LD_LIBRARY_PATH" -lfabric
IPATH_NO_BACKTRACE=1 ./probe shm | tee output # libinfinipath, which would take signals too, leaves them
diff - output <<'SEEN'
before: SIGINT ignored SIGTERM ours (restarts) SIGBUS default SIGSEGV default
a child ignores SIGINT
before, a read() that SIGTERM interrupts: goes on
with an endpoint: SIGINT libfabric's SIGTERM libfabric's SIGBUS libfabric's SIGSEGV libfabric's
a child does not ignore SIGINT
after fi_close: SIGINT libfabric's SIGTERM libfabric's SIGBUS libfabric's SIGSEGV libfabric's
a child does not ignore SIGINT
after fi_close, a read() that SIGTERM interrupts: Interrupted system call
SEEN
echo "as seen before"
