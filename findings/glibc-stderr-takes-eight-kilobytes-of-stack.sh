#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libc6 2.36-9+deb12u14 (Debian 12). The stack that one line to standard error takes, on a thread.
# Guess: about the same for fprintf, perror, dprintf and fputs, one or two kilobytes.
# Seen: fprintf(stderr) with anything to convert, and perror, take 8 KiB more than fputs(stderr):
# stderr has no buffer, and the C library makes one of BUFSIZ on the caller's stack. dprintf does not.
# So a user-level thread of 16 KiB, of which the C library takes 4 for itself, ends by the line that
# should have explained its error.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root libc6=2.36-9+deb12u14
dpkg -x libc6_*.deb .
libraries=$PWD/lib/x86_64-linux-gnu

cat >probe.c <<'C'
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static char stack[1 << 17] __attribute__((aligned(4096)));

static void nothing(void) {}
static void with_fputs(void) { fputs("a line\n", stderr); }
static void with_dprintf(void) { dprintf(2, "line %d\n", 1); }
static void with_fprintf(void) { fprintf(stderr, "line %d\n", 1); }
static void with_perror(void) { errno = EIO; perror("a line"); }

static void *run(void *what)
{
    ((void (*)(void))what)();
    return NULL;
}

static size_t taken_by(void (*what)(void))
{
    pthread_attr_t how;
    pthread_t thread;
    size_t free = 0;
    memset(stack, 0x5a, sizeof stack);
    pthread_attr_init(&how);
    pthread_attr_setstack(&how, stack, sizeof stack);
    pthread_create(&thread, &how, run, (void *)what);
    pthread_join(thread, NULL);
    while (free < sizeof stack && stack[free] == 0x5a)
        ++free;
    return sizeof stack - free;
}

int main(void)
{
    const size_t itself = taken_by(nothing);
    printf("fputs %zu\n", taken_by(with_fputs) - itself);
    printf("dprintf %zu\n", taken_by(with_dprintf) - itself);
    printf("fprintf %zu\n", taken_by(with_fprintf) - itself);
    printf("perror %zu\n", taken_by(with_perror) - itself);
    return 0;
}
C
cc -O1 -Wl,-z,now -o probe probe.c
"$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" ./probe 2>/dev/null | tee output
awk '{ taken[$1] = $2 }
     END { exit !(taken["fputs"] < 4096 && taken["dprintf"] < 4096 &&
                  taken["fprintf"] > 8192 && taken["perror"] > 8192) }' output
echo "as seen before"
