#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The guest's init once the root is there: sets up devices and network, runs the command, and
# reports its status to the host. The host then kills the machine, so this never returns.
#
# What to run is in /run/vm/job: the variables directory, writable, environment and command.
# shellcheck disable=SC2154

set -eEuo pipefail
cd /run/vm
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8

# A virtio port by the name that the host gave it.
port() {
    local folder
    for folder in /sys/class/virtio-ports/*; do
        [[ $(<"$folder/name") != "$1" ]] || echo "/dev/${folder##*/}"
    done
}

tell() { printf '%s\n' "$*" >&"$control"; }

fail() {
    trap - ERR
    tell "fail $*"
    exec sleep infinity
}

make_file_systems() {
    local number
    mkdir /dev/shm /dev/pts
    mount -t tmpfs shm /dev/shm
    mount -t devpts pts /dev/pts
    mount -t cgroup2 cgroup /sys/fs/cgroup
    ln -s /proc/self/fd /dev/fd
    ln -s fd/0 /dev/stdin
    ln -s fd/1 /dev/stdout
    ln -s fd/2 /dev/stderr
    for number in "${!writable[@]}"; do
        mkdir -p "${writable[number]}"
        mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=mmap \
            "writable$number" "${writable[number]}"
    done
}

make_network() {
    echo vm >/proc/sys/kernel/hostname
    printf '%s\n' '127.0.1.1 vm' '10.98.0.1 siw0' '10.99.0.1 rxe0' >>/etc/hosts
    # Large packets, for RoCE's largest MTU. siw cannot sit on lo: its id would be lo's address, 0.
    ip -batch - <<'NETWORK'
link set lo up
link add dummy0 address 02:00:00:00:99:01 mtu 9000 type dummy
link add dummy1 address 02:00:00:00:98:01 mtu 9000 type dummy
address add 10.99.0.1/24 dev dummy0
address add 10.98.0.1/24 dev dummy1
address add fd99::1/64 dev dummy0 nodad
address add fd98::1/64 dev dummy1 nodad
link set dummy0 up
link set dummy1 up
NETWORK
    rdma link add rxe0 type rxe netdev dummy0
    rdma link add siw0 type siw netdev dummy1
}

await_active() {
    local device=$1 state=missing tries
    for ((tries = 0; tries < 100; tries++)); do
        state=$(cat "/sys/class/infiniband/$device/ports/1/state" 2>/dev/null || echo missing)
        [[ $state != *ACTIVE ]] || return 0
        sleep 0.1
    done
    fail "$device is not active but $state"
}

# Forwards a stream to the host, and stores the number of bytes in a file: the host uses it to know
# when it has received everything.
relay() {
    local to
    to=$(port "$1")
    tee "$to" <"$1" | wc -c >"$1.count"
}

run_command() {
    echo 0 >/sys/fs/cgroup/command/cgroup.procs
    ulimit -l unlimited -n 65536
    exec setsid env -i -C "$directory" "${environment[@]}" "${command[@]}" \
        </dev/null >/run/vm/out 2>/run/vm/err {control}>&-
}

exec {control}>"$(port control)"
trap 'fail "line $LINENO of the guest failed: $BASH_COMMAND"' ERR
# shellcheck source=/dev/null
source job
make_file_systems
make_network
await_active siw0
await_active rxe0
[[ -d $directory ]] || fail "$directory is not seen in the guest; is it below /run or /dev?"

mkdir /sys/fs/cgroup/command
mkfifo out err
relay out &
relay err &
tell begin
status=0
(run_command) || status=$?
echo 1 >/sys/fs/cgroup/command/cgroup.kill # processes left running would keep its output open
wait
sync
tell "end $status $(<out.count) $(<err.count)"
exec sleep infinity
