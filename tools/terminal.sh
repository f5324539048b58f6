# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Messages of our scripts: to be sourced, not executed.

if [[ -t 1 && -z ${NO_COLOR:-} && ${CI:-} != true ]]; then
    on_terminal=1 bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' dim=$'\e[2m' plain=$'\e[0m'
else
    on_terminal='' bold='' red='' green='' dim='' plain=''
fi

say() { printf '%s\n' "$*"; }
headline() { printf '%s%s%s\n' "$bold" "$*" "$plain"; }
warn() { printf '%s%s%s\n' "$red" "$*" "$plain" >&2; }

# die MESSAGE [REMEDY...]: print the error and remedies, one per line, and exit.
die() {
    warn "error: $1"
    shift
    (($# == 0)) || printf '  %s\n' "$@" >&2
    exit 1
}

# One line about a running step: rewritten in place on a terminal, otherwise one every 15 seconds.
show_progress() {
    local title=$1 seconds=$2 log=$3 detail
    detail=$(tail -n 1 "$log" 2>/dev/null | tr -d '\000-\037' || true)
    if [[ $on_terminal ]]; then
        local line="  $title  ${seconds} s  $detail"
        printf '\r\e[K%s%s%s' "$dim" "${line:0:$((${COLUMNS:-80} - 1))}" "$plain"
    elif ((seconds >= progress_due)); then
        printf '  %s: %d s, %s\n' "$title" "$seconds" "${detail:0:100}"
        progress_due=$((seconds + 15))
    fi
}

# run_step TITLE LOG COMMAND...: run a command with its output in LOG, show that it is alive, and
# show the end of the log if it fails. Returns the command's status.
run_step() {
    local title=$1 log=$2 began=$SECONDS status=0 pid
    shift 2
    mkdir -p "$(dirname "$log")"
    : >"$log"
    set -m # a process group of its own, so that all of it can be ended
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    set +m
    # shellcheck disable=SC2064 # this very process, whatever the variable holds later
    trap "kill -TERM -- -$pid 2>/dev/null; exit 130" INT TERM
    progress_due=2
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.2
        ((SECONDS - began < 2)) || show_progress "$title" $((SECONDS - began)) "$log"
    done
    wait "$pid" || status=$?
    trap - INT TERM
    [[ -z $on_terminal ]] || printf '\r\e[K'
    if ((status == 0)); then
        printf '  %s%s%s, %d s\n' "$green" "$title" "$plain" $((SECONDS - began))
    else
        printf '  %s%s failed%s after %d s; the end of %s:\n' \
            "$red" "$title" "$plain" $((SECONDS - began)) "$log"
        tail -n 40 "$log" | sed 's/^/    /'
    fi
    return "$status"
}
