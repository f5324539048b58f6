#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libfabric 1.17.0-3 (Debian 12). What the first fi_getinfo of a process costs that asks for one provider,
# tcp, on a system without an RDMA device.
# Guess: the providers that were asked for look for their interfaces: well below a millisecond.
# Seen: the verbs provider, which FI_PROVIDER=tcp leaves out, opens /proc/kallsyms twice and reads it line by
# line for the name of a kernel function, once for peer memory and once for dmabuf;
# FI_VERBS_USE_DMABUF=0 does not keep it from that. The file has some five megabytes where neither is
# loaded, and the reading is half of the call or more. The second fi_getinfo reads nothing. 2.1.0
# (Debian 13) reads it once, and not with FI_PROVIDER=tcp.

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
#include <dlfcn.h>
#include <rdma/fabric.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int opened;
static double reading;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* libfabric finds this function before the one of libc. */
FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
    if (strcmp(path, "/proc/kallsyms") == 0) {
        char line[512];
        double begin = now();
        FILE *names = next(path, mode);
        int found = 0;
        while (names != NULL && !found && fgets(line, sizeof line, names) != NULL) {
            found = strstr(line, "ib_umem_dmabuf_get") != NULL;
        }
        if (names != NULL) {
            fclose(names);
        }
        reading += now() - begin;
        ++opened;
    }
    return next(path, mode);
}

static double look(void)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    double begin = now();
    hints->fabric_attr->prov_name = strdup("tcp");
    if (fi_getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, &info) != 0) {
        puts("tcp is not there");
    }
    fi_freeinfo(info);
    fi_freeinfo(hints);
    return now() - begin;
}

int main(void)
{
    double took = look() - reading; /* the reading above comes on top of that of libfabric */
    printf("first: /proc/kallsyms opened %d times, %s of the call\n", opened,
           reading > took / 2 ? "half or more" : "less than half");
    opened = 0;
    look();
    printf("second: opened %d times\n", opened);
    return 0;
}
C
cc -rdynamic -I usr/include -o probe probe.c -L "$libraries" -Wl,-rpath-link,"$LD_LIBRARY_PATH" -lfabric -ldl
export FI_PROVIDER=tcp FI_VERBS_USE_DMABUF=0
./probe | tee output
diff - output <<'SEEN'
first: /proc/kallsyms opened 2 times, half or more of the call
second: opened 0 times
SEEN
echo "as seen before"
