// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "peer_path.hpp"

#include <new>

namespace soft_hca {

bool peer_path::seal_with(const seal_device &key)
{
    seal_.reset(new (std::nothrow) connection_seal(key));
    return seal_ != nullptr && seal_->open();
}

bool peer_path::open_packet(std::uint8_t *bytes, std::size_t size, const sealed_header &header,
                            opened_packet &out)
{
    if (seal_ == nullptr)
        return false;
    if (header.handshake)
        return seal_->device().open_packet(bytes, size, header, seal_->answers(), out);
    return seal_->open_packet(bytes, size, header, out.plain);
}

bool peer_path::has_sent(const icmp_error &quoted) const
{
    sealed_header header;
    return seal_ != nullptr && read_sealed(quoted.bytes, quoted.size, header) && header.handshake &&
           seal_->has_salt(header.salt);
}

send_result peer_path::send_other(const out_packet *packets, std::uint32_t count,
                                  std::uint32_t &done)
{
    if (version_ == checked_version)
        return checked_->send(*io_, peer_, packets, count, done);
    done = 0;
    return is_sealed() ? checked_->send(*io_, peer_, packets, count, done, seal_.get(), peer_id_)
                       : send_result::busy;
}

send_result peer_path::send_one_sealed(const net_address &to, const out_packet &packet,
                                       std::uint32_t &done)
{
    return is_sealed() ? send_sealed(*io_, to, packet, *seal_, peer_id_, done) : send_result::busy;
}

std::uint32_t peer_path::send_token(const net_address &to, const base_header &base,
                                    std::uint64_t token)
{
    std::uint8_t body[challenge_size];
    out_packet out;
    out.begin();
    out.add(out.header, write_base(out.header, base));
    out.add(body, write_token(body, token));
    complete(out, version_);
    return send_completed(to, out);
}

/// Drops the contents of the packet: the peer sends them again when its address has been proven.
std::uint32_t peer_path::heard_from_elsewhere(const packet &p, const net_address &from,
                                              const base_header &challenge, std::int64_t now)
{
    if (p.base.kind == packet_kind::response) {
        if (moves_.is_answered(from, p.token))
            peer_.move_to(from);
        return 0;
    }
    const std::uint64_t token = moves_.challenge(from, now);
    return token != 0 ? send_token(from, challenge, token) : 0;
}

void peer_path::doubt_peer(std::uint32_t psn)
{
    if (is_sealed())
        return;
    out_packet unanswered;
    unanswered.begin();
    unanswered.add(unanswered.header,
                   write_base(unanswered.header, header(packet_kind::data, psn)));
    io_->probe_port(peer_, unanswered);
}

send_result peer_path::send_handshake(const out_packet &packet, bool probes)
{
    std::uint32_t done = 0;
    sealed_handshake sealed;
    send_result result{};
    const out_packet *goes = &packet;
    if (!is_sealed()) {
        result = send(&packet, 1, done);
    } else {
        // An answer names the requester; all else goes to listeners.
        const auto kind = static_cast<packet_kind>(packet.header[1]);
        const bool answers = kind == packet_kind::accept;
        const bool offers = answers || kind == packet_kind::request;
        if (!seal_->device().seal(packet, answers ? peer_id_ : 0, id_,
                                  offers ? &seal_->offer() : nullptr,
                                  answers ? seal_->answers() : seal_context(peer_), sealed))
            return send_result::busy;
        seal_->keep_salt(sealed.salt());
        goes = &sealed.packet();
        result = io_->send(peer_, goes, 1, done);
    }
    if (probes && result != send_result::unreachable)
        io_->probe_port(peer_, *goes);
    return result;
}

} // namespace soft_hca
