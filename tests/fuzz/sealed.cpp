// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Sealed packets of the software HCA, of a stranger and of a peer that has the key: opened bytes
// stay inside their datagram, and equal the sealed ones.
#include "seal/seal.hpp"
#include "written_again.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace {

using namespace soft_hca;

void must(bool holds)
{
    if (!holds)
        std::abort();
}

/// The two ends of a connection between devices with one key.
struct ends {
    ends()
    {
        key_settings how;
        how.bytes = key;
        how.size = sizeof key;
        how.renew_packets = 5;
        must(device.open(how) == 0 && caller.open() && called.open());
        const seal_names names[2] = {{1, 2}, {3, 4}};
        must(caller.agree(called.offer(), names[0], names[1], true) &&
             called.agree(caller.offer(), names[1], names[0], false));
    }

    static constexpr std::uint8_t key[32] = {7};
    seal_device device;
    connection_seal caller{device};
    connection_seal called{device};
};

/// A datagram in memory of its own size, for the sanitizer.
bytes exactly(const std::uint8_t *at, std::size_t size)
{
    return {at, at + size};
}

void check_opened(const packet &p, const bytes &plain)
{
    if (p.base.kind == packet_kind::retry)
        return;
    const bytes again = written_again(p, plain.size() + 1024);
    must(again.size() == plain.size() && std::equal(again.begin(), again.end(), plain.begin()));
}

/// Receives a datagram of anybody. A datagram that is not sealed with the key is not opened.
void receive(ends &with, const bytes &plain)
{
    bytes datagram = plain;
    sealed_header header;
    if (!read_sealed(datagram.data(), datagram.size(), header))
        return;
    must(header.size() <= datagram.size());
    std::uint8_t again[64];
    must(write_sealed(again, header) == header.size() &&
         std::memcmp(again, datagram.data(), header.size()) == 0);
    packet p;
    must(!with.called.open_packet(datagram.data(), datagram.size(), header, p));
    opened_packet opened;
    must(!with.device.open_packet(datagram.data(), datagram.size(), header, {}, opened));
}

void receive_from_peer(ends &with, const bytes &plain)
{
    bytes datagram(sealed_overhead + plain.size());
    std::copy(plain.begin(), plain.end(), datagram.begin() + sealed_overhead);
    must(with.caller.seal(datagram.data(), plain.size(), 3));
    const bytes once_more = datagram;
    sealed_header header;
    must(read_sealed(datagram.data(), datagram.size(), header) && !header.handshake);
    packet p;
    if (with.called.open_packet(datagram.data(), datagram.size(), header, p))
        check_opened(p, plain);
    datagram = once_more; // a replay
    must(!with.called.open_packet(datagram.data(), datagram.size(), header, p));
}

void receive_handshake(ends &with, const bytes &plain, bool offers)
{
    if (plain.size() < 2 || plain.size() + sealed_handshake_overhead > largest_sealed_handshake)
        return;
    out_packet out;
    out.begin();
    out.add(plain.data(), plain.size());
    sealed_handshake sealed;
    const seal_context context(with.caller.offer());
    must(with.device.seal(out, 3, 1, offers ? &with.caller.offer() : nullptr, context, sealed));
    const out_packet &packet = sealed.packet();
    must(packet.pieces == 1);
    bytes datagram =
        exactly(static_cast<const std::uint8_t *>(packet.piece[0].at), packet.piece[0].size);
    sealed_header header;
    if (!read_sealed(datagram.data(), datagram.size(), header))
        return; // its kind is not of a handshake
    const bytes once_more = datagram;
    opened_packet opened;
    if (with.device.open_packet(datagram.data(), datagram.size(), header, context, opened)) {
        const bool has_offer = opened.plain.base.kind == packet_kind::request ||
                               opened.plain.base.kind == packet_kind::accept;
        if (has_offer == offers)
            check_opened(opened.plain, plain);
    }
    datagram = once_more; // bound to another question
    must(!with.device.open_packet(datagram.data(), datagram.size(), header, {}, opened));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *input, std::size_t size)
{
    static ends with;
    if (size < 1 || size > 65535 - sealed_overhead)
        return 0;
    const bytes rest = exactly(input + 1, size - 1);
    switch (input[0] % 4) {
    case 0:
        receive(with, rest);
        break;
    case 1:
        receive_from_peer(with, rest);
        break;
    default:
        receive_handshake(with, rest, input[0] % 4 == 2);
    }
    return 0;
}
