#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libfabric 1.17.0-3 (Debian 12). Its parameters in the environment, FI_OFI_RXM_TX_SIZE and its kin. Neither
# fabric(7) nor the providers' pages, which give such values as "~16k" and "128 Kb", say how to write them.
# Guess: 64k means 65,536, as UCX reads it, or is refused.
# Seen: 64k is 64; 1M and 1e6 are 1; "many" is 0, which rxm takes for its default. The log, at level
# "info", has no complaint: what follows the first digits is dropped. (Truth values are looked at: yes and on are true, y and
# 2 are refused by a warning.) So a job that asks for larger queues runs on tiny ones. 2.1.0 behaves alike.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root libfabric1=1.17.0-3 libfabric-bin=1.17.0-3 \
    ibverbs-providers=44.0-2 libibverbs1=44.0-2 librdmacm1=44.0-2 libpsm2-2=11.2.185-2 \
    libpsm-infinipath1=3.3+20.604758e7-6.2 libnl-3-200=3.7.0-0.2+b1 libnl-route-3-200=3.7.0-0.2+b1 \
    libnuma1=2.0.16-1
for package in ./*.deb; do dpkg -x "$package" .; done
libraries=$PWD/usr/lib/x86_64-linux-gnu
ln -s "$PWD/usr/lib/libpsm1/libpsm_infinipath.so.1.16" "$libraries/libpsm_infinipath.so.1"
export LD_LIBRARY_PATH=$libraries:$PWD/lib/x86_64-linux-gnu

export FI_LOG_LEVEL=info

{
    for value in 4096 0x1000 64k 1M 1e6 many; do
        lines=$(FI_OFI_RXM_TX_SIZE=$value usr/bin/fi_info -p "tcp;ofi_rxm" -v 2>"log")
        size=$(awk '/fi_tx_attr/ { here = 1 } here && $1 == "size:" { print $2; exit }' <<<"$lines")
        echo "FI_OFI_RXM_TX_SIZE=$value: size $size, $(grep -c "parse.*tx_size" log || true) complaints"
    done
    for value in yes on y 2; do
        FI_OFI_RXM_USE_SRX=$value usr/bin/fi_info -p "tcp;ofi_rxm" >/dev/null 2>log
        echo "FI_OFI_RXM_USE_SRX=$value: $(grep -oE "read bool var use_srx=.|failed to parse" log | sort -u)"
    done
} | tee output
diff - output <<'SEEN'
FI_OFI_RXM_TX_SIZE=4096: size 4096, 0 complaints
FI_OFI_RXM_TX_SIZE=0x1000: size 4096, 0 complaints
FI_OFI_RXM_TX_SIZE=64k: size 64, 0 complaints
FI_OFI_RXM_TX_SIZE=1M: size 1, 0 complaints
FI_OFI_RXM_TX_SIZE=1e6: size 1, 0 complaints
FI_OFI_RXM_TX_SIZE=many: size 2048, 0 complaints
FI_OFI_RXM_USE_SRX=yes: read bool var use_srx=1
FI_OFI_RXM_USE_SRX=on: read bool var use_srx=1
FI_OFI_RXM_USE_SRX=y: failed to parse
FI_OFI_RXM_USE_SRX=2: failed to parse
SEEN
echo "as seen before"
