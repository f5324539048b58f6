#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# mpirun of Open MPI 4.1.4-3+b1 (Debian 12), in a network namespace that has the interface lo alone.
# Guess: what starts with 127.0.0.1 on lo starts with one more address there.
# Seen: with 127.0.0.1 alone it falls back to loopback and starts the program. With 192.0.2.1 beside it
# on lo it ends: "No network interfaces were found for out-of-band communications".

set -euo pipefail
if [[ $EUID != 0 ]] || ! command -v debootstrap >/dev/null || ! unshare -n true; then
    echo "skipped: needs root, debootstrap and network namespaces"
    exit 77
fi
root=$(mktemp -d)
chmod 755 "$root"
trap 'umount -q "$root/proc" || true; rm -rf "$root"' EXIT
debootstrap --variant=minbase bookworm "$root" >"$root.log"
rm "$root.log"
chroot "$root" apt-get update -qq
chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends \
    iproute2 openmpi-bin=4.1.4-3+b1 openssh-client >"$root/log" 2>&1
mount -t proc proc "$root/proc"
started() { # with these addresses on lo
    # shellcheck disable=SC2016 # the inner shell expands it
    unshare -n chroot "$root" sh -c 'ip link set lo up
        for each; do ip address add "$each" dev lo; done
        mpirun --allow-run-as-root -n 1 echo runs 2>&1' sh "$@" || true
}
told() { grep -oE "^runs|No network interfaces were found" || true; }
echo "127.0.0.1 alone: $(started | told)" | tee "$root/output"
echo "with 192.0.2.1: $(started 192.0.2.1/32 | told)" | tee -a "$root/output"
diff - "$root/output" <<'SEEN'
127.0.0.1 alone: runs
with 192.0.2.1: No network interfaces were found
SEEN
echo "as seen before"
