// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "internal.hpp"

#include <algorithm>
#include <cstring>

namespace dapl::verbs::vrb {

namespace {

/// Stands in front of the private data of a reject.
struct reject_header {
    unsigned char magic[2];
    std::uint8_t by_consumer;
    std::uint8_t size;
};
constexpr unsigned char magic[2] = {'D', 0xd2};

/// The mark in front of the private data of an iWARP request whose qualifier is large.
constexpr unsigned char large_magic[2] = {'Q', 0xd2};
/// Bytes of a qualifier without its low 16 bits.
constexpr std::size_t high_size = 6;
constexpr std::size_t large_header = sizeof(large_magic) + high_size;
static_assert(large_header + iwarp_data_size <= UINT8_MAX);

/// The last byte of an InfiniBand request: how many bytes are private data, and whether the high
/// part of the qualifier stands before it.
constexpr std::size_t last_byte = ib_data_size - 1;
constexpr unsigned char large_mark = 0x80;

/// Behind the private data, of requests and of accepts with a place.
constexpr unsigned char ready_mark[8] = {'D', 'A', 'P', 'L', 'r', 'd', 'y', 0xd2};
constexpr std::size_t place_size = sizeof(std::uint64_t) + sizeof(std::uint32_t);
constexpr std::size_t most_of_siw = 248;

bool ends_marked(const cm_event &event)
{
    return event.size() >= sizeof ready_mark &&
           std::memcmp(event.bytes + event.size() - sizeof ready_mark, ready_mark,
                       sizeof ready_mark) == 0;
}

/// The bytes of an event up to the end of the private data.
std::size_t data_size(const hca &device, const cm_event &event, std::size_t before_mark)
{
    const std::size_t behind = before_mark + sizeof ready_mark;
    return device.siw && ends_marked(event) && event.size() >= behind ? event.size() - behind
                                                                      : event.size();
}

void write_high(unsigned char *to, DAT_CONN_QUAL qualifier)
{
    for (std::size_t i = 0; i < high_size; ++i, qualifier <<= 8)
        to[i] = static_cast<unsigned char>(qualifier >> 56);
}

DAT_CONN_QUAL read_high(const unsigned char *from)
{
    DAT_CONN_QUAL high = 0;
    for (std::size_t i = 0; i < high_size; ++i)
        high = high << 8 | from[i];
    return high << 16;
}

void put(cm_message &message, std::size_t at, const void *bytes, std::size_t size)
{
    if (size != 0)
        std::memcpy(message.bytes + at, bytes, size);
}

void append(cm_message &message, const void *bytes, std::size_t size)
{
    put(message, message.size, bytes, size);
    message.size = static_cast<std::uint8_t>(message.size + size);
}

bool looks_large(const unsigned char *bytes, std::size_t size)
{
    return size >= sizeof(large_magic) && std::memcmp(bytes, large_magic, sizeof(large_magic)) == 0;
}

cm_message iwarp_request(const private_data &data, DAT_CONN_QUAL qualifier)
{
    cm_message message;
    std::size_t at = 0;
    if (high_part(qualifier) != 0 ||
        looks_large(static_cast<const unsigned char *>(data.bytes), data.size)) {
        put(message, 0, large_magic, sizeof(large_magic));
        write_high(message.bytes + sizeof(large_magic), qualifier);
        at = large_header;
    }
    put(message, at, data.bytes, data.size);
    message.size = static_cast<std::uint8_t>(at + data.size);
    return message;
}

cm_message ib_request(const private_data &data, DAT_CONN_QUAL qualifier)
{
    cm_message message;
    put(message, 0, data.bytes, data.size);
    message.size = ib_data_size;
    if (data.size == ib_data_size)
        return message;
    message.flow_control = false;
    message.bytes[last_byte] = static_cast<unsigned char>(data.size);
    if (high_part(qualifier) != 0) {
        write_high(message.bytes + last_byte - high_size, qualifier);
        message.bytes[last_byte] |= large_mark;
    }
    return message;
}

private_data read_iwarp_request(const hca &device, const cm_event &event, DAT_CONN_QUAL &high)
{
    const std::size_t size = data_size(device, event, 0);
    if (size < large_header || !looks_large(event.bytes, size))
        return {event.bytes, std::min(size, iwarp_data_size)};
    high = read_high(event.bytes + sizeof(large_magic));
    return {event.bytes + large_header, std::min(size - large_header, iwarp_data_size)};
}

private_data read_ib_request(const cm_event &event, DAT_CONN_QUAL &high)
{
    private_data data{event.bytes, std::min(event.size(), ib_data_size)};
    if (event.param.conn.flow_control != 0 || data.size < ib_data_size)
        return data;
    const bool large = (event.bytes[last_byte] & large_mark) != 0;
    const std::size_t size = event.bytes[last_byte] & ~large_mark;
    if (size > last_byte - (large ? high_size : 0))
        return data; // a peer of another kind
    if (large)
        high = read_high(event.bytes + last_byte - high_size);
    data.size = size;
    return data;
}

} // namespace

std::size_t request_room(const hca &device, DAT_CONN_QUAL qualifier)
{
    const bool large = high_part(qualifier) != 0;
    return large && !device.iwarp ? last_byte - high_size : device.max_private_data;
}

cm_message request_message(const hca &device, const private_data &data, DAT_CONN_QUAL qualifier)
{
    if (!device.iwarp)
        return ib_request(data, qualifier);
    cm_message message = iwarp_request(data, qualifier);
    if (device.siw && message.size + sizeof ready_mark <= most_of_siw)
        append(message, ready_mark, sizeof ready_mark);
    return message;
}

cm_message accept_message(const hca &device, const private_data &data, const ready_place &place)
{
    cm_message message;
    put(message, 0, data.bytes, data.size);
    message.size = static_cast<std::uint8_t>(data.size);
    if (!device.iwarp) {
        message.bytes[ib_data_size] = static_cast<unsigned char>(data.size + 1);
        message.size = ib_data_size + 1;
    }
    if (place.key != 0 && data.size + place_size + sizeof ready_mark <= most_of_siw) {
        append(message, &place.address, sizeof place.address);
        append(message, &place.key, sizeof place.key);
        append(message, ready_mark, sizeof ready_mark);
    }
    return message;
}

cm_message reject_message(reject_reason reason, const private_data &data)
{
    const reject_header header{{magic[0], magic[1]},
                               reason == reject_reason::consumer,
                               static_cast<std::uint8_t>(data.size)};
    cm_message message;
    put(message, 0, &header, sizeof(header));
    put(message, sizeof(header), data.bytes, data.size);
    message.size = static_cast<std::uint8_t>(sizeof(header) + data.size);
    return message;
}

private_data read_request(const hca &device, const cm_event &event, DAT_CONN_QUAL &high)
{
    high = 0;
    return device.iwarp ? read_iwarp_request(device, event, high) : read_ib_request(event, high);
}

bool is_marked(const hca &device, const cm_event &event)
{
    return device.siw && ends_marked(event);
}

ready_place place_in(const hca &device, const cm_event &event)
{
    ready_place place;
    const std::size_t size = data_size(device, event, place_size);
    if (size == event.size())
        return place;
    std::memcpy(&place.address, event.bytes + size, sizeof place.address);
    std::memcpy(&place.key, event.bytes + size + sizeof place.address, sizeof place.key);
    return place;
}

private_data read_accept(const hca &device, const cm_event &event)
{
    private_data data{event.bytes,
                      std::min(data_size(device, event, place_size), device.max_private_data)};
    if (!device.iwarp && event.size() > ib_data_size && event.bytes[ib_data_size] != 0)
        data.size = std::min<std::size_t>(data.size, event.bytes[ib_data_size] - 1u);
    return data;
}

std::optional<reject_reason> read_reject(const cm_event &event, private_data &data)
{
    reject_header header;
    if (event.size() < sizeof(header))
        return std::nullopt;
    std::memcpy(&header, event.bytes, sizeof(header));
    if (std::memcmp(header.magic, magic, sizeof(magic)) != 0 ||
        header.size > event.size() - sizeof(header))
        return std::nullopt;
    data = {event.bytes + sizeof(header), header.size};
    return header.by_consumer != 0 ? reject_reason::consumer : reject_reason::non_consumer;
}

} // namespace dapl::verbs::vrb
