#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# ibsim-utils 0.10-2 (Debian 12). ibsim-run starts a program on the simulated fabric by LD_PRELOAD.
# Guess: where LD_PRELOAD is set already, it appends its library.
# Seen: it appends the word "sim_so", the name of its shell variable without the dollar sign. The loader
# says that it ignores that, and the program runs on, on the real devices, with exit status 0.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root ibsim-utils=0.10-2
dpkg -x ibsim-utils_*.deb .

without=$(env -u LD_PRELOAD sh usr/bin/ibsim-run env 2>/dev/null | grep '^LD_PRELOAD=')
with=$(LD_PRELOAD=libm.so.6 sh usr/bin/ibsim-run env 2>warnings | grep '^LD_PRELOAD=')
printf 'LD_PRELOAD empty before: %s\nLD_PRELOAD=libm.so.6 before: %s\n' "$without" "$with"
[[ $without == */umad2sim/libumad2sim.so ]]
[[ $with == LD_PRELOAD=libm.so.6:sim_so ]]
grep -q "object 'sim_so' from LD_PRELOAD cannot be preloaded" warnings
LD_PRELOAD=libm.so.6 sh usr/bin/ibsim-run true 2>/dev/null
echo "as seen before"
