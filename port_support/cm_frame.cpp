// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cm_frame.hpp"

#include <cstring>

namespace dapl::DAPL_TRANSPORT {

namespace {

constexpr unsigned char frame_magic[4] = {'D', 'A', 'T', 0xd2};
constexpr std::uint8_t wire_version = 1;

} // namespace

cm_frame::cm_frame(cm_frame_header::kind_t kind, const private_data &data, DAT_CONN_QUAL qualifier)
    : size(sizeof(cm_frame_header) + data.size)
{
    cm_frame_header header{};
    std::memcpy(header.magic, frame_magic, sizeof(frame_magic));
    header.version = wire_version;
    header.kind = kind;
    header.size_high = static_cast<std::uint8_t>(data.size >> 8);
    header.size_low = static_cast<std::uint8_t>(data.size);
    for (std::uint8_t &byte : header.qualifier) {
        byte = static_cast<std::uint8_t>(qualifier >> 56);
        qualifier <<= 8;
    }
    std::memcpy(bytes, &header, sizeof(header));
    if (data.size != 0)
        std::memcpy(bytes + sizeof(header), data.bytes, data.size);
}

DAT_CONN_QUAL qualifier_of(const cm_frame_header &header)
{
    DAT_CONN_QUAL qualifier = 0;
    for (const std::uint8_t byte : header.qualifier)
        qualifier = qualifier << 8 | byte;
    return qualifier;
}

const cm_frame_header *parse_frame(const void *bytes, std::size_t size, private_data &data)
{
    data = {};
    const auto *header = static_cast<const cm_frame_header *>(bytes);
    if (size < sizeof(cm_frame_header) ||
        std::memcmp(header->magic, frame_magic, sizeof(frame_magic)) != 0 ||
        header->version != wire_version || header->size() > size - sizeof(cm_frame_header))
        return nullptr;
    if (header->size() != 0)
        data = {header + 1, header->size()};
    return header;
}

} // namespace dapl::DAPL_TRANSPORT
