// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "datagrams.hpp"

#include <cstring>

namespace soft_hca {

namespace {

/// Where a request goes is the memory of its poster's until the post returns.
const datagram_address &address_of(const request &r)
{
    return *reinterpret_cast<const datagram_address *>(pointer_to(r.remote.address));
}

/// A packet that the network does not take is lost as one that it loses.
work_status send_one(pair_context &pair, std::uint32_t id, const request &r)
{
    if (!pair.memory.may_use(r, local_read))
        return work_status::local_protection;
    const datagram_address &to = address_of(r);
    const bool checked = pair.device->settings().checksum;
    base_header base;
    base.kind = packet_kind::datagram;
    base.flags = (r.flags & request_solicited) != 0 ? flag_solicited : 0;
    base.to = to.id;
    base.tag = to.tag;
    base.from = id;
    base.version = checked ? checked_version : first_version;
    out_packet out;
    out.begin();
    out.add(out.header, write_base(out.header, base));
    for (std::uint32_t i = 0; i < r.segments; ++i)
        out.add(pointer_to(r.local[i].address), r.local[i].length);
    std::uint32_t done = 0;
    packet_io &io = pair.shard->io();
    const send_result result = checked ? pair.shard->checked.send(io, to.at, &out, 1, done)
                                       : io.send(to.at, &out, 1, done);
    pair.record.counts.packets_out += done;
    return result == send_result::bad_memory ? work_status::local_protection : work_status::success;
}

/// An address of 16 bytes; one of IPv4 is mapped.
void put_host(std::uint8_t *to, const net_address &host)
{
    constexpr std::size_t v4_size = 4;
    std::uint8_t found[16] = {};
    host.copy_host(found);
    if (host.family() == AF_INET6)
        std::memcpy(to, found, sizeof found);
    else {
        to[10] = to[11] = 0xff;
        std::memcpy(to + sizeof found - v4_size, found, v4_size);
    }
}

/// The global route header of InfiniBand: what follows is for a queue pair, from one host to
/// another.
void write_header(std::uint8_t (&out)[datagram_header_size], std::uint32_t size,
                  const net_address &from, const net_address &to)
{
    constexpr std::uint8_t ip_version = 6;
    constexpr std::uint8_t base_transport_header = 0x1b;
    std::memset(out, 0, sizeof out);
    out[0] = ip_version << 4;
    out[4] = static_cast<std::uint8_t>(size >> 8);
    out[5] = static_cast<std::uint8_t>(size);
    out[6] = base_transport_header;
    out[7] = 1; // hops
    put_host(out + 8, from);
    put_host(out + 24, to);
}

work_status place(const pair_context &pair, const request &r, const packet &p,
                  const net_address &from)
{
    std::uint8_t header[datagram_header_size];
    write_header(header, p.message_size, from, pair.shard->network->address());
    const work_status status = pair.memory.scatter(r, 0, header, sizeof header);
    return status == work_status::success
               ? pair.memory.scatter(r, sizeof header, p.message, p.message_size)
               : status;
}

} // namespace

void send_datagrams(pair_context &pair, const peer_path &path, bool dead)
{
    posted_ring &posted = pair.sends.ring;
    while (!posted.empty()) {
        request &r = posted.front();
        posted.pop();
        const work_status status = dead ? work_status::flushed : send_one(pair, path.id(), r);
        pair.sends.completions.complete(r, status, r.length);
    }
}

void receive_datagram(pair_context &pair, const peer_path &path, const packet &p,
                      const net_address &from)
{
    pair_counts &counts = pair.record.counts;
    ++counts.packets_in;
    if (pair.params.use != pair_use::datagrams || !path.names_us(p.base)) {
        ++counts.dropped;
        return;
    }
    posted_ring &receives = pair.receives.ring;
    if (receives.empty()) {
        ++counts.not_ready;
        return;
    }
    request &r = receives.front();
    const auto size = static_cast<std::uint32_t>(datagram_header_size) + p.message_size;
    if (r.length < size) {
        ++counts.dropped;
        return;
    }
    receives.pop();
    const work_status status = place(pair, r, p, from);
    if (status == work_status::success)
        pair.receives.completions.complete_receive(r, size, brought::sender, p.base.from,
                                                   (p.base.flags & flag_solicited) != 0);
    else
        pair.receives.completions.complete(r, status, 0);
}

} // namespace soft_hca
