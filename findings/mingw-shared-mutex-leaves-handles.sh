#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# g++-mingw-w64-x86-64-posix 12.2.0-14+deb12u1+25.2+b1 with its winpthreads (Debian 12), run by wine64 8.0~repack-4. A
# program makes and destroys 100 std::mutex and 100 std::shared_mutex, locks each once, and counts its handles.
# Guess: they are words of memory, as with Windows's own slim locks; whatever they open, their destructors close.
# Seen: a std::shared_mutex opens two handles of the system at its first use, and the destructor leaves
# them open: libstdc++ takes its lock for one that was made by an initializer and need not be destroyed, and winpthreads
# makes such a lock a real one when it is first locked. A std::mutex leaves none. A library that makes a lock of this
# kind for each of its objects runs out of handles in a process that lives long enough.

set -euo pipefail
# Wine does not start from a folder that it was unpacked into.
has=$(dpkg-query -W -f '${Package}=${Version} ' wine64 g++-mingw-w64-x86-64-posix 2>/dev/null || true)
wants='g++-mingw-w64-x86-64-posix=12.2.0-14+deb12u1+25.2+b1 wine64=8.0~repack-4 '
if [[ $has != "$wants" ]]; then
    echo "skipped: needs $wants"
    exit 77
fi
folder=$(mktemp -d)
export WINEPREFIX=$folder/prefix WINEDEBUG=-all WINEDLLOVERRIDES=mscoree,mshtml=
trap '/usr/lib/wine/wineserver64 -k || true; rm -rf "$folder"' EXIT
cd "$folder"

cat >locks.cpp <<'PROGRAM'
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <windows.h>

static int handles()
{
    int found = 0;
    DWORD flags;
    for (std::uintptr_t value = 4; value < 65536; value += 4)
        found += GetHandleInformation(reinterpret_cast<HANDLE>(value), &flags) != 0;
    return found;
}

template <class Lock>
static void use(const char *name)
{
    const int before = handles();
    for (int i = 0; i < 100; ++i) {
        Lock lock;
        lock.lock();
        lock.unlock();
    }
    std::printf("100 %s made and destroyed: %d handles more\n", name, handles() - before);
}

int main()
{
    use<std::mutex>("std::mutex");
    use<std::shared_mutex>("std::shared_mutex");
}
PROGRAM
x86_64-w64-mingw32-g++-posix -std=c++17 -static locks.cpp -o locks.exe
/usr/lib/wine/wine64 locks.exe | tr -d '\r' | tee output
diff - output <<'SEEN'
100 std::mutex made and destroyed: 0 handles more
100 std::shared_mutex made and destroyed: 200 handles more
SEEN
echo "as seen before"
