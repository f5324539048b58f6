// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "raw_peer.hpp"

#include <doctest/doctest.h>

namespace rig {

raw_peer::raw_peer(inproc_network &network, end &to, std::uint32_t credit)
    : network_(network), to_(to), credit_(credit)
{
    REQUIRE(io_.open(network, to.of.hca.settings().address));
    connect();
}

void raw_peer::connect()
{
    door at(to_.of);
    handshake hello;
    hello.qualifier = at.number;
    hello.id = id_;
    hello.tag = tag_;
    hello.first_psn = first_psn;
    hello.max_datagram = 1472;
    hello.reads_out = hello.reads_in = 8;
    std::uint8_t body[request_size];
    const std::size_t size = write_request(body, hello, nullptr, 0);
    at_ = at.socket->io->address();
    deliver(base(packet_kind::request, first_psn, 0), body, size);
    inbound_request *request = at.next();
    REQUIRE(request != nullptr);
    REQUIRE(to_.pair.accept(*request, nullptr, 0) == queue_pair::start::begun);
    const std::optional<packet> accepted = next(packet_kind::accept);
    REQUIRE(accepted.has_value());
    peer_id_ = accepted->hello.id;
    peer_tag_ = accepted->hello.tag;
    expected = taken = accepted->hello.first_psn;
    acknowledge(expected);
    REQUIRE(is(to_.next(), connection_event::established));
}

base_header raw_peer::base(packet_kind kind, std::uint32_t psn, std::uint32_t ack) const
{
    return {kind, 0, peer_id_, peer_tag_, id_, psn, ack, credit_};
}

void raw_peer::deliver(const base_header &base, const std::uint8_t *body, std::size_t size)
{
    out_packet out;
    out.begin();
    out.add(out.header, write_base(out.header, base));
    out.add(body, size);
    REQUIRE(network_.deliver(io_.address(), at_, out));
}

void raw_peer::deliver_and_await(const base_header &base, const std::uint8_t *body,
                                 std::size_t size)
{
    const std::uint64_t before = to_.counts().packets_in;
    deliver(base, body, size);
    REQUIRE(becomes_true([&] {
        to_.receive_queue.progress(true);
        return to_.counts().packets_in != before;
    }));
}

void raw_peer::send(std::uint32_t psn, std::uint32_t ack, const ddp_segment &segment,
                    std::size_t payload, std::uint16_t flags)
{
    std::vector<std::uint8_t> body(max_header_size + payload, 0x42);
    const std::size_t header = write_segment(body.data(), segment);
    base_header with_flags = base(packet_kind::data, psn, ack);
    with_flags.flags = flags;
    deliver_and_await(with_flags, body.data(), header + payload);
}

void raw_peer::post(std::uint32_t psn, std::uint32_t ack, const ddp_segment &segment)
{
    std::uint8_t body[max_header_size];
    deliver(base(packet_kind::data, psn, ack), body, write_segment(body, segment));
}

void raw_peer::send_reset()
{
    deliver_and_await({packet_kind::reset, 0, peer_id_, tag_, id_, taken, 0, 0}, nullptr, 0);
}

void raw_peer::send_message(std::uint32_t psn, std::uint32_t msn)
{
    ddp_segment segment;
    segment.opcode = rdmap::send;
    segment.last = true;
    segment.msn = msn;
    send(psn, expected, segment, 8);
}

void raw_peer::acknowledge(std::uint32_t ack, std::uint32_t arrived, std::uint16_t flags)
{
    std::uint8_t body[8];
    base_header with_flags = base(packet_kind::ack, first_psn, ack);
    with_flags.flags = flags;
    deliver_and_await(with_flags, body, write_sack(body, &arrived, 1));
}

/// Returns false when nothing is there that can be read.
bool raw_peer::receive(packet &p)
{
    in_packets group;
    if (io_.receive(&group, 1) == 0)
        return false;
    last_.assign(group.bytes, group.bytes + group.size);
    at_ = group.from;
    REQUIRE(parse(last_.data(), last_.size(), p));
    const bool numbered = p.base.kind == packet_kind::data || p.base.kind == packet_kind::probe;
    if (numbered && !before(p.base.psn, taken))
        taken = p.base.psn + 1;
    return true;
}

void raw_peer::acknowledge_all()
{
    for (packet p; receive(p);) {
    }
    acknowledge(taken);
}

std::optional<packet> raw_peer::next(packet_kind kind, std::chrono::milliseconds time)
{
    packet p;
    const auto came = [&] {
        while (receive(p))
            if (p.base.kind == kind)
                return true;
        return false;
    };
    return becomes_true(came, time) ? std::optional(p) : std::nullopt;
}

std::optional<packet> raw_peer::next_new()
{
    for (;;) {
        const std::uint32_t from = taken;
        const std::optional<packet> came = next(packet_kind::data);
        if (!came.has_value() || !before(came->base.psn, from))
            return came;
    }
}

} // namespace rig
