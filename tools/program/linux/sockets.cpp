// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/sockets.hpp"

#include "program/failure.hpp"

#include <cerrno>
#include <cstring>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace program {
namespace {

int fd_of(socket::number of)
{
    return static_cast<int>(of);
}

std::ptrdiff_t moved(ssize_t bytes)
{
    if (bytes < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    return bytes;
}

} // namespace

void start_sockets() {}

std::string socket_error()
{
    return std::strerror(errno);
}

socket socket::open(int family, int type)
{
    return socket(::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

std::pair<socket, socket> socket::pair()
{
    int ends[2] = {-1, -1};
    (void)::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
    return {socket(ends[0]), socket(ends[1])};
}

socket socket::inherited(number of)
{
    return socket(of);
}

void socket::close()
{
    if (is_open())
        ::close(fd_of(number_));
    number_ = -1;
}

bool socket::bind(const sockaddr *address, std::size_t size) const
{
    return ::bind(fd_of(number_), address, static_cast<socklen_t>(size)) == 0;
}

void socket::open_port() const
{
    const int on = 1;
    (void)::setsockopt(fd_of(number_), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

bool socket::listen(int backlog) const
{
    return ::listen(fd_of(number_), backlog) == 0;
}

socket socket::accept(sockaddr_storage &from) const
{
    socklen_t size = sizeof from;
    const int made = ::accept4(fd_of(number_), reinterpret_cast<sockaddr *>(&from), &size,
                               SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (made < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        throw failure("accept: " + socket_error());
    return socket(made);
}

bool socket::connect(const sockaddr *address, std::size_t size) const
{
    return ::connect(fd_of(number_), address, static_cast<socklen_t>(size)) == 0 ||
           errno == EINPROGRESS;
}

std::string socket::refusal() const
{
    int error = 0;
    socklen_t size = sizeof error;
    (void)::getsockopt(fd_of(number_), SOL_SOCKET, SO_ERROR, &error, &size);
    return error == 0 ? "" : std::strerror(error);
}

void socket::be_prompt() const
{
    const int on = 1;
    (void)::setsockopt(fd_of(number_), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool socket::own_name(sockaddr_storage &name) const
{
    socklen_t size = sizeof name;
    return ::getsockname(fd_of(number_), reinterpret_cast<sockaddr *>(&name), &size) == 0;
}

bool socket::peer_name(sockaddr_storage &name) const
{
    socklen_t size = sizeof name;
    return ::getpeername(fd_of(number_), reinterpret_cast<sockaddr *>(&name), &size) == 0;
}

std::ptrdiff_t socket::send(const void *bytes, std::size_t size) const
{
    return moved(::send(fd_of(number_), bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT));
}

std::ptrdiff_t socket::receive(void *bytes, std::size_t size) const
{
    const ssize_t got = ::recv(fd_of(number_), bytes, size, MSG_DONTWAIT);
    return got == 0 ? -1 : moved(got);
}

bool socket::becomes(wanted what, int milliseconds) const
{
    pollfd asked{fd_of(number_), static_cast<short>(what == wanted::readable ? POLLIN : POLLOUT),
                 0};
    for (;;) {
        const int found = ::poll(&asked, 1, milliseconds);
        if (found >= 0)
            return found > 0;
        if (errno != EINTR)
            throw failure(std::string("poll: ") + std::strerror(errno));
    }
}

void socket::wait_for_any(std::span<const socket *const> all, int milliseconds)
{
    std::vector<pollfd> asked;
    for (const socket *each : all)
        asked.push_back({fd_of(each->number_), POLLIN, 0});
    if (::poll(asked.data(), asked.size(), milliseconds) < 0 && errno != EINTR)
        throw failure(std::string("poll: ") + std::strerror(errno));
}

bool socket::is_alone() const
{
    pollfd asked{fd_of(number_), POLLRDHUP, 0};
    return ::poll(&asked, 1, 0) > 0 && (asked.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

} // namespace program
