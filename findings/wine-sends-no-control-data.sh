#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# wine64 8.0~repack-4 (Debian 12). A program sends a datagram by WSASendMsg() with a traffic class as control data
# (IP_TOS), as newer versions of Windows take it, and looks at what arrives.
# Guess: it has the class, or the call fails with WSAEINVAL, as Windows 10 does.
# Seen: the call succeeds, and the datagram has class 0. Control data that come are told: with the class set as an
# option of the socket, which Windows ignores, the datagram arrives with it.

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

cat >class.c <<'PROGRAM'
#include <winsock2.h>
#include <ws2tcpip.h>
#include <mswsock.h>
#include <stdio.h>
#include <string.h>

static SOCKET s;
static struct sockaddr_in at = {.sin_family = AF_INET};
static char octet;
static WSABUF piece = {1, &octet};

static void show(const char *how, int sent)
{
    GUID id = WSAID_WSARECVMSG;
    LPFN_WSARECVMSG receive;
    DWORD n;
    char control[256] = {0};
    WSAMSG m = {(struct sockaddr *)&at, sizeof at, &piece, 1, {sizeof control, control}, 0};
    int found = -1;

    WSAIoctl(s, SIO_GET_EXTENSION_FUNCTION_POINTER, &id, sizeof id, &receive, sizeof receive, &n, NULL, NULL);
    receive(s, &m, &n, NULL, NULL);
    for (WSACMSGHDR *c = WSA_CMSG_FIRSTHDR(&m); c != NULL; c = WSA_CMSG_NXTHDR(&m, c))
        if (c->cmsg_level == IPPROTO_IP)
            found = *(unsigned char *)WSA_CMSG_DATA(c);
    printf("%s: the call answers %d, the class is %d\n", how, sent, found);
}

int main(void)
{
    WSADATA about;
    const int on = 1, class = 40;
    int size = sizeof at;
    DWORD n;
    char control[WSA_CMSG_SPACE(sizeof class)] = {0};
    WSACMSGHDR *head = (WSACMSGHDR *)control;
    WSAMSG m = {(struct sockaddr *)&at, sizeof at, &piece, 1, {sizeof control, control}, 0};

    WSAStartup(MAKEWORD(2, 2), &about);
    s = socket(AF_INET, SOCK_DGRAM, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(s, (struct sockaddr *)&at, sizeof at);
    getsockname(s, (struct sockaddr *)&at, &size);
    setsockopt(s, IPPROTO_IP, IP_RECVTOS, (const char *)&on, sizeof on);
    head->cmsg_len = WSA_CMSG_LEN(sizeof class);
    head->cmsg_level = IPPROTO_IP;
    head->cmsg_type = IP_TOS;
    memcpy(WSA_CMSG_DATA(head), &class, sizeof class);
    show("control data", WSASendMsg(s, &m, 0, &n, NULL, NULL));
    setsockopt(s, IPPROTO_IP, IP_TOS, (const char *)&class, sizeof class);
    show("option", WSASendTo(s, &piece, 1, &n, 0, (struct sockaddr *)&at, sizeof at, NULL, NULL));
    return 0;
}
PROGRAM
x86_64-w64-mingw32-gcc-win32 -D_WIN32_WINNT=0x0A00 class.c -o class.exe -lws2_32
/usr/lib/wine/wine64 wineboot --init
/usr/lib/wine/wine64 class.exe | tr -d '\r' >output
cat output
diff - output <<'SEEN'
control data: the call answers 0, the class is 0
option: the call answers 0, the class is 40
SEEN
echo "as seen before"
