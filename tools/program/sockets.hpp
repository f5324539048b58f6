// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Sockets of programs: they block nowhere, and programs that are started do not inherit them.
#pragma once

#include "native_socket.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace program {

/// Windows wants it before names of hosts are looked up; sockets do it themselves.
void start_sockets();
/// Why the latest call of a socket, or of the function above, has failed.
std::string socket_error();

class socket {
public:
    using number = std::intptr_t; ///< the system's

    socket() = default;
    socket(socket &&other) noexcept : number_(std::exchange(other.number_, -1)) {}
    socket &operator=(socket &&other) noexcept
    {
        std::swap(number_, other.number_);
        return *this;
    }
    ~socket() { close(); }

    /// It is not open where the system makes none.
    static socket open(int family, int type);
    /// A socket that the parent of this process has let it have.
    static socket inherited(number of);
    /// Two ends of a stream inside this host.
    static std::pair<socket, socket> pair();
    void close();
    bool is_open() const { return number_ != -1; }
    number get() const { return number_; }

    /// Lets a listener have its port although earlier connections of it are not forgotten yet, and
    /// callers over IPv4, too, if it is one of IPv6.
    void open_port() const;
    bool bind(const sockaddr *address, std::size_t size) const;
    bool listen(int backlog = 1) const;
    /// Takes a caller, whose address is stored. The socket is not open where nobody calls any more.
    /// Throws a failure where the system has no socket left.
    socket accept(sockaddr_storage &from) const;
    /// Begins to connect: the socket becomes writable when that has ended. Returns false where it
    /// has failed already.
    bool connect(const sockaddr *address, std::size_t size) const;
    /// Nothing when it is connected, or why it was refused.
    std::string refusal() const;
    /// Sends each byte at once, without a wait for more.
    void be_prompt() const;
    bool own_name(sockaddr_storage &name) const;
    bool peer_name(sockaddr_storage &name) const;
    /// Both return the number of bytes that the system moved: 0 when it can move none now, less
    /// than 0 when the other end is gone.
    std::ptrdiff_t send(const void *bytes, std::size_t size) const;
    std::ptrdiff_t receive(void *bytes, std::size_t size) const;
    enum class wanted { readable, writable };
    /// Whether it becomes so within the time. Throws a failure where the system cannot tell.
    bool becomes(wanted what, int milliseconds) const;
    /// Sleeps until one of them is readable, or so long.
    static void wait_for_any(std::span<const socket *const> all, int milliseconds);
    /// Whether the other end was closed.
    bool is_alone() const;

private:
    explicit socket(number of) : number_(of) {}

    number number_ = -1;
};

} // namespace program
