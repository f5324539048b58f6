#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Rounds over one device of the virtual machine; vm_round.py runs it there.
#
#   guest.sh BUILD SOURCE OUT DEVICE ROUND...
#
# device[=CASES]       device_test: extensions, IPv6, tuning, faults
# suppressed           suppressed_test: a consumer that takes no event of what succeeds
# clients=SELECTION    unmodified DAT programs, as tests/clients/run_clients.py selects them
# conformance[=CASES]  the conformance suite, or the cases that match a pattern
# calls                each call answers in each state what the file of the adapter says; see docs/calls.md
# conformance12[=CASES]  the same through DAT 1.2
# tcp[=CASES]          the same with connections made over TCP (cm=tcp), which siw refuses
# ofed[=CASES]         the conformance suite over OFED's own provider, by the system's libdat2
# ofed12[=CASES]       the same through DAT 1.2, by our libdat2
# jobs[=CASES]         two ranks of libdapl-am, started by mpirun
# removal              the device is removed under traffic, and works when it is back
# stress=SECONDS       threads that use the adapter in every way at once
# switches             who sleeps in dat_evd_wait is the only one to be woken
# performance          this port beside OFED's and raw verbs: docs/performance.md says how to read it
# instructions         how many calls take, of this port and OFED's
#
# OUT gets the scorecards. Ends with 1 if a round failed.

# The rounds are called by name.
# shellcheck disable=SC2317
set -uo pipefail

build=$1 source=$2 out=$3 device=$4
shift 4

declare -A hosts=([siw0]=10.98.0.1 [rxe0]=10.99.0.1) networks=([siw0]=dummy1 [rxe0]=dummy0)
adapter=verbs-$device host=${hosts[$device]}
waivers=$source/transports/verbs/waivers-$device.json
export LD_LIBRARY_PATH=$build/dat DAT_OVERRIDE=/run/dat.conf

# The adapters of the build, and those of this device by its IPv6 address, with two threads, and
# with connections made over TCP.
make_dat_conf() {
    cat "$build/transports/dat.conf"
    local -A more=([v6]=family=6 [threads]=threads=2 [tcp]=cm=tcp)
    local each
    for each in "${!more[@]}"; do
        sed -n "s/^$adapter \(.*\) \"$device 1\"/$adapter-$each \1 \"$device 1 ${more[$each]}\"/p" \
            "$build/transports/dat.conf"
    done
}

device() {
    "$build/tests/verbs/verbs-device-test" "$adapter" "$device" --test-case-exclude='removal*' \
        ${1:+--test-case="$1"}
}

suppressed() {
    [[ -x $build/tests/soft/suppressed-test ]] || { echo "skipped: the build lacks it"; return 0; }
    "$build/tests/soft/suppressed-test" "$adapter"
}

clients() {
    python3 "$source/tests/clients/run_clients.py" --libdat2 "$build/dat" \
        --dat-conf "$DAT_OVERRIDE" --adapter "$adapter" --host "$host" --select "$1" \
        --json "$out/$device-clients.json" --patience 5
}

# Two cases at a time: with more, emulated processors are too slow for the patience of some.
conformance() {
    local card=$out/$device-${2:-conformance}
    local -a options=(--keep-loaded librdmacm.so.1 --open-first --jobs 2 "${@:3}")
    [[ ! -e $waivers ]] || options+=(--waivers "$waivers")
    [[ -z $1 ]] || options+=(--case "$1")
    "$build/conformance/dapl-conformance" --ia "$adapter" "${options[@]}" \
        --json "$card.json" --html "$card.html"
}

calls() {
    python3 "$source/tests/conformance/check_answers.py" \
        --conformance "$build/conformance/dapl-conformance" --ia "$adapter" \
        --keep-loaded librdmacm.so.1 --open-first --jobs 2 --timeout 1200 --patience 120 \
        --keep "$out/$device-answers.json"
}

# What libdat and the suite's way through it need; the build has a dat.conf for it.
dat12_path=$build/dat:$build/dat/compat12:$build/conformance/api12
has_dat12() {
    [[ -e $build/conformance/api12/libdat2-over-dat12.so ]] ||
        { echo "skipped: the build has no DAT 1.2"; return 1; }
}

conformance12() {
    has_dat12 || return 0
    LD_LIBRARY_PATH=$dat12_path DAT_OVERRIDE=$build/transports/dat12.conf \
        conformance "$1" conformance12 --api 1.2
}

# A request over TCP has room for the private data that DAT asks for: IA-06.
# librdmacm keeps descriptors of all devices: no adapter of this round may load it, nor libfabric,
# whose verbs provider does.
tcp() {
    local all=$waivers
    local -x waivers=/run/waivers-tcp.json adapter=$adapter-tcp
    grep '^soft-' "$DAT_OVERRIDE" >/run/tcp.conf
    grep "^$adapter " "$DAT_OVERRIDE" >>/run/tcp.conf
    local -x DAT_OVERRIDE=/run/tcp.conf
    python3 -c 'import json, sys
json.dump([each for each in json.load(open(sys.argv[1])) if each["case"] != "IA-06"],
          open(sys.argv[2], "w"))' "$all" "$waivers" && conformance "$1" tcp
}

# With siw a connection breaks where an SRQ runs dry; rxe fails binds that wait meanwhile, so each
# half of the time is without one of both.
stress() {
    local ways=(--no-srqs) way failed=0
    [[ $device != rxe0 ]] || ways+=(--no-windows)
    local seconds=$(($1 / ${#ways[@]}))
    for way in "${ways[@]}"; do
        "$build/tests/stress/hammer" --ia "$adapter" --seconds "$seconds" \
            --worlds $((seconds / 10)) --patience 120 "$way" || failed=1
    done
    return "$failed"
}

# OFED's provider, which this port takes the place of; says why when it is not to be had.
ofed_provider() {
    local provider
    provider=$(ldconfig -p | sed -n 's/^\s*libdaplofa.so.2 (libc6,.*) => //p' | head -1)
    if [[ -z $provider || ! -e ${provider%/*}/libdat2.so.2 ]]; then
        echo "skipped: libdaplofa.so.2 or its libdat2.so.2 is missing; Debian's libdapl2 has both" >&2
        return 1
    fi
    echo "$provider"
}

# The line of dat.conf for it.
ofed_line() {
    printf 'ofed-%s u2.0 nonthreadsafe default %s dapl.2.0 "%s 0" ""\n' \
        "$device" "$1" "${networks[$device]}"
}

# The conformance suite over it, with the libdat2 beside it. librdmacm stays
# loaded, as it forgets its descriptors when it goes. What fails unexpectedly is tried once more:
# its thread may still be on the way out when the library is unloaded, and crashes.
ofed() {
    local provider conf=/run/ofed.conf
    provider=$(ofed_provider) || return 0
    ofed_line "$provider" >"$conf"
    LD_LIBRARY_PATH=${provider%/*} DAT_OVERRIDE=$conf \
        judge_ofed "$1" ofed "failed error unexpected_pass unexpected_refusal unexpected_failure"
}

# DAT 1.2 refuses by itself some of what OFED's provider does not: passing unexpectedly, or failing
# differently, is no fault.
ofed12() {
    local provider conf=/run/ofed12.conf
    has_dat12 || return 0
    provider=$(ofed_provider) || return 0
    { ofed_line "$provider"
      printf 'ofed-%s u1.2 nonthreadsafe default libdat.so.1 dapl.1.2 "" ""\n' "$device"; } >"$conf"
    LD_LIBRARY_PATH=$dat12_path DAT_OVERRIDE=$conf \
        judge_ofed "$1" ofed12 "failed error" --api 1.2
}

# judge_ofed CASES CARD BAD OPTION...: fails if an outcome is one of the bad ones, twice.
judge_ofed() {
    local card=$out/$device-$2 bad=$3 judged status=0
    local -a again suite=("$build/conformance/dapl-conformance" --ia "ofed-$device"
        --keep-loaded librdmacm.so.1 --jobs 3 --timeout 60 "${@:4}"
        --waivers "$source/conformance/waivers/ofed-$device.json")
    "${suite[@]}" --case "${1:-*}" --json "$card.json" --html "$card.html" || status=$?
    [[ $status == 1 ]] || return "$status" # all well, or no adapter
    judged=$(cases_that "$bad" "$card.json") || return
    [[ -n $judged ]] || return 0
    mapfile -t again <<<"$judged"
    echo "once more: ${again[*]}"
    status=0
    "${suite[@]}" "${again[@]}" --json "$card-again.json" || status=$?
    [[ $status == 1 ]] || return "$status"
    judged=$(cases_that "$bad" "$card-again.json") && [[ -z $judged ]]
}

# Options that select the cases with one of these outcomes; fails if there are no cases at all.
cases_that() {
    python3 - "$@" <<'PYTHON'
import json, sys
bad = [word.replace("_", " ") for word in sys.argv[1].split()]
results = json.load(open(sys.argv[2]))["results"]
for each in results:
    if each["outcome"] in bad:
        print("--case=" + each["rule"])
sys.exit(not results)
PYTHON
}

jobs() {
    [[ -x $build/tests/am/am-ranks ]] || { echo "skipped: the build has no libdapl-am"; return 0; }
    LD_LIBRARY_PATH=$build/dat:$build/am python3 "$source/tests/am/run_jobs.py" \
        program "$build/tests/am/am-ranks" --adapter "$adapter" --ranks 2 --limit 1500 --show \
        --set AM_RANDOM_TRANSFERS=500 ${1:+--pass=--test-case="$1"}
}

await() {
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        ! eval "$1" || return 0
        sleep 0.1
    done
    echo "waited in vain: $1"
    return 1
}

bring_back() {
    await "[[ ! -e /sys/class/infiniband/$device ]]" || return
    rdma link add "$device" type "${device%0}" netdev "${networks[$device]}" || return
    await "grep -q ACTIVE /sys/class/infiniband/$device/ports/1/state"
}

removal() {
    "$build/tests/verbs/verbs-device-test" "$adapter" "$device" --test-case='removal*' || return
    bring_back || return
    device 'IPv6' || return
    "$build/conformance/dapl-conformance" --ia "$adapter" --keep-loaded librdmacm.so.1 \
        --patience 60 --timeout 300 --fail-device "rdma link delete $device" || return
    bring_back || return
    device 'IPv6'
}

has_benchmark() {
    [[ -x $build/bench/$1 ]] || { echo "skipped: the build has no benchmark $1"; return 1; }
}

switches() {
    has_benchmark context-switches || return 0
    local beside=()
    ! grep -q "^$adapter-plain " "$DAT_OVERRIDE" || beside=("$adapter-plain")
    "$build/bench/context-switches" "$adapter" "${beside[@]}" --wakeups 50 --rounds 3 --limit 1.3
}

# Both providers are loaded by our libdat2, for one program to compare them.
both_conf() {
    { cat "$DAT_OVERRIDE"; ofed_line "$1"; } >/run/both.conf
    echo /run/both.conf
}

performance() {
    local provider
    provider=$(ofed_provider) || return 0
    DAT_OVERRIDE=$(both_conf "$provider") "$build/bench/overhead" \
        "$adapter" "ofed-$device" --beside verbs --node "$host" \
        --tests latency,waiting,cno,rate,connections --batches 40 --iterations 200 --warmup 20 \
        --json "$out/$device-performance.json"
}

instructions() {
    local provider conf failed=0 each
    has_benchmark instructions-probe || return 0
    provider=$(ofed_provider) || return 0
    conf=$(both_conf "$provider")
    local -x DAT_OVERRIDE=$conf
    for each in "$adapter" "ofed-$device"; do
        "$build/bench/instructions" "$each" --probe "$build/bench/instructions-probe" \
            --json "$out/$each-instructions.json" || failed=1
    done
    [[ $failed == 0 ]] && python3 - "$device" \
        "$out"/{"$adapter","ofed-$device"}-instructions.json <<'PYTHON'
import json, sys
most = dict.fromkeys(("post_rdma_write", "post_send", "post_recv", "dequeue", "dequeue_empty",
                      "wait_ready"), 0.40)  # of those of OFED's provider
most["dequeue_empty"] = 0.43  # OFED's provider does not count empty polls
if sys.argv[1] == "siw0":  # SIGPIPE is blocked around the first two, and the rest put in order
    most |= {"post_rdma_write": 1.0, "post_send": 1.0, "dequeue": 0.70, "dequeue_empty": 0.75,
             "wait_ready": 0.50}
ours, theirs = (json.load(open(name))["calls"] for name in sys.argv[2:])
ratios = {call: ours[call]["provider"] / theirs[call]["provider"] for call in ours}
print("ours to OFED's: " + ", ".join(f"{call} {ratio:.3f}" for call, ratio in ratios.items()))
above = [f"{call} {ratios[call]:.3f} > {limit}" for call, limit in most.items()
         if ratios[call] > limit]
sys.exit(", ".join(above) or 0)
PYTHON
}

make_dat_conf >$DAT_OVERRIDE
echo 1 >/proc/sys/net/ipv4/tcp_syn_retries # siw waits for TCP to give up
failed=0
for round; do
    name=${round%%=*} what=${round#"$name"}
    echo "=== $adapter: $round"
    "$name" "${what#=}" || { echo "=== $adapter: $round: FAILED, status $?"; failed=1; }
done
exit "$failed"
