// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Active messages: their form on the connection, credits, and handlers.
//
// Of M credits a request takes one, and what gives it back is a reply or a count in any later
// message. M receives stand on each connection. Before a request one more is posted, for the
// message that brings its credit back, unless there is a spare one: a credit that came with
// another message leaves one.
#pragma once

#include "job.hpp"

namespace am {

enum class category : std::uint8_t {
    short_message,
    medium,
    long_message, ///< the payload was written before
    packed_long,  ///< the payload follows, and is copied to its address
    // Of the library's own:
    barrier,
    fill,   ///< memset
    filled, ///< its reply
    credits
};

constexpr std::uint8_t reply_bit = 0x80;

struct header {
    std::uint8_t what; ///< category, and reply_bit
    std::uint8_t handler;
    std::uint8_t count;   ///< of arguments
    std::uint8_t credits; ///< given back
    std::uint32_t size;   ///< of the payload
    std::uint64_t address;
};

constexpr std::size_t max_header = sizeof(header) + DAPL_AM_MAX_ARGS * sizeof(std::int32_t);
constexpr std::size_t max_medium = buffer_size - max_header;

/// A message to be sent.
struct message {
    category what;
    int handler = 0;
    int count = 0;
    const std::int32_t *args = nullptr;
    const void *payload = nullptr;
    std::uint32_t size = 0; ///< of the payload, sent along or not
    std::uint64_t address = 0;
    bool carried = false; ///< the payload is in the message
};

/// Sends a request to a connected peer if it has a credit and the queue has room.
bool try_request(peer &p, const message &m);
/// Waits for connection, credit and room; polls. Not from handlers.
/// @return DAPL_AM_OK, or with DAPL_AM_IMMEDIATE in flags DAPL_AM_NOT_READY
int request(peer &p, const message &m, unsigned flags);
/// The same for the connection only.
int await_connection(peer &p, unsigned flags);

/// Checks and takes over the table of handlers. @return a status
int set_handlers(DAPL_AM_HANDLER *handlers, int count);

/// Takes what has arrived. @return whether there was anything
bool poll_messages();
int start_receive_thread();

} // namespace am
