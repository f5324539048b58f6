// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The form of active messages on a connection.
#pragma once

#include "dapl_am.h"
#include "work_pool.hpp"

#include <cstddef>
#include <cstdint>

namespace am {

enum class category : std::uint8_t {
    short_message,
    medium,
    long_message, ///< the payload was written before
    packed_long,  ///< the payload follows, and is copied to its address
    // The library's own:
    barrier,
    fill,   ///< memset
    filled, ///< the reply to it
    credits
};

struct header {
    static constexpr std::uint8_t reply_bit = 0x80;

    std::uint8_t kind; ///< a category, and reply_bit
    std::uint8_t handler;
    std::uint8_t count;   ///< number of arguments
    std::uint8_t credits; ///< given back
    std::uint32_t size;   ///< bytes of the payload
    std::uint64_t address;

    category what() const { return static_cast<category>(kind & ~reply_bit); }
    bool is_request() const { return (kind & reply_bit) == 0; }
};

constexpr std::size_t max_header = sizeof(header) + DAPL_AM_MAX_ARGS * sizeof(std::int32_t);
constexpr std::size_t max_medium = buffer_size - max_header;
constexpr std::size_t max_long = 0x7fffffff;

/// A message to be sent.
struct message {
    category what;
    int handler = 0;
    int count = 0;
    const std::int32_t *args = nullptr;
    const void *payload = nullptr;
    std::uint32_t size = 0; ///< bytes of the payload, sent along or not
    std::uint64_t address = 0;
    bool carried = false; ///< the payload is in the message

    static message make(category what, int handler, const void *payload, void *address, int count,
                        const std::int32_t *args)
    {
        message m{what};
        m.handler = handler;
        m.count = count;
        m.args = args;
        m.payload = payload;
        m.address = reinterpret_cast<std::uint64_t>(address);
        m.carried = what == category::medium;
        return m;
    }
    /// Has a long message carry its payload if it has room. Otherwise the payload is written first.
    bool pack()
    {
        if (size > max_medium)
            return false;
        what = category::packed_long;
        carried = true;
        return true;
    }
    /// Checks what the program has passed. Returns a status.
    int check(std::size_t payload_size) const
    {
        const std::size_t most = what == category::medium ? max_medium : max_long;
        const bool good = handler >= 1 && handler < DAPL_AM_MAX_HANDLERS && count >= 0 &&
                          count <= DAPL_AM_MAX_ARGS && (count == 0 || args != nullptr) &&
                          (payload_size == 0 || payload != nullptr) && payload_size <= most;
        return good ? DAPL_AM_OK : DAPL_AM_ERR_ARGUMENT;
    }
};

} // namespace am
