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

void put(cm_message &message, std::size_t at, const void *bytes, std::size_t size)
{
    if (size != 0)
        std::memcpy(message.bytes + at, bytes, size);
}

private_data all_of(const hca &device, const cm_event &event)
{
    return {event.bytes, std::min(event.size, device.max_private_data)};
}

} // namespace

cm_message request_message(const hca &device, const void *bytes, std::size_t size)
{
    cm_message message;
    put(message, 0, bytes, size);
    message.size = static_cast<std::uint8_t>(size);
    if (!device.iwarp && size < ib_data_size) {
        message.bytes[ib_data_size - 1] = static_cast<unsigned char>(size);
        message.size = ib_data_size;
        message.flow_control = false;
    }
    return message;
}

cm_message accept_message(const hca &device, const private_data &data)
{
    cm_message message;
    put(message, 0, data.bytes, data.size);
    message.size = static_cast<std::uint8_t>(data.size);
    if (!device.iwarp) {
        message.bytes[ib_data_size] = static_cast<unsigned char>(data.size + 1);
        message.size = ib_data_size + 1;
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

private_data read_request(const hca &device, const cm_event &event)
{
    private_data data = all_of(device, event);
    if (!device.iwarp && !event.flow_control && data.size == ib_data_size &&
        event.bytes[ib_data_size - 1] < ib_data_size)
        data.size = event.bytes[ib_data_size - 1];
    return data;
}

private_data read_accept(const hca &device, const cm_event &event)
{
    private_data data = all_of(device, event);
    if (!device.iwarp && event.size > ib_data_size && event.bytes[ib_data_size] != 0)
        data.size = std::min<std::size_t>(data.size, event.bytes[ib_data_size] - 1u);
    return data;
}

const reject_reason *read_reject(const cm_event &event, private_data &data)
{
    static constexpr reject_reason reasons[] = {reject_reason::non_consumer,
                                                reject_reason::consumer};
    reject_header header;
    if (event.size < sizeof(header))
        return nullptr;
    std::memcpy(&header, event.bytes, sizeof(header));
    if (std::memcmp(header.magic, magic, sizeof(magic)) != 0 ||
        header.size > event.size - sizeof(header))
        return nullptr;
    data = {event.bytes + sizeof(header), header.size};
    return &reasons[header.by_consumer != 0];
}

} // namespace dapl::verbs::vrb
