// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_descriptor.hpp"

#include "native_socket.hpp"

#include <algorithm>

namespace osd {

namespace {

SOCKET socket_of(int fd)
{
    return static_cast<SOCKET>(fd);
}

/// Connects a socket to itself on the loopback interface: nobody else's datagrams come in.
bool connect_to_itself(SOCKET socket)
{
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto *at = reinterpret_cast<sockaddr *>(&own);
    int size = sizeof own;
    u_long nonblocking = 1;
    return bind(socket, at, size) == 0 && getsockname(socket, at, &size) == 0 &&
           connect(socket, at, size) == 0 && ioctlsocket(socket, FIONBIO, &nonblocking) == 0;
}

} // namespace

int beyond_standard(int fd)
{
    return fd;
}

void occupy_standard() {}

bool event_descriptor::open()
{
    WSADATA about;
    // Counted by the system; close() has the other half.
    if (WSAStartup(MAKEWORD(2, 2), &about) != 0)
        return false;
    const SOCKET made = WSASocketW(AF_INET, SOCK_DGRAM, 0, nullptr, 0,
                                   WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
    if (made != INVALID_SOCKET && connect_to_itself(made)) {
        fd_ = static_cast<int>(made);
        return true;
    }
    if (made != INVALID_SOCKET)
        closesocket(made);
    WSACleanup();
    return false;
}

void event_descriptor::close()
{
    if (is_open()) {
        closesocket(socket_of(fd_));
        WSACleanup();
    }
    fd_ = -1;
}

/// More than the socket holds are lost: one is enough.
void event_descriptor::raise()
{
    if (is_open())
        (void)send(socket_of(fd_), "", 1, 0);
}

void event_descriptor::lower()
{
    char taken;
    while (is_open() && recv(socket_of(fd_), &taken, sizeof taken, 0) > 0) {
    }
}

wait_result wait_readable(std::span<const int> descriptors, deadline until, std::uint64_t &ready)
{
    WSAPOLLFD watched[most_readable];
    std::size_t places[most_readable];
    ULONG count = 0;
    for (std::size_t i = 0; i < std::min(descriptors.size(), most_readable); ++i)
        if (descriptors[i] >= 0) { // the system refuses others
            places[count] = i;
            watched[count++] = {socket_of(descriptors[i]), POLLRDNORM, 0};
        }
    ready = 0;
    int found = 0;
    do
        found = count != 0 ? WSAPoll(watched, count, until.remaining_ms()) : -1;
    while (found == 0 && !until.has_passed());
    if (found < 0)
        Sleep(1);
    for (ULONG i = 0; found > 0 && i < count; ++i)
        ready |= std::uint64_t{watched[i].revents != 0} << places[i];
    return found == 0 ? wait_result::timed_out : wait_result::woken;
}

} // namespace osd
