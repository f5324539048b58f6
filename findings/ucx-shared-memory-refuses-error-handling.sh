#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libucx0 1.13.1-1 (Debian 12). A process makes an endpoint of UCP to its own worker, without error handling and
# with UCP_ERR_HANDLING_MODE_PEER, over shared memory and over TCP.
# Guess: the mode says what an endpoint does when its peer fails; it is made over any transport.
# Seen: over shared memory ucp_ep_create() answers "Destination is unreachable", as it does for a peer that cannot
# be reached; with shared memory and TCP together it takes TCP in silence. A program that wants to hear of dead
# peers has no shared memory to those of its own host, and a list of transports without another one fails.

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
export UCX_LOG_LEVEL=fatal UCX_WARN_UNUSED_ENV_VARS=n

cat >probe.c <<'C'
#include <stdio.h>
#include <string.h>
#include <ucp/api/ucp.h>

/* Whether the endpoint's description has a lane over shared memory. */
static const char *way_of(ucp_ep_h ep)
{
    char text[16384] = "";
    FILE *into = fmemopen(text, sizeof text - 1, "w");
    ucp_ep_print_info(ep, into);
    fclose(into);
    return strstr(text, "posix") ? "made over shared memory" : "made over TCP";
}

static void connect_to_self(ucp_worker_h worker, const ucp_address_t *self, ucp_err_handling_mode_t mode)
{
    ucp_ep_params_t want = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = self,
        .err_mode = mode};
    ucp_ep_h ep;
    const ucs_status_t answer = ucp_ep_create(worker, &want, &ep);
    printf("%s: %s\n", mode == UCP_ERR_HANDLING_MODE_PEER ? "peer" : "none",
           answer == UCS_OK ? way_of(ep) : ucs_status_string(answer));
}

int main(void)
{
    ucp_params_t features = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t threads = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                   .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *self;
    size_t size;

    if (ucp_init(&features, NULL, &context) != UCS_OK ||
        ucp_worker_create(context, &threads, &worker) != UCS_OK ||
        ucp_worker_get_address(worker, &self, &size) != UCS_OK)
        return 1;
    connect_to_self(worker, self, UCP_ERR_HANDLING_MODE_NONE);
    connect_to_self(worker, self, UCP_ERR_HANDLING_MODE_PEER);
    fflush(stdout);
    _Exit(0);
}
C
gcc -I"$PWD/usr/include" probe.c -L"$libraries" -lucp -lucs -Wl,-rpath-link,"$LD_LIBRARY_PATH" -o probe

for transports in posix tcp posix,tcp; do
    echo "$transports"
    UCX_TLS=$transports UCX_NET_DEVICES=lo ./probe
done | tee output
diff - output <<'SEEN'
posix
none: made over shared memory
peer: Destination is unreachable
tcp
none: made over TCP
peer: made over TCP
posix,tcp
none: made over shared memory
peer: made over TCP
SEEN
echo "as seen before"
