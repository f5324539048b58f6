// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Sealed packets: encrypted and authenticated with a key that both sides have in a file.
//
// Packets of the handshake are sealed with a key that is made of the device's and a random salt in
// each of them, so that no key has to count. An answer is also bound to the question. The shares
// that request and accept carry make the keys of the connection, together with the device's key:
// who gets to know that later cannot read what was sent before.
#pragma once

#include "replay_window.hpp"
#include "seal_library.hpp"
#include "settings.hpp"
#include "wire.hpp"

#include <atomic>
#include <cstring>
#include <memory>

namespace soft_hca {

/// What a side says of itself, behind its request or accept.
struct seal_offer {
    static constexpr std::size_t size = seal_share_size + 1;

    bytes_view view() const { return {share, sizeof share}; }

    std::uint8_t share[seal_share_size] = {};
    bool fast_aes = false;
};

/// In front of each packet of a connection.
inline constexpr std::size_t sealed_overhead = sealed_header{}.size() + seal_tag_size;
/// Around each of a handshake, with the offer.
inline constexpr std::size_t sealed_handshake_overhead =
    sealed_header{true}.size() + seal_tag_size + seal_offer::size;
/// A request with all that it may carry.
inline constexpr std::size_t largest_sealed_handshake =
    sealed_handshake_overhead + base_size + request_size + max_private_data;

/// What a packet of the handshake is bound to: a request to where it goes, an answer to the share
/// in the request.
struct seal_context {
    seal_context() = default;
    explicit seal_context(const net_address &listener);
    explicit seal_context(const seal_offer &requester);

    std::uint8_t bytes[seal_share_size] = {};
};

/// Where a packet is made that is sealed as a whole.
class sealed_handshake {
public:
    /// The packet, to be sent; it refers to this object.
    const out_packet &packet() const { return packet_; }
    const std::uint8_t *salt() const { return header_.salt; }

private:
    friend class seal_device;

    sealed_header header_;
    out_packet packet_;
    std::uint8_t bytes_[largest_sealed_handshake];
};

/// A packet that was opened.
struct opened_packet {
    packet what;
    seal_offer offer; ///< of a request or accept
};

/// The key of a device. Any thread.
class seal_device {
public:
    /// Zero, or a system error number; ENOSYS without libcrypto. Does not refer to the key later.
    int open(const key_settings &how);

    /// `offer`: null but for a request or an accept. False without random numbers.
    [[nodiscard]] bool seal(const out_packet &plain, std::uint32_t to, std::uint32_t from,
                            const seal_offer *offer, const seal_context &context,
                            sealed_handshake &out) const;
    /// In place. False when it was not sealed with this key, or for another context.
    [[nodiscard]] bool open_packet(std::uint8_t *bytes, std::size_t size,
                                   const sealed_header &header, const seal_context &context,
                                   opened_packet &out) const;

    const seal_library &library() const { return library_; }
    const seal_secret &secret() const { return secret_; }
    const key_settings &how() const { return how_; }
    bool has_fast_aes() const { return how_.fast_aes && seal_library::has_fast_aes(); }
    /// Whether a stranger is to be reported: not more than once a second.
    bool may_report(std::int64_t now) const;

private:
    [[nodiscard]] bool handshake_cipher(const sealed_header &header, const seal_context &context,
                                        bool seals, seal_cipher &out) const;

    seal_library library_;
    seal_secret secret_;
    key_settings how_;
    mutable std::atomic<std::int64_t> report_ns_{0};
};

/// Numbers by which a connection is known to both sides.
struct seal_names {
    std::uint32_t id = 0;
    std::uint32_t tag = 0;
};

/// Kinds that are sealed with the keys of a connection.
bool is_of_connection(packet_kind kind);

/// The keys of a connection, in the hands of one thread at a time. There is never a copy: a packet
/// number is used once.
class connection_seal {
public:
    explicit connection_seal(const seal_device &of) : of_(of) {}
    /// Makes our share. False without memory or random numbers.
    [[nodiscard]] bool open();

    const seal_device &device() const { return of_; }
    const seal_offer &offer() const { return offer_; }
    /// What answers to the request of this connection are bound to.
    const seal_context &answers() const { return answers_; }
    /// The salt of the latest packet of the handshake, which an ICMP error quotes.
    void keep_salt(const std::uint8_t *salt) { std::memcpy(salt_, salt, sizeof salt_); }
    bool has_salt(const std::uint8_t *salt) const
    {
        return std::memcmp(salt_, salt, sizeof salt_) == 0;
    }
    /// With the offer of the peer. `calls`: we have sent the request.
    [[nodiscard]] bool agree(const seal_offer &peer, const seal_names &own,
                             const seal_names &of_peer, bool calls);
    bool has_agreed() const { return sending_.cipher && receiving_.cipher; }

    /// Seals a packet that begins `sealed_overhead` bytes behind `at`, which are for its header.
    [[nodiscard]] bool seal(std::uint8_t *at, std::size_t size, std::uint32_t to);
    /// In place: `out` is what was sealed. False for one of somebody else or one that came before.
    [[nodiscard]] bool open_packet(std::uint8_t *bytes, std::size_t size,
                                   const sealed_header &header, packet &out);

    /// How often the keys were renewed that packets are sent with.
    std::uint32_t epoch() const { return sending_epoch_; }

private:
    /// Of one direction, in one epoch.
    struct epoch_key {
        std::unique_ptr<seal_secret> secret; ///< of which the next one is made
        seal_cipher cipher;
        std::uint8_t mask[seal_nonce_size] = {}; ///< a nonce is this and the packet number
    };

    [[nodiscard]] bool begin(epoch_key &out, const seal_secret &from, const char *purpose,
                             bool seals) const;
    bool renewal_is_due(std::int64_t now) const;
    [[nodiscard]] bool renew_sending(std::int64_t now);
    /// The key for a packet that is not of the epoch in which packets come; null without any.
    epoch_key *other_key(std::uint64_t number);
    void note_opened(const epoch_key &with, std::uint64_t number);

    const seal_device &of_;
    seal_offer offer_;
    seal_context answers_;
    std::uint8_t salt_[sealed_header::salt_size] = {};
    seal_agreement agreement_;
    seal_suite suite_ = seal_suite::chacha20_poly1305;

    epoch_key sending_;
    std::uint32_t sending_epoch_ = 0;
    std::uint64_t next_number_ = 0;
    std::uint64_t epoch_begin_ = 0; ///< its first number
    std::int64_t epoch_ns_ = 0;     ///< when it began

    epoch_key receiving_;
    epoch_key former_; ///< of the epoch before, for packets that were under way
    epoch_key coming_; ///< made when a packet seems to be of the next epoch
    std::uint32_t receiving_epoch_ = 0;
    std::uint64_t lowest_ = 0; ///< number that came in this epoch
    replay_window window_;
};

} // namespace soft_hca
