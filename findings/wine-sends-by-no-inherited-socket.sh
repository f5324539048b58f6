#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# wine64 8.0~repack-4 (Debian 12). A process makes two connected sockets and starts another one, which inherits
# the handle of one of them and is told its number.
# Guess: the child uses the socket as its parent does, as on Windows.
# Seen: it receives, but send() and WSAPoll() answer 10038, "not a socket". What goes through the file of the
# socket works, and what asks Winsock's own list of the process does not: that has the sockets which the process
# made itself. WSADuplicateSocket() for the child's own process and WSASocket() with what it answers make such a
# one of the inherited handle.

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

cat >inherit.c <<'PROGRAM'
#include <winsock2.h>
#include <windows.h>
#include <stdio.h>
#include <stdlib.h>

static void say(const char *what, int result)
{
    if (result == SOCKET_ERROR)
        printf("%s: error %d\n", what, WSAGetLastError());
    else
        printf("%s: %d\n", what, result);
    fflush(stdout);
}

static void as_child(SOCKET s)
{
    WSAPROTOCOL_INFOA about;
    WSAPOLLFD asked = {s, POLLRDNORM, 0};
    SOCKET copy;
    char bytes[8];

    say("child, recv", recv(s, bytes, 2, 0));
    say("child, send", send(s, "ok", 2, 0));
    say("child, WSAPoll", WSAPoll(&asked, 1, 1000));
    say("child, WSADuplicateSocket", WSADuplicateSocketA(s, GetCurrentProcessId(), &about));
    copy = WSASocketA(-1, -1, -1, &about, 0, WSA_FLAG_OVERLAPPED);
    say("child, send by the duplicate", send(copy, "ok", 2, 0));
}

static void connected_pair(SOCKET *one, SOCKET *other)
{
    SOCKET listening = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {0};
    int size = sizeof at;

    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(listening, (struct sockaddr *)&at, sizeof at);
    listen(listening, 1);
    getsockname(listening, (struct sockaddr *)&at, &size);
    *one = socket(AF_INET, SOCK_STREAM, 0);
    connect(*one, (struct sockaddr *)&at, sizeof at);
    *other = accept(listening, NULL, NULL);
}

int main(int argc, char **argv)
{
    STARTUPINFOA how = {sizeof how};
    PROCESS_INFORMATION made;
    char line[64];
    SOCKET ours, theirs;
    WSADATA about;

    WSAStartup(MAKEWORD(2, 2), &about);
    if (argc == 2) {
        as_child((SOCKET)_strtoui64(argv[1], NULL, 10));
        return 0;
    }
    connected_pair(&ours, &theirs);
    send(ours, "to", 2, 0);
    SetHandleInformation((HANDLE)theirs, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
    snprintf(line, sizeof line, "inherit %llu", (unsigned long long)theirs);
    if (!CreateProcessA(argv[0], line, NULL, NULL, TRUE, 0, NULL, NULL, &how, &made))
        return 1;
    WaitForSingleObject(made.hProcess, INFINITE);
    return 0;
}
PROGRAM
x86_64-w64-mingw32-gcc-win32 inherit.c -o inherit.exe -lws2_32
/usr/lib/wine/wine64 inherit.exe | tr -d '\r' | tee output
diff - output <<'SEEN'
child, recv: 2
child, send: error 10038
child, WSAPoll: error 10038
child, WSADuplicateSocket: 0
child, send by the duplicate: 2
SEEN
echo "as seen before"
