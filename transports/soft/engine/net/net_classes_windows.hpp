// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Traffic classes of datagrams on Windows. Each way to set them is one that some systems take and
// ignore: what counts is which class a datagram to the loopback interface arrives with.
#pragma once

#include "net.hpp"

#include <mswsock.h>

namespace soft_hca {

/// A socket that sends each datagram in the class of the address that it goes to.
class class_sender {
public:
    /// Sends a datagram. Returns 0, or Winsock's error.
    int send(SOCKET socket, const net_address &to, WSABUF *pieces, DWORD count);

private:
    int send_by_option(SOCKET socket, const net_address &to, WSABUF *pieces, DWORD count);

    /// A datagram had a class, so that the option of the socket may be set.
    std::atomic<bool> used_{false};
    osd::mutex lock_; ///< from setting the option until the datagram is sent
    std::uint8_t option_ = 0;
};

/// Lets datagrams tell their class from now on. Returns null if the system does not.
LPFN_WSARECVMSG tell_classes(SOCKET socket, int family);

/// Receives a datagram, and its class with the address. Returns 0, or Winsock's error.
int receive_with_class(SOCKET socket, LPFN_WSARECVMSG call, net_address &from, WSABUF &piece,
                       DWORD &got);

} // namespace soft_hca
