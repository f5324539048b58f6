#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# ucx-utils 1.13.1-1, libfabric-bin 1.17.0-3 (Debian 12). How many bytes the "MB/s" of ucx_perftest and the
# "MB/sec" of fi_pingpong have, reckoned from other columns of the same line.
# Guess: the same for both; no manual page and no help says another thing.
# Seen: 1,048,576 for ucx_perftest, 1,000,000 for fi_pingpong: the same transfer is 4.6 percent slower by
# ucx_perftest. fi_pingpong has both in one line: its "total" counts 1m as 1,048,576, and its "MB/sec", which
# fi_pingpong(1) calls "throughput computed from total and time", does not. So convert before you compare.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root libfabric1=1.17.0-3 libfabric-bin=1.17.0-3 \
    ibverbs-providers=44.0-2 libibverbs1=44.0-2 librdmacm1=44.0-2 libpsm2-2=11.2.185-2 \
    libpsm-infinipath1=3.3+20.604758e7-6.2 libnl-3-200=3.7.0-0.2+b1 libnl-route-3-200=3.7.0-0.2+b1 \
    libnuma1=2.0.16-1 ucx-utils=1.13.1-1 libucx0=1.13.1-1
for package in ./*.deb; do dpkg -x "$package" .; done
libraries=$PWD/usr/lib/x86_64-linux-gnu
ln -s "$PWD/usr/lib/libpsm1/libpsm_infinipath.so.1.16" "$libraries/libpsm_infinipath.so.1"
export LD_LIBRARY_PATH=$libraries:$PWD/lib/x86_64-linux-gnu

port=$((20000 + RANDOM % 10000))

# unit TOOL BYTES SECONDS SHOWN: which unit makes SHOWN of them
unit() {
    awk -v tool="$1" -v bytes="$2" -v seconds="$3" -v shown="$4" 'BEGIN {
        unit = bytes / seconds / shown
        name = unit
        if (unit > 985000 && unit < 1015000) name = "1,000,000"
        if (unit > 1033000 && unit < 1064000) name = "1,048,576"
        print tool ": a megabyte has " name " bytes"
    }'
}
{
    read -r -a fields < <(UCX_TLS=tcp,self UCX_NET_DEVICES=lo usr/bin/ucx_perftest -l -t tag_bw \
        -s 65536 -n 3000 2>/dev/null | grep ^Final)
    unit ucx_perftest $((65536 * fields[-1])) 1 "${fields[-3]}"

    FI_PROVIDER=tcp usr/bin/fi_pingpong -p tcp -e msg -B "$port" -S 65536 -I 200 >/dev/null &
    sleep 3
    read -r -a fields < <(FI_PROVIDER=tcp usr/bin/fi_pingpong -p tcp -e msg -P "$port" -S 65536 \
        -I 200 127.0.0.1 | tail -n 1)
    unit fi_pingpong $((65536 * 400)) "${fields[4]%s}" "${fields[5]}"
    unit "fi_pingpong, total" $((65536 * 400)) 1 "${fields[3]%m}"
    wait
} | tee output
diff - output <<'SEEN'
ucx_perftest: a megabyte has 1,048,576 bytes
fi_pingpong: a megabyte has 1,000,000 bytes
fi_pingpong, total: a megabyte has 1,048,576 bytes
SEEN
echo "as seen before"
