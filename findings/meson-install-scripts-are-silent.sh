#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# meson 1.0.1-5 (Debian 12). What users see of a script that "meson install" runs.
# Guess: its output, since it is the place to say "your edited configuration was kept".
# Seen: only that it runs. What a script that succeeds has written, to standard output or standard
# error, is dropped; of one that fails all is shown.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root meson=1.0.1-5
dpkg -x meson_*.deb .
export PYTHONPATH=$PWD/usr/share/meson:$PWD/usr/lib/python3/dist-packages
run_meson() { /usr/bin/python3 usr/bin/meson "$@"; }

mkdir project
cat >project/meson.build <<'MESON'
project('quiet')
meson.add_install_script('sh', '-c', 'echo said on output; echo said on error >&2; exit ${STATUS:-0}')
MESON
run_meson setup build project >/dev/null
run_meson install --no-rebuild -C build >good 2>&1
STATUS=3 run_meson install --no-rebuild -C build >bad 2>&1 && exit 1
printf 'script succeeds: %s lines of its own shown\nscript fails: %s lines of its own shown\n' \
    "$(grep -c '^said' good)" "$(grep -c '^said' bad)" | tee output
diff - output <<'SEEN'
script succeeds: 0 lines of its own shown
script fails: 2 lines of its own shown
SEEN
echo "as seen before"
