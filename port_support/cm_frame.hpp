// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Private data as they travel through a connection manager that carries bytes and nothing else.
#pragma once

#include "dapls_ib.hpp"

#include <cstddef>
#include <cstdint>

namespace dapl::DAPL_TRANSPORT {

/// Stands in front of private data. It tells peers of this kind from others, and consumers'
/// rejections from the port's own, and from those of a port that has no room now: `later`.
struct cm_frame_header {
    enum kind_t : std::uint8_t { request = 1, accept, reject_by_consumer, reject_by_port, later };

    unsigned char magic[4];
    std::uint8_t version;
    std::uint8_t kind;
    std::uint8_t size_high; ///< size of the private data that follow
    std::uint8_t size_low;
    std::uint8_t qualifier[8]; ///< the request's qualifier, big-endian: a port number has 16 bits
                               ///< of it only

    std::size_t size() const { return std::size_t{size_high} << 8 | size_low; }
};
static_assert(sizeof(cm_frame_header) == 16);

struct cm_frame {
    static constexpr std::size_t max_data = 256;

    unsigned char bytes[sizeof(cm_frame_header) + max_data];
    std::size_t size;

    cm_frame(cm_frame_header::kind_t, const private_data &, DAT_CONN_QUAL qualifier = 0);
};

DAT_CONN_QUAL qualifier_of(const cm_frame_header &);

/// The header of a message, or null when it is not from a port of this kind. `data` is set to the
/// private data, or to nothing.
const cm_frame_header *parse_frame(const void *bytes, std::size_t size, private_data &data);

} // namespace dapl::DAPL_TRANSPORT
