// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "observed_io.hpp"

#include "osd_time.hpp"

#include <algorithm>
#include <new>

namespace soft_hca {

send_result observed_io::send(const net_address &to, const out_packet *packets, std::uint32_t count,
                              std::uint32_t &done)
{
    const std::int64_t at_ns = osd::now_ns();
    const send_result result = inner_->send(to, packets, count, done);
    for (std::uint32_t i = 0; i < done; ++i)
        observer_.sent(inner_->address(), to, packets[i], at_ns);
    return result;
}

std::uint32_t observed_io::receive(in_packets *into, std::uint32_t capacity)
{
    const std::uint32_t got = inner_->receive(into, capacity);
    for (std::uint32_t i = 0; i < got; ++i) {
        const in_packets &group = into[i];
        for (std::size_t at = 0; at < group.size; at += group.segment)
            observer_.received(group.from, inner_->address(), group.bytes + at,
                               std::min(group.segment, group.size - at));
    }
    return got;
}

packet_io *observed(packet_io *io, packet_observer *observer)
{
    if (io == nullptr || observer == nullptr)
        return io;
    auto *const around = new (std::nothrow) observed_io(io, *observer);
    if (around == nullptr)
        delete io;
    return around;
}

} // namespace soft_hca
