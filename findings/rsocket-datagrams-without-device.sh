#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# librdmacm 44.0-2 (Debian 12), on a system without RDMA devices.
# Guess: rsocket() of either type fails with ENODEV.
# Seen: for SOCK_STREAM it does. For SOCK_DGRAM it succeeds; rbind() succeeds and takes a port number of
# the system's UDP; rpoll() waits in vain; only rsendto() answers ENODEV. So a server of datagrams
# (udpong of rdmacm-utils) waits for ever and says nothing, where its client, and a server of
# streams (rstream), end with "No RDMA devices were detected".

set -euo pipefail
if [[ -e /sys/class/infiniband ]]; then
    echo "skipped: this system has RDMA devices"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root librdmacm1=44.0-2 librdmacm-dev=44.0-2 \
    libibverbs1=44.0-2 libibverbs-dev=44.0-2
for package in ./*.deb; do dpkg -x "$package" .; done
libraries=$PWD/usr/lib/x86_64-linux-gnu

cat >probe.c <<'C'
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>
#include <rdma/rsocket.h>

static void say(const char *call, long result)
{
    printf("%s: %s, errno %d\n", call, result < 0 ? "fails" : "succeeds", result < 0 ? errno : 0);
}

int main(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof here;
    say("rsocket SOCK_STREAM", rsocket(AF_INET, SOCK_STREAM, 0));
    int s = rsocket(AF_INET, SOCK_DGRAM, 0);
    say("rsocket SOCK_DGRAM", s);
    say("rbind", rbind(s, (struct sockaddr *)&here, sizeof here));
    rgetsockname(s, (struct sockaddr *)&here, &length);
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    say("bind of a UDP socket to the same port", bind(udp, (struct sockaddr *)&here, sizeof here));
    struct pollfd look = {.fd = s, .events = POLLIN};
    printf("rpoll for 0.2 s: %d\n", rpoll(&look, 1, 200));
    say("rsendto", rsendto(s, "x", 1, 0, (struct sockaddr *)&here, sizeof here));
    return 0;
}
C
cc -I usr/include -o probe probe.c -L "$libraries" -Wl,-rpath,"$libraries" \
    -Wl,-rpath-link,"$libraries" -lrdmacm -libverbs
./probe | tee output
diff - output <<'SEEN'
rsocket SOCK_STREAM: fails, errno 19
rsocket SOCK_DGRAM: succeeds, errno 0
rbind: succeeds, errno 0
bind of a UDP socket to the same port: fails, errno 98
rpoll for 0.2 s: 0
rsendto: fails, errno 19
SEEN
echo "as seen before"
