#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# slurm-client 22.05.8-4+deb12u3 (Debian 12), in a network namespace that has the interface lo alone.
# Guess: a controller whose address slurm.conf gives as digits, 127.0.0.1, needs no resolver.
# Seen: "Unable to resolve "127.0.0.1"" after eleven attempts, as long as there is no other address, be it
# one on lo that nobody uses. Slurm asks for AF_INET with AI_ADDRCONFIG; glibc, which does not count
# loopback addresses, then knows no address family, and refuses digits, too. So a cluster of one machine
# does not start in a container without a network.

set -euo pipefail
if [[ $EUID != 0 ]] || ! unshare -n true; then
    echo "skipped: needs root and network namespaces"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root slurm-client=22.05.8-4+deb12u3 \
    slurm-wlm-basic-plugins=22.05.8-4+deb12u3
for package in ./*.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu/slurm-wlm SLURM_CONF=$PWD/slurm.conf
cat >slurm.conf <<C
ClusterName=one
SlurmctldHost=here(127.0.0.1)
SlurmUser=root
AuthType=auth/none
PluginDir=$LD_LIBRARY_PATH
StateSaveLocation=$PWD
SlurmdSpoolDir=$PWD
SlurmctldPort=17001
SlurmdPort=17002
NodeName=here NodeAddr=127.0.0.1
PartitionName=all Nodes=ALL
C

asked() { # with these addresses on lo; no controller runs
    # shellcheck disable=SC2016 # the inner shell expands it
    unshare -n sh -c 'ip link set lo up
        for each; do ip address add "$each" dev lo; done
        usr/bin/scontrol ping 2>&1' sh "$@" || true
}
told() { grep -oE 'Unable to resolve "127.0.0.1"' || echo "resolved"; }
echo "127.0.0.1 alone: $(asked | told)" | tee output
echo "with 192.0.2.1: $(asked 192.0.2.1/32 | told)" | tee -a output
diff - output <<'SEEN'
127.0.0.1 alone: Unable to resolve "127.0.0.1"
with 192.0.2.1: resolved
SEEN
echo "as seen before"
