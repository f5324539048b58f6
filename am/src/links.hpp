// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Connections between ranks, and requests that are not messages: both come to the service point of
// a rank, whose thread takes them even if the program never polls.
//
// Of two ranks the lower one connects. The higher one asks it to by a connection request that is
// always rejected, so two connections never cross.
#pragma once

#include "job.hpp"

namespace am::links {

enum class purpose : std::uint8_t {
    talk = 1, ///< the connection for messages and transfers
    knock,    ///< rejected; the other rank is to connect
    elect,    ///< may I ask all ranks to end? accepted: yes
    leave     ///< end; rejected: yes
};

/// The private data of every connection request. 40 bytes: some adapters carry few more.
struct hello {
    std::uint32_t magic;
    purpose what;
    std::uint8_t unused[3];
    std::uint32_t rank;
    std::int32_t code; ///< of elect, leave: the exit code
    std::uint64_t number;
    proof shown;
};

/// That of what accepts or rejects it.
struct answer {
    std::uint32_t magic;
    std::uint32_t unused;
    proof shown;
};

/// Of a new request to this rank.
hello make_hello(peer &to, purpose what, int code);
/// Whether the event that ends a request has come from that rank, which knows the secret.
bool answered(const peer &by, purpose what, std::uint64_t number, const DAT_EVENT &event);

/// Starts to listen. @return a status
int open(location &mine);
/// Starts the thread that serves connections. @return a status
int serve();

/// An endpoint without buffers, for requests that are not messages; of a peer, or of none.
DAT_EP_HANDLE make_plain_endpoint(DAT_EVD_HANDLE events, peer *of);
/// Whose endpoint it is, or null.
peer *peer_of(DAT_EP_HANDLE ep);
DAT_RETURN connect(DAT_EP_HANDLE ep, const peer &p, const hello &words, unsigned milliseconds);

/// Begins to connect unless that is done. @return whether the connection is up
bool ensure(peer &p);

/// Operations of this connection failed: tells why, and counts the peer as lost.
void failed(peer &p, DAT_DTO_COMPLETION_STATUS status);
/// The connection is gone. If the job does not end by itself soon, it is ended.
void lose(peer &p);

std::uint64_t established();

} // namespace am::links
