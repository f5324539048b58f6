#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# wine64 8.0~repack-4 (Debian 12). A process calls FlushProcessWriteBuffers(), by which one thread makes all others
# of its process execute a memory barrier.
# Guess: Wine passes it on to membarrier(), or interrupts the processors in another way.
# Seen: it does nothing, and says so in its log only. Asymmetric barriers, whose quick side relies on that call, do
# not exclude one another there.

set -euo pipefail
# Wine does not start from a folder that it was unpacked into.
has=$(dpkg-query -W -f '${Package}=${Version} ' wine64 gcc-mingw-w64-x86-64-win32 2>/dev/null || true)
wants='gcc-mingw-w64-x86-64-win32=12.2.0-14+deb12u1+25.2+b1 wine64=8.0~repack-4 '
if [[ $has != "$wants" ]]; then
    echo "skipped: needs $wants"
    exit 77
fi
folder=$(mktemp -d)
export WINEPREFIX=$folder/prefix WINEDEBUG=-all WINEDLLOVERRIDES=mscoree,mshtml=
trap '/usr/lib/wine/wineserver64 -k || true; rm -rf "$folder"' EXIT
cd "$folder"

cat >flush.c <<'PROGRAM'
#include <windows.h>

int main(void)
{
    FlushProcessWriteBuffers();
    return 0;
}
PROGRAM
x86_64-w64-mingw32-gcc-win32 flush.c -o flush.exe
/usr/lib/wine/wine64 wineboot --init
WINEDEBUG=fixme+virtual /usr/lib/wine/wine64 flush.exe 2>&1 | tr -d '\r' | sed 's/^[0-9a-f]*://' | grep Flush >output
cat output
diff - output <<'SEEN'
fixme:virtual:NtFlushProcessWriteBuffers stub
SEEN
echo "as seen before"
