// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "checked_sender.hpp"

#include "crc32c.hpp"

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

/// All pieces of the packets, with room for the checksum behind each packet.
std::size_t copy_together(gather_buffer &to, const out_packet *packets, std::uint32_t count)
{
    static constexpr std::uint8_t room[checksum_size] = {};
    static_assert(checked_sender::most * (out_packet::max_pieces + 1) <= gather_buffer::max_pieces);
    bytes_view pieces[gather_buffer::max_pieces] = {};
    std::uint32_t used = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        for (std::uint32_t p = 0; p < packets[i].pieces; ++p)
            pieces[used++] = packets[i].piece[p];
        pieces[used++] = {room, sizeof room};
    }
    return to.gather(pieces, used);
}

} // namespace

send_result checked_sender::send_from(gather_buffer &bytes, packet_io &io, const net_address &to,
                                      const out_packet *packets, std::uint32_t count,
                                      std::uint32_t &done)
{
    out_packet whole[most];
    const std::size_t copied = copy_together(bytes, packets, count);
    std::uint8_t *at = bytes.bytes();
    std::uint8_t *const end = at + copied;
    std::uint32_t ready = 0;
    for (; ready < count && at + packets[ready].size + checksum_size <= end; ++ready) {
        const std::size_t size = packets[ready].size;
        whole[ready].begin();
        whole[ready].add(at, size + write_checksum(at + size, crc32c(at, size)));
        at += size + checksum_size;
    }
    const send_result result = io.send(to, whole, ready, done);
    return result == send_result::sent && ready < count ? send_result::bad_memory : result;
}

send_result checked_sender::send(packet_io &io, const net_address &to, const out_packet *packets,
                                 std::uint32_t count, std::uint32_t &done) OSD_UNCHECKED
{
    area &with = take();
    done = 0;
    const bool usable = with.bytes.is_open() || with.bytes.open(size_);
    const send_result result =
        usable ? send_from(with.bytes, io, to, packets, count, done) : send_result::busy;
    with.lock.unlock();
    return result;
}

} // namespace soft_hca
