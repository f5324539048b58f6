#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libbenchmark1debian 1.7.1-1 (Debian 12), google-benchmark. The exit status of a BENCHMARK_MAIN() program
# whose benchmarks all call State::SkipWithError("no device"), and where --benchmark_filter matches none.
# Guess: not 0: the user guide says that the call serves to "report the error", and a wrong flag gives 1.
# Seen: 0 both times. The error stands in the table alone ("ERROR OCCURRED"), and in JSON as "error_occurred",
# with a time of 0. So a job that runs benchmarks over a device passes where the device is missing, and who
# compares times without that field records one of 0 ns.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root libbenchmark-dev=1.7.1-1 libbenchmark1debian=1.7.1-1
for package in ./*.deb; do dpkg -x "$package" .; done
libraries=$PWD/usr/lib/x86_64-linux-gnu

cat >probe.cpp <<'CPP'
#include <benchmark/benchmark.h>

static void send(benchmark::State &state)
{
    state.SkipWithError("no device");
    for (auto _ : state) {
    }
}
BENCHMARK(send);
BENCHMARK_MAIN();
CPP
c++ -I usr/include -o probe probe.cpp -L "$libraries" -Wl,-rpath,"$libraries" -lbenchmark -lpthread

status_of() {
    local status=0
    "$@" >/dev/null 2>&1 || status=$?
    echo "$status"
}
{
    echo "SkipWithError: $(status_of ./probe)"
    echo "filter that matches none: $(status_of ./probe --benchmark_filter=receive)"
    echo "wrong flag: $(status_of ./probe --benchmark_fliter=send)"
    ./probe --benchmark_format=json 2>/dev/null | grep -oE '"(error_occurred|real_time)": [^,]*'
} | tee output
diff - output <<'SEEN'
SkipWithError: 0
filter that matches none: 0
wrong flag: 1
"error_occurred": true
"real_time": 0.0000000000000000e+00
SEEN
echo "as seen before"
