#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# wine64 8.0~repack-4 (Debian 12). A process asks for the number of its handles, opens 100 events, asks again, and
# counts for itself: it asks after each possible value of a handle.
# Guess: GetProcessHandleCount() counts 100 more, or fails where it cannot count.
# Seen: it succeeds and says 0 both times. A test for leaks that compares two counts passes under Wine whatever
# leaks. GetHandleInformation() knows each handle, so that a walk over the values finds them.

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

cat >count.c <<'PROGRAM'
#include <stdint.h>
#include <stdio.h>
#include <windows.h>

static int walk(void)
{
    int found = 0;
    DWORD flags;
    for (uintptr_t value = 4; value < 65536; value += 4)
        found += GetHandleInformation((HANDLE)value, &flags) != 0;
    return found;
}

static DWORD asked(void)
{
    DWORD count = 12345;
    return GetProcessHandleCount(GetCurrentProcess(), &count) ? count : 54321;
}

int main(void)
{
    const int walked = walk();
    const DWORD first = asked();
    for (int i = 0; i < 100; ++i)
        CreateEventA(NULL, FALSE, FALSE, NULL);
    printf("GetProcessHandleCount: %lu, then %lu\n", first, asked());
    printf("found by a walk: %d more\n", walk() - walked);
    return 0;
}
PROGRAM
x86_64-w64-mingw32-gcc-win32 count.c -o count.exe
/usr/lib/wine/wine64 count.exe | tr -d '\r' | tee output
diff - output <<'SEEN'
GetProcessHandleCount: 0, then 0
found by a walk: 100 more
SEEN
echo "as seen before"
