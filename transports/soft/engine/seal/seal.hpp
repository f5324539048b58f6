// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Sealed packets: encrypted and authenticated with a key that both sides have in a file.
//
// Each packet of the handshake carries a random salt, and is sealed with a key that is derived from
// the device key and that salt: such a key seals one packet, and needs no packet numbers. An answer
// is also bound to the request that it answers. The keys of a connection are derived from the
// device key and the X25519 shares that request and accept carry: the device key alone does not
// decrypt a connection that was recorded before.
#pragma once

#include "interface/settings.hpp"
#include "replay_window.hpp"
#include "seal_library.hpp"
#include "wire/wire.hpp"

#include "osd_memory.hpp"

#include <atomic>
#include <cstring>
#include <memory>

namespace soft_hca {

/// A side's part of the key agreement, which follows its request or accept.
struct seal_offer {
    static constexpr std::size_t size = seal_share_size + 1;

    bytes_view view() const { return {share, sizeof share}; }

    std::uint8_t share[seal_share_size] = {};
    bool fast_aes = false;
};

/// Bytes that sealing adds in front of a packet of a connection.
inline constexpr std::size_t sealed_overhead = sealed_header{}.size() + seal_tag_size;
/// Bytes that sealing adds around a packet of the handshake, an offer included.
inline constexpr std::size_t sealed_handshake_overhead =
    sealed_header{true}.size() + seal_tag_size + seal_offer::size;
/// A sealed request with the most private data, without padding.
inline constexpr std::size_t largest_sealed_handshake =
    sealed_handshake_overhead + base_size + request_size + max_private_data;

/// What a packet of the handshake is bound to: a request to the address of the listener, an answer
/// to the share in the request. The packet can be opened in this context only.
struct seal_context {
    seal_context() = default;
    explicit seal_context(const net_address &listener);
    explicit seal_context(const seal_offer &requester);

    std::uint8_t bytes[seal_share_size] = {};
};

/// The buffer in which a packet of the handshake is sealed.
class sealed_handshake {
public:
    /// The packet to send; it refers to memory of this object.
    const out_packet &packet() const { return packet_; }
    const std::uint8_t *salt() const { return header_.salt; }

private:
    friend class seal_device;

    /// Returns null without memory.
    std::uint8_t *room_for(std::size_t size);

    sealed_header header_;
    out_packet packet_;
    std::uint8_t bytes_[largest_sealed_handshake];
    std::unique_ptr<std::uint8_t[]> more_; ///< replaces bytes_ for a padded packet
};

/// A packet that was opened.
struct opened_packet {
    packet plain;
    seal_offer offer; ///< offer in a request or accept
};

/// The key of a device. Any thread may call it. A child of the process that opened it has neither
/// key nor permission to seal: it would use the packet numbers of its parent once more.
class seal_device {
public:
    seal_device() = default;
    seal_device(const seal_device &) = delete;
    seal_device &operator=(const seal_device &) = delete;
    ~seal_device();
    /// Returns zero, or a system error number; ENOSYS without libcrypto. Keeps no pointer to the
    /// key's bytes.
    int open(const key_settings &settings);

    /// `offer`: of a request or an accept; null for other packets. False without random numbers.
    [[nodiscard]] bool seal(const out_packet &plain, std::uint32_t to, std::uint32_t from,
                            const seal_offer *offer, const seal_context &context,
                            sealed_handshake &out) const;
    /// Decrypts in place. False if the packet was not sealed with this key for this context.
    [[nodiscard]] bool open_packet(std::uint8_t *bytes, std::size_t size,
                                   const sealed_header &header, const seal_context &context,
                                   opened_packet &out) const;

    const seal_library &library() const { return library_; }
    const seal_secret &secret() const { return kept()->secret; }
    /// Whether this is the process that opened it.
    bool may_seal() const { return kept()->is_here.load(std::memory_order_relaxed); }
    const key_settings &settings() const { return settings_; }
    bool has_fast_aes() const { return settings_.fast_aes && seal_library::has_fast_aes(); }
    /// Whether to report now that a peer has another key or none: at most once a second.
    bool may_report(std::int64_t now) const;

private:
    /// On a page that children find wiped, and core dumps do not have.
    struct of_process {
        seal_secret secret;
        std::atomic<bool> is_here{true};
    };
    of_process *kept() const { return static_cast<of_process *>(page_.address()); }

    [[nodiscard]] bool handshake_cipher(const sealed_header &header, const seal_context &context,
                                        bool seals, seal_cipher &out) const;

    seal_library library_;
    osd::process_page page_;
    key_settings settings_;
    mutable std::atomic<std::int64_t> report_ns_{0};
};

/// The numbers by which packets of a side name a connection.
struct seal_names {
    std::uint32_t id = 0;
    std::uint32_t tag = 0;
};

/// Whether packets of this kind are sealed with the keys of a connection.
bool is_of_connection(packet_kind kind);

/// The keys of a connection, used by one thread at a time. Must not be copied: each copy would seal
/// another packet with a packet number used before.
class connection_seal {
public:
    explicit connection_seal(const seal_device &device) : device_(device) {}
    /// Makes our key pair, whose public key is our share. False without memory or random numbers.
    [[nodiscard]] bool open();

    const seal_device &device() const { return device_; }
    const seal_offer &offer() const { return offer_; }
    /// The context of the answers to this connection's request.
    const seal_context &answers() const { return answers_; }
    /// Notes the salt of the latest packet of the handshake sent: a genuine ICMP error quotes it.
    void keep_salt(const std::uint8_t *salt) { std::memcpy(salt_, salt, sizeof salt_); }
    bool has_salt(const std::uint8_t *salt) const
    {
        return std::memcmp(salt_, salt, sizeof salt_) == 0;
    }
    /// Derives the keys from both offers. `calls`: we have sent the request.
    [[nodiscard]] bool agree(const seal_offer &peer, const seal_names &own,
                             const seal_names &of_peer, bool calls);
    bool has_agreed() const { return sending_.cipher && receiving_.cipher; }

    /// Seals the packet at `at` + `sealed_overhead` in place; writes its header and tag to `at`.
    /// False also in a child of the process that opened the device.
    [[nodiscard]] bool seal(std::uint8_t *at, std::size_t size, std::uint32_t to);
    /// Decrypts in place; `out` is the plain packet. False if the packet was not sealed with the
    /// keys of this connection, or was received before.
    [[nodiscard]] bool open_packet(std::uint8_t *bytes, std::size_t size,
                                   const sealed_header &header, packet &out);

    /// How often the keys of sent packets were renewed.
    std::uint32_t epoch() const { return sending_epoch_; }

private:
    /// The key of one direction in one epoch.
    struct epoch_key {
        std::unique_ptr<seal_secret> secret; ///< the next epoch's is derived from it
        seal_cipher cipher;
        std::uint8_t mask[seal_nonce_size] = {}; ///< a nonce is this xor the packet number
    };

    [[nodiscard]] bool begin(epoch_key &out, const seal_secret &from, const char *purpose,
                             bool seals) const;
    bool renewal_is_due(std::int64_t now) const;
    [[nodiscard]] bool renew_sending(std::int64_t now);
    /// The key for a packet that is not of the current receiving epoch: the key of the epoch
    /// before, or of the next epoch. Null if there is none.
    epoch_key *other_key(std::uint64_t number);
    void note_opened(const epoch_key &with, std::uint64_t number);

    const seal_device &device_;
    seal_offer offer_;
    seal_context answers_;
    std::uint8_t salt_[sealed_header::salt_size] = {};
    seal_agreement agreement_;
    seal_suite suite_ = seal_suite::chacha20_poly1305;

    epoch_key sending_;
    std::uint32_t sending_epoch_ = 0;
    std::uint64_t next_number_ = 0;
    std::uint64_t epoch_begin_ = 0; ///< first packet number of the sending epoch
    std::int64_t epoch_ns_ = 0;     ///< time at which the sending epoch began

    epoch_key receiving_;
    epoch_key former_; ///< key of the epoch before, for packets in flight at the renewal
    epoch_key coming_; ///< key of the next epoch, derived when a packet seems to be of that epoch
    std::uint32_t receiving_epoch_ = 0;
    std::uint64_t lowest_ = 0; ///< packet number received in this epoch
    replay_window window_;
};

} // namespace soft_hca
