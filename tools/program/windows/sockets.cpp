// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/sockets.hpp"

#include "program/failure.hpp"
#include "program/windows/new_process.hpp"

namespace program {
namespace {

SOCKET handle_of(socket::number of)
{
    return static_cast<SOCKET>(of);
}

std::ptrdiff_t moved(int bytes)
{
    if (bytes == SOCKET_ERROR)
        return WSAGetLastError() == WSAEWOULDBLOCK ? 0 : -1;
    return bytes;
}

void block_nowhere(SOCKET which)
{
    u_long on = 1;
    (void)ioctlsocket(which, FIONBIO, &on);
}

void switch_on(SOCKET which, int level, int option, BOOL on = TRUE)
{
    (void)setsockopt(which, level, option, reinterpret_cast<const char *>(&on), sizeof on);
}

} // namespace

void start_sockets()
{
    static const int started = [] {
        WSADATA about;
        return WSAStartup(MAKEWORD(2, 2), &about);
    }();
    (void)started;
}

std::string socket_error()
{
    return system_text(static_cast<DWORD>(WSAGetLastError()));
}

socket socket::open(int family, int type)
{
    start_sockets();
    const SOCKET made =
        WSASocketW(family, type, 0, nullptr, 0, WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
    block_nowhere(made);
    return socket(static_cast<number>(made)); // INVALID_SOCKET is -1
}

/// Winsock of Wine 8 sends by sockets only that it has made itself: it makes one of the inherited
/// handle.
socket socket::inherited(number of)
{
    start_sockets();
    WSAPROTOCOL_INFOW about{};
    if (WSADuplicateSocketW(handle_of(of), GetCurrentProcessId(), &about) != 0)
        return socket(of);
    const SOCKET made = WSASocketW(FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO,
                                   &about, 0, WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
    CloseHandle(reinterpret_cast<HANDLE>(of));
    return socket(static_cast<number>(made));
}

/// Windows has no pairs of sockets: one of them listens for a moment.
std::pair<socket, socket> socket::pair()
{
    const socket listening = open(AF_INET, SOCK_STREAM);
    socket one = open(AF_INET, SOCK_STREAM);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto *const address = reinterpret_cast<sockaddr *>(&at);
    int size = sizeof at;
    if (!listening.bind(address, sizeof at) ||
        getsockname(handle_of(listening.number_), address, &size) != 0 || !listening.listen())
        return {};
    (void)::connect(handle_of(one.number_), address, size);
    if (!listening.becomes(wanted::readable, 10'000))
        return {};
    socket other(static_cast<number>(::accept(handle_of(listening.number_), nullptr, nullptr)));
    block_nowhere(handle_of(other.number_));
    for (const socket *each : {&one, &other})
        each->be_prompt();
    if (!one.becomes(wanted::writable, 10'000))
        return {};
    return {std::move(one), std::move(other)};
}

void socket::close()
{
    if (is_open())
        closesocket(handle_of(number_));
    number_ = -1;
}

bool socket::bind(const sockaddr *address, std::size_t size) const
{
    return ::bind(handle_of(number_), address, static_cast<int>(size)) == 0;
}

/// Connections that are not forgotten are no hindrance here, but other processes could take part
/// of the callers.
void socket::open_port() const
{
    switch_on(handle_of(number_), SOL_SOCKET, SO_EXCLUSIVEADDRUSE);
    switch_on(handle_of(number_), IPPROTO_IPV6, IPV6_V6ONLY, FALSE);
}

bool socket::listen(int backlog) const
{
    return ::listen(handle_of(number_), backlog) == 0;
}

socket socket::accept(sockaddr_storage &from) const
{
    int size = sizeof from;
    const SOCKET made = ::accept(handle_of(number_), reinterpret_cast<sockaddr *>(&from), &size);
    if (made == INVALID_SOCKET && WSAGetLastError() != WSAEWOULDBLOCK &&
        WSAGetLastError() != WSAECONNRESET)
        throw failure("accept: " + socket_error());
    block_nowhere(made);
    return socket(static_cast<number>(made));
}

bool socket::connect(const sockaddr *address, std::size_t size) const
{
    return ::connect(handle_of(number_), address, static_cast<int>(size)) == 0 ||
           WSAGetLastError() == WSAEWOULDBLOCK;
}

std::string socket::refusal() const
{
    DWORD error = 0;
    int size = sizeof error;
    (void)getsockopt(handle_of(number_), SOL_SOCKET, SO_ERROR, reinterpret_cast<char *>(&error),
                     &size);
    return error == 0 ? "" : system_text(error);
}

void socket::be_prompt() const
{
    switch_on(handle_of(number_), IPPROTO_TCP, TCP_NODELAY);
}

bool socket::own_name(sockaddr_storage &name) const
{
    int size = sizeof name;
    return getsockname(handle_of(number_), reinterpret_cast<sockaddr *>(&name), &size) == 0;
}

bool socket::peer_name(sockaddr_storage &name) const
{
    int size = sizeof name;
    return getpeername(handle_of(number_), reinterpret_cast<sockaddr *>(&name), &size) == 0;
}

std::ptrdiff_t socket::send(const void *bytes, std::size_t size) const
{
    return moved(
        ::send(handle_of(number_), static_cast<const char *>(bytes), static_cast<int>(size), 0));
}

std::ptrdiff_t socket::receive(void *bytes, std::size_t size) const
{
    const int got =
        ::recv(handle_of(number_), static_cast<char *>(bytes), static_cast<int>(size), 0);
    return got == 0 ? -1 : moved(got);
}

/// Asks select(): WSAPoll of Windows before 10 2004 tells of no connect that fails.
bool socket::becomes(wanted what, int milliseconds) const
{
    fd_set asked;
    FD_ZERO(&asked);
    FD_SET(handle_of(number_), &asked);
    fd_set failed = asked; // a connect that fails is told there
    timeval limit{milliseconds / 1000, milliseconds % 1000 * 1000};
    const int found = what == wanted::readable ? select(0, &asked, nullptr, nullptr, &limit)
                                               : select(0, nullptr, &asked, &failed, &limit);
    if (found < 0)
        throw failure("select: error " + std::to_string(WSAGetLastError()));
    return found > 0;
}

void socket::wait_for_any(std::span<const socket *const> all, int milliseconds)
{
    fd_set asked;
    FD_ZERO(&asked);
    for (const socket *each : all)
        FD_SET(handle_of(each->number_), &asked);
    timeval limit{milliseconds / 1000, milliseconds % 1000 * 1000};
    if (select(0, &asked, nullptr, nullptr, &limit) < 0)
        throw failure("select: " + socket_error());
}

bool socket::is_alone() const
{
    char next;
    const int there = ::recv(handle_of(number_), &next, 1, MSG_PEEK);
    return there == 0 || (there < 0 && WSAGetLastError() != WSAEWOULDBLOCK);
}

} // namespace program
