#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# infiniband-diags 44.0-2 (Debian 12), on a system without RDMA devices.
# Guess: each tool fails where there is no device.
# Seen: ibaddr, ibnetdiscover, perfquery and sminfo exit with 255 and say why on standard output; ibstat,
# also with -l and -p, prints nothing at all and exits with 0. A script that takes ibstat's status
# for "there is a device" goes on without one.

set -euo pipefail
if [[ -e /sys/class/infiniband ]]; then
    echo "skipped: this system has RDMA devices"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root infiniband-diags=44.0-2 libibumad3=44.0-2 \
    libibmad5=44.0-2 libibnetdisc5=44.0-2
for package in ./*.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu

{
    for tool in "ibstat" "ibstat -l" "ibstat -p" "ibaddr" "ibnetdiscover" "perfquery" "sminfo"; do
        status=0
        # shellcheck disable=SC2086 # options of their own
        lines=$(usr/sbin/$tool 2>/dev/null) || status=$?
        echo "$tool: $status, $([[ -n $lines ]] && echo 'says something' || echo silent)"
    done
} | tee output
diff - output <<'SEEN'
ibstat: 0, silent
ibstat -l: 0, silent
ibstat -p: 0, silent
ibaddr: 255, says something
ibnetdiscover: 255, says something
perfquery: 255, says something
sminfo: 255, says something
SEEN
echo "as seen before"
