// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "checked_sender.hpp"

#include "wire/crc32c.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace soft_hca {

void add_checksum(out_packet &out)
{
    static_assert(max_header_size + checksum_size <= sizeof out.header);
    std::uint32_t crc = 0;
    for (std::uint32_t i = 0; i < out.pieces; ++i)
        crc = crc32c(out.piece[i].at, out.piece[i].size, crc);
    std::uint8_t *const end = std::end(out.header) - checksum_size;
    out.add(end, write_checksum(end, crc));
}

/// Locked: a free one, if there is one.
checked_sender::area &checked_sender::take() OSD_UNCHECKED
{
    for (area &each : areas_)
        if (each.lock.try_lock())
            return each;
    areas_[0].lock.lock();
    return areas_[0];
}

namespace {

/// All pieces of the packets, with room behind each packet for the checksum, or in front.
std::size_t copy_together(gather_buffer &to, const out_packet *packets, std::uint32_t count,
                          bool seals)
{
    static constexpr std::uint8_t room[std::max(checksum_size, sealed_overhead)] = {};
    static_assert(checked_sender::most * (out_packet::max_pieces + 1) <= gather_buffer::max_pieces);
    to.begin();
    for (std::uint32_t i = 0; i < count; ++i) {
        if (seals)
            to.add(room, sealed_overhead);
        to.add(packets[i]);
        if (!seals)
            to.add(room, checksum_size);
    }
    return to.gather();
}

/// `whole`: for as many packets.
send_result send_from(gather_buffer &bytes, out_packet *whole, packet_io &io, const net_address &to,
                      const out_packet *packets, std::uint32_t count, std::uint32_t &done,
                      connection_seal *seal, std::uint32_t id)
{
    const std::size_t copied = copy_together(bytes, packets, count, seal != nullptr);
    const std::size_t around = seal != nullptr ? sealed_overhead : checksum_size;
    std::uint8_t *at = bytes.bytes();
    std::uint8_t *const end = at + copied;
    std::uint32_t ready = 0;
    for (; ready < count && at + packets[ready].size + around <= end; ++ready) {
        const std::size_t size = packets[ready].size;
        if (seal == nullptr)
            (void)write_checksum(at + size, crc32c(at, size));
        else if (!seal->seal(at, size, id))
            return send_result::busy;
        whole[ready].begin();
        whole[ready].add(at, size + around);
        at += size + around;
    }
    const send_result result = io.send(to, whole, ready, done);
    return result == send_result::sent && ready < count ? send_result::bad_memory : result;
}

} // namespace

send_result checked_sender::send(packet_io &io, const net_address &to, const out_packet *packets,
                                 std::uint32_t count, std::uint32_t &done, connection_seal *seal,
                                 std::uint32_t id) OSD_UNCHECKED
{
    area &with = take();
    done = 0;
    const bool usable = with.bytes.is_open() || with.bytes.open(size_);
    const send_result result =
        usable ? send_from(with.bytes, with.whole, io, to, packets, count, done, seal, id)
               : send_result::busy;
    with.lock.unlock();
    return result;
}

send_result send_sealed(packet_io &io, const net_address &to, const out_packet &packet,
                        connection_seal &seal, std::uint32_t id, std::uint32_t &done)
{
    std::uint8_t bytes[sealed_overhead + base_size + 4 * (1 + max_sack_words)];
    std::uint8_t *end = bytes + sealed_overhead;
    done = 0;
    if (packet.size > sizeof bytes - sealed_overhead)
        return send_result::busy;
    for (std::uint32_t i = 0; i < packet.pieces; ++i) {
        std::memcpy(end, packet.piece[i].at, packet.piece[i].size);
        end += packet.piece[i].size;
    }
    if (!seal.seal(bytes, packet.size, id))
        return send_result::busy;
    out_packet sealed;
    sealed.begin();
    sealed.add(bytes, sealed_overhead + packet.size);
    return io.send(to, &sealed, 1, done);
}

} // namespace soft_hca
