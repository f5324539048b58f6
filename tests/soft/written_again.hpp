// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Writes a parsed packet as the writer would send it: a bit that the parser does not look at would
// not survive.
#pragma once

#include "wire/wire.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace soft_hca {

/// Every opcode of a segment.
inline constexpr rdmap all_opcodes[] = {rdmap::write,
                                        rdmap::read_request,
                                        rdmap::read_response,
                                        rdmap::send,
                                        rdmap::send_invalidate,
                                        rdmap::send_solicited,
                                        rdmap::send_solicited_invalidate,
                                        rdmap::immediate,
                                        rdmap::immediate_solicited,
                                        rdmap::atomic_request,
                                        rdmap::atomic_response};

using bytes = std::vector<std::uint8_t>;

inline std::size_t write_body(std::uint8_t *out, const packet &p)
{
    switch (p.base.kind) {
    case packet_kind::data: {
        const std::size_t size = write_segment(out, p.segment);
        std::memcpy(out + size, p.segment.payload, p.segment.payload_size);
        return size + p.segment.payload_size;
    }
    case packet_kind::reference: {
        const std::size_t size = write_segment(out, p.segment);
        return size + write_far(out + size, p.where);
    }
    case packet_kind::ack:
        return write_sack(out, p.sack, p.sack_words);
    case packet_kind::request:
        return write_request(out, p.hello, p.private_data, p.private_size) + p.padding;
    case packet_kind::accept:
        return write_accept(out, p.hello, p.private_data, p.private_size) + p.padding;
    case packet_kind::reject:
        return write_reject(out, p.rejection, p.private_data, p.private_size);
    case packet_kind::close:
        return write_close(out, p.closing);
    case packet_kind::challenge:
    case packet_kind::response:
        return write_token(out, p.token);
    case packet_kind::datagram:
        std::memcpy(out, p.message, p.message_size);
        return p.message_size;
    default:
        return 0;
    }
}

/// Writes the packet again; `room` is the size of the parsed one at least.
inline bytes written_again(const packet &p, std::size_t room = 1024)
{
    bytes out(room);
    std::size_t size = write_base(out.data(), p.base);
    size += write_body(out.data() + size, p);
    out.resize(size);
    return out;
}

} // namespace soft_hca
