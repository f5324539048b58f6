// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Finds a socket that a library has opened and does not show.
#pragma once

#include <cstdint>
#include <optional>
#include <sys/socket.h>

namespace dapl::port_support {

/// The two addresses of a connected socket; no two sockets share both. Unused bytes are zero, and
/// so is the whole peer of a listening socket.
struct socket_ends {
    sockaddr_storage local{};
    sockaddr_storage peer{};
};

/// The descriptor of this process with these ends, or -1. Sockets made one after the other have
/// neighbouring descriptors: `hint` is where to look first.
int find_socket(const socket_ends &wanted, int hint);

/// Whether the peer closed the connection, or it failed, though data may still wait to be read.
bool has_hung_up(int fd);

/// For how long nothing has come on an established connection, in milliseconds; as long as can be
/// if something came and was read. Nothing for one with bytes to read, or that is ending, or not
/// TCP.
std::optional<std::uint32_t> unused_ms(int fd);

/// A number that changes whenever bytes come in or go out, or are read or written here. Nothing for
/// a socket that is not TCP.
std::optional<std::uint64_t> bytes_moved(int fd);

} // namespace dapl::port_support
