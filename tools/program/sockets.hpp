// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Sockets of programs: they block nowhere, and programs that are started do not inherit them.
#pragma once

#include "native_socket.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace program {

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

    bool bind(const sockaddr *address, std::size_t size) const;
    bool listen() const;
    /// Both return the number of bytes that the system moved: 0 when it can move none now, less
    /// than 0 when the other end is gone.
    std::ptrdiff_t send(const void *bytes, std::size_t size) const;
    std::ptrdiff_t receive(void *bytes, std::size_t size) const;
    enum class wanted { readable, writable };
    /// Whether it becomes so within the time. Throws a failure where the system cannot tell.
    bool becomes(wanted what, int milliseconds) const;
    /// Whether the other end was closed.
    bool is_alone() const;

private:
    explicit socket(number of) : number_(of) {}

    number number_ = -1;
};

} // namespace program
