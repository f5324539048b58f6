// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What sealed packets need of libcrypto: HKDF-SHA256, two AEADs and X25519.
//
// libcrypto is loaded when a device with a key is opened: devices without one do not depend on it.
#pragma once

#include "net/packet_io.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

struct evp_cipher_ctx_st;
struct evp_pkey_st;

namespace soft_hca {

inline constexpr std::size_t seal_key_size = 32;
inline constexpr std::size_t seal_nonce_size = 12;
inline constexpr std::size_t seal_tag_size = 16;
inline constexpr std::size_t seal_share_size = 32; ///< an X25519 public key

enum class seal_suite : std::uint8_t { aes_256_gcm = 1, chacha20_poly1305 = 2 };

/// Overwrites key material. The compiler cannot drop the stores, though nothing reads them.
void wipe(void *what, std::size_t size);

/// 32 secret bytes, which the destructor wipes.
struct seal_secret {
    seal_secret() = default;
    seal_secret(const seal_secret &) = delete;
    seal_secret &operator=(const seal_secret &) = delete;
    ~seal_secret() { wipe(bytes, sizeof bytes); }
    bytes_view view() const { return {bytes, sizeof bytes}; }

    std::uint8_t bytes[seal_key_size] = {};
};

class seal_library {
public:
    /// Whether the engine was compiled with the headers of OpenSSL.
    static bool is_built();
    /// Whether the processor has instructions for AES-GCM.
    static bool has_fast_aes();

    seal_library();
    ~seal_library();
    /// Loads the shared object `name`. False if it is missing, or too old.
    bool load(const char *name);

    [[nodiscard]] bool derive(bytes_view secret, bytes_view salt, bytes_view info,
                              seal_secret &out) const;

private:
    friend class seal_cipher;
    friend class seal_agreement;
    struct functions;
    std::unique_ptr<functions> call_;
};

/// One key of an AEAD. Texts are sealed and opened in place.
class seal_cipher {
public:
    seal_cipher() = default;
    seal_cipher(seal_cipher &&other) noexcept { swap(other); }
    seal_cipher &operator=(seal_cipher &&other) noexcept
    {
        swap(other);
        return *this;
    }
    ~seal_cipher();
    [[nodiscard]] bool open_with(const seal_library &library, seal_suite suite,
                                 const seal_secret &key, bool seals);
    explicit operator bool() const { return context_ != nullptr; }

    [[nodiscard]] bool seal(const std::uint8_t *nonce, bytes_view header, std::uint8_t *text,
                            std::size_t size, std::uint8_t *tag);
    /// Returns false if the text was not sealed with this key, nonce and header; it is garbage
    /// then.
    [[nodiscard]] bool open(const std::uint8_t *nonce, bytes_view header, std::uint8_t *text,
                            std::size_t size, const std::uint8_t *tag);

private:
    void swap(seal_cipher &other)
    {
        std::swap(library_, other.library_);
        std::swap(context_, other.context_);
    }

    const seal_library *library_ = nullptr;
    evp_cipher_ctx_st *context_ = nullptr;
};

/// An ephemeral key pair of X25519.
class seal_agreement {
public:
    seal_agreement() = default;
    seal_agreement(const seal_agreement &) = delete;
    seal_agreement &operator=(const seal_agreement &) = delete;
    ~seal_agreement() { forget(); }
    [[nodiscard]] bool make(const seal_library &library, std::uint8_t *share);
    [[nodiscard]] bool agree(const std::uint8_t *peer_share, seal_secret &out) const;
    void forget();

private:
    const seal_library *library_ = nullptr;
    evp_pkey_st *private_ = nullptr;
};

} // namespace soft_hca
