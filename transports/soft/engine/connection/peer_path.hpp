// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The path to the peer: where packets go, and the numbers that identify the connection on both
// sides.
//
// Everything that a queue pair sends passes through here: by ring() or send() if it has to arrive,
// by send_one() if it may get lost.
#pragma once

#include "address_change.hpp"
#include "net/packet_io.hpp"
#include "net/ring_paths.hpp"
#include "seal/checked_sender.hpp"
#include "wire/wire.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace soft_hca {

class peer_path {
public:
    peer_path() = default;
    /// `tag` is a secret that the peer has to name.
    peer_path(packet_io &io, checked_sender &checked, std::uint32_t tag)
        : io_(&io), checked_(&checked), tag_(tag)
    {}
    /// The id by which packets find this queue pair.
    void identify(std::uint32_t id) { id_ = id; }

    /// Before a connection, on a device with a key. False without memory or random numbers.
    [[nodiscard]] bool seal_with(const seal_device &key);
    /// Makes the keys of the connection with what the peer offers.
    [[nodiscard]] bool agree(const seal_offer &offer, const handshake &hello, bool calls)
    {
        return seal_->agree(offer, {id_, tag_}, {hello.id, hello.tag}, calls);
    }
    /// Decrypts a packet in place. False when it is not from the peer, or came before.
    [[nodiscard]] bool open_packet(std::uint8_t *bytes, std::size_t size,
                                   const sealed_header &header, opened_packet &out);
    bool is_sealed() const { return seal_ != nullptr; }
    /// Whether an ICMP error quotes our latest sealed request.
    bool has_sent(const icmp_error &quoted) const;
    /// Nothing is sent any more, but by who takes it.
    std::unique_ptr<connection_seal> take_seal() { return std::move(seal_); }

    /// Sets the listener to which the connection request goes. The peer answers from another port.
    void aim(const net_address &listener)
    {
        peer_ = listener;
        peer_id_ = peer_tag_ = 0;
        version_ = is_sealed() ? sealed_version : first_version;
    }
    /// The listener wants to see this token in the request. False when it is known.
    bool take_token(std::uint32_t id, std::uint32_t tag)
    {
        const bool is_new = id != peer_id_ || tag != peer_tag_;
        peer_id_ = id;
        peer_tag_ = tag;
        return is_new;
    }
    /// What the listener and we speak. False when it is spoken already.
    bool speak(std::uint8_t version) { return std::exchange(version_, version) != version; }
    /// The peer is known.
    void adopt(const net_address &from, const handshake &hello, std::uint8_t version,
               std::uint32_t own_datagram);

    /// Bytes that surround a packet of the handshake in its datagram.
    std::uint32_t handshake_overhead() const
    {
        return version_ == checked_version  ? static_cast<std::uint32_t>(checksum_size)
               : version_ == sealed_version ? static_cast<std::uint32_t>(sealed_handshake_overhead)
                                            : 0;
    }
    /// The peer is known, and the path to it carries datagrams of this size.
    void limit_to(std::uint32_t datagram)
    {
        max_datagram_ = std::min(max_datagram_, datagram - overhead());
    }
    std::uint32_t datagram() const { return max_datagram_ + overhead(); }

    /// Where a ring to the peer will be found, if there is one; null: not any more.
    void join(const std::atomic<ring_path *> *ring) { ring_ = ring; }
    /// A ring that the peer looks at, or null. Checksums are for networks.
    ring_path *ring() const
    {
        if (ring_ == nullptr || version_ == checked_version)
            return nullptr;
        ring_path *const there = ring_->load(std::memory_order_acquire);
        return there != nullptr && there->is_attended() ? there : nullptr;
    }

    /// Sends all packets, in order. `done` is the number that went; the result is about the next.
    send_result send(const out_packet *packets, std::uint32_t count, std::uint32_t &done)
    {
        if (version_ != first_version) [[unlikely]]
            return send_other(packets, count, done);
        return io_->send(peer_, packets, count, done);
    }
    /// Sends one of our own memory that may get lost.
    std::uint32_t send_one(out_packet &packet)
    {
        complete(packet, version_);
        if (ring_path *const way = ring(); way != nullptr && way->send_one(packet))
            return 1;
        return send_completed(peer_, packet);
    }
    /// Sends a challenge or response. Returns how many went.
    std::uint32_t send_token(const net_address &to, const base_header &base, std::uint64_t token);
    /// A packet that only the peer can make came from another address than the peer's. Challenges
    /// that address; when it has answered, it is the peer's. Returns the number of packets sent.
    std::uint32_t heard_from_elsewhere(const packet &p, const net_address &from,
                                       const base_header &challenge, std::int64_t now);
    /// Sends a packet of the handshake. With `probes` no answer has come before: provokes an ICMP
    /// error if the port is closed.
    send_result send_handshake(const out_packet &packet, bool probes);

    /// Packets get no acknowledgement: provokes an ICMP error if the peer's port is closed, which
    /// quotes this packet. With a key no error is believed.
    void doubt_peer(std::uint32_t psn);

    base_header header(packet_kind kind, std::uint32_t psn) const
    {
        return {kind, 0, peer_id_, peer_tag_, id_, psn, 0, 0, version_};
    }
    /// Header of a close that is sent to a listener. A listener knows the connection by the tag
    /// that its request carried.
    base_header header_for_listener(packet_kind kind, std::uint32_t psn) const
    {
        return {kind, 0, 0, tag_, id_, psn, 0, 0, version_};
    }
    /// Bytes of payload that fit into a datagram.
    std::uint32_t payload_room(rdmap opcode) const
    {
        constexpr std::uint32_t line = 64; // copies that begin at a cache line are faster
        const std::uint32_t room =
            max_datagram_ - static_cast<std::uint32_t>(base_size + header_size(opcode));
        return room < 64 * line ? room : room / line * line;
    }

    const net_address &peer() const { return peer_; }
    std::uint32_t id() const { return id_; }
    std::uint32_t tag() const { return tag_; }
    std::uint8_t version() const { return version_; }
    /// Whether the peer has told its address, ids and largest datagram.
    bool knows_peer() const { return max_datagram_ != 0; }
    bool names_us(const base_header &base) const { return base.tag == tag_; }
    bool is_from_peer(const base_header &base) const
    {
        return base.from == peer_id_ && base.version == version_;
    }
    /// Whether a header carries the tag by which we address the peer: a packet of ours that is
    /// quoted, or a reset.
    bool names_peer(const base_header &base) const { return base.tag == peer_tag_; }

private:
    /// Bytes that surround a packet of the connection in its datagram.
    std::uint32_t overhead() const
    {
        return version_ == checked_version  ? static_cast<std::uint32_t>(checksum_size)
               : version_ == sealed_version ? static_cast<std::uint32_t>(sealed_overhead)
                                            : 0;
    }
    send_result send_other(const out_packet *packets, std::uint32_t count, std::uint32_t &done);
    std::uint32_t send_completed(const net_address &to, const out_packet &packet)
    {
        std::uint32_t done = 0;
        if (version_ == sealed_version) [[unlikely]]
            (void)send_one_sealed(to, packet, done);
        else
            (void)io_->send(to, &packet, 1, done);
        return done;
    }
    send_result send_one_sealed(const net_address &to, const out_packet &packet,
                                std::uint32_t &done);

    packet_io *io_ = nullptr;
    checked_sender *checked_ = nullptr;
    net_address peer_;
    const std::atomic<ring_path *> *ring_ = nullptr;
    std::uint32_t peer_id_ = 0;
    std::uint32_t peer_tag_ = 0;
    std::uint32_t id_ = 0;
    std::uint32_t tag_ = 0;
    std::uint32_t max_datagram_ = 0; ///< excludes the checksum or the seal
    address_change moves_;
    std::unique_ptr<connection_seal> seal_;
    std::uint8_t version_ = first_version;
};

/// Appends the DDP and RDMAP headers to the base header, as one piece with it.
inline void add_segment_header(out_packet &out, const ddp_segment &s)
{
    const std::size_t size = write_segment(out.header + base_size, s);
    out.piece[0].size += size;
    out.size += static_cast<std::uint32_t>(size);
}

/// Appends the headers of a reference to the base header, as one piece with it.
inline void add_reference(out_packet &out, const ddp_segment &s, const far_payload &where)
{
    static_assert(base_size + untagged_size + reference_size +
                      far_payload::max_pieces * far_piece_size <=
                  sizeof out.header);
    add_segment_header(out, s);
    const std::size_t size = write_far(out.header + out.size, where);
    out.piece[0].size += size;
    out.size += static_cast<std::uint32_t>(size);
}

inline void peer_path::adopt(const net_address &from, const handshake &hello, std::uint8_t version,
                             std::uint32_t own_datagram)
{
    peer_ = from;
    peer_id_ = hello.id;
    peer_tag_ = hello.tag;
    version_ = version;
    max_datagram_ = std::min(own_datagram, hello.max_datagram) - overhead();
}

} // namespace soft_hca
