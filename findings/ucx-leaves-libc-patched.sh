#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libucx0 1.13.1-1 (Debian 12). The code of libc in a process that loads libucp with dlopen(RTLD_LOCAL), makes a context
# that may use TCP alone, cleans it up and unloads the library, as a program does with a plug-in.
# Guess: libc's code is its file's; a cache of registrations needs the hooks, and TCP has no such cache.
# Seen: dlopen alone, before any call of UCX, writes jumps over the first bytes of eight functions of libc, those that
# map and unmap memory and move the break. ucp_cleanup() and dlclose() leave the jumps there, and libucm,
# to which they lead, in memory. What else patches or verifies code in the process (another library's
# memory hooks, a tool that compares text with its file) meets this without a call of UCX. With
# UCX_MEM_EVENTS=n in the environment nothing is written.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root libucx0=1.13.1-1 libucx-dev=1.13.1-1 \
    libibverbs1=44.0-2 librdmacm1=44.0-2 libnl-3-200=3.7.0-0.2+b1 libnl-route-3-200=3.7.0-0.2+b1 \
    libnuma1=2.0.16-1
for package in ./*.deb; do dpkg -x "$package" .; done
libraries=$PWD/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$PWD/lib/x86_64-linux-gnu UCX_MODULE_DIR=$libraries/ucx
export UCX_LOG_LEVEL=fatal UCX_WARN_UNUSED_ENV_VARS=n UCX_TLS=tcp

cat >probe.c <<'C'
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <ucp/api/ucp.h>

enum { compared = 16 }; /* bytes at the begin of a function */

static const char *const functions[] = {"mmap",  "munmap", "mremap", "madvise", "shmat",
                                        "shmdt", "sbrk",   "brk",    "malloc",  "fork"};
enum { count = sizeof functions / sizeof functions[0] };
static unsigned char original[count][compared];
static void *libc;

static void say(const char *when)
{
    printf("%s:", when);
    for (int k = 0; k < count; ++k) {
        if (memcmp(dlsym(libc, functions[k]), original[k], compared) != 0) {
            printf(" %s", functions[k]);
        }
    }
    puts("");
}

int main(void)
{
    ucp_params_t wanted = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_context_h context;
    libc = dlopen("libc.so.6", RTLD_NOW);
    for (int k = 0; k < count; ++k) {
        memcpy(original[k], dlsym(libc, functions[k]), compared);
    }
    void *ucp = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    say("loaded");
    ucs_status_t (*init)(unsigned, unsigned, const ucp_params_t *, const ucp_config_t *, ucp_context_h *) =
        dlsym(ucp, "ucp_init_version");
    void (*cleanup)(ucp_context_h) = dlsym(ucp, "ucp_cleanup");
    printf("context: %s\n", init(UCP_API_MAJOR, UCP_API_MINOR, &wanted, NULL, &context) == UCS_OK ? "made" : "none");
    cleanup(context);
    dlclose(ucp);
    say("unloaded");
    printf("libucp %s, libucm %s\n", dlopen("libucp.so.0", RTLD_NOW | RTLD_NOLOAD) ? "stays" : "is gone",
           dlopen("libucm.so.0", RTLD_NOW | RTLD_NOLOAD) ? "stays" : "is gone");
    return 0;
}
C
cc -I usr/include -o probe probe.c -ldl
{ ./probe; echo "UCX_MEM_EVENTS=n"; UCX_MEM_EVENTS=n ./probe; } | tee output
diff - output <<'SEEN'
loaded: mmap munmap mremap madvise shmat shmdt sbrk brk
context: made
unloaded: mmap munmap mremap madvise shmat shmdt sbrk brk
libucp is gone, libucm stays
UCX_MEM_EVENTS=n
loaded:
context: made
unloaded:
libucp is gone, libucm stays
SEEN
echo "as seen before"
