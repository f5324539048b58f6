// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "seal_library.hpp"

#include <cstring>
#include <new>

#ifdef SOFT_HCA_KEYS
#include <dlfcn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#if defined __aarch64__
#include <sys/auxv.h>
#endif
#endif

namespace soft_hca {

void wipe(void *what, std::size_t size)
{
    std::memset(what, 0, size);
    asm volatile("" : : "r"(what) : "memory");
}

bool seal_library::has_fast_aes()
{
#if defined __x86_64__
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined SOFT_HCA_KEYS && defined __aarch64__
    constexpr unsigned long aes_and_pmull = 3 << 3;
    return (getauxval(AT_HWCAP) & aes_and_pmull) == aes_and_pmull;
#else
    return false;
#endif
}

seal_library::seal_library() = default;

#ifdef SOFT_HCA_KEYS

struct seal_library::functions {
    decltype(&::OPENSSL_init_crypto) init;
    decltype(&::EVP_KDF_fetch) kdf_fetch;
    decltype(&::EVP_KDF_free) kdf_free;
    decltype(&::EVP_KDF_CTX_new) kdf_ctx_new;
    decltype(&::EVP_KDF_CTX_free) kdf_ctx_free;
    decltype(&::EVP_KDF_derive) kdf_derive;
    decltype(&::EVP_CIPHER_fetch) cipher_fetch;
    decltype(&::EVP_CIPHER_free) cipher_free;
    decltype(&::EVP_CIPHER_CTX_new) ctx_new;
    decltype(&::EVP_CIPHER_CTX_free) ctx_free;
    decltype(&::EVP_CIPHER_CTX_ctrl) ctx_ctrl;
    decltype(&::EVP_EncryptInit_ex2) encrypt_init;
    decltype(&::EVP_EncryptUpdate) encrypt_update;
    decltype(&::EVP_EncryptFinal_ex) encrypt_final;
    decltype(&::EVP_DecryptInit_ex2) decrypt_init;
    decltype(&::EVP_DecryptUpdate) decrypt_update;
    decltype(&::EVP_DecryptFinal_ex) decrypt_final;
    decltype(&::EVP_PKEY_Q_keygen) keygen;
    decltype(&::EVP_PKEY_free) pkey_free;
    decltype(&::EVP_PKEY_get_raw_public_key) raw_public;
    decltype(&::EVP_PKEY_new_raw_public_key_ex) new_public;
    decltype(&::EVP_PKEY_CTX_new_from_pkey) pkey_ctx_new;
    decltype(&::EVP_PKEY_CTX_free) pkey_ctx_free;
    decltype(&::EVP_PKEY_derive_init) derive_init;
    decltype(&::EVP_PKEY_derive_set_peer) derive_set_peer;
    decltype(&::EVP_PKEY_derive) derive;

    // Fetched once for all packets: a fetch takes longer than sealing one.
    EVP_KDF *hkdf = nullptr;
    EVP_CIPHER *aes = nullptr;
    EVP_CIPHER *chacha = nullptr;

    bool find_all(void *library);
};

namespace {

template <class Function>
bool find(void *library, const char *name, Function *&out)
{
    out = reinterpret_cast<Function *>(dlsym(library, name));
    return out != nullptr;
}

} // namespace

bool seal_library::functions::find_all(void *library)
{
    return find(library, "OPENSSL_init_crypto", init) &&
           find(library, "EVP_KDF_fetch", kdf_fetch) && find(library, "EVP_KDF_free", kdf_free) &&
           find(library, "EVP_KDF_CTX_new", kdf_ctx_new) &&
           find(library, "EVP_KDF_CTX_free", kdf_ctx_free) &&
           find(library, "EVP_KDF_derive", kdf_derive) &&
           find(library, "EVP_CIPHER_fetch", cipher_fetch) &&
           find(library, "EVP_CIPHER_free", cipher_free) &&
           find(library, "EVP_CIPHER_CTX_new", ctx_new) &&
           find(library, "EVP_CIPHER_CTX_free", ctx_free) &&
           find(library, "EVP_CIPHER_CTX_ctrl", ctx_ctrl) &&
           find(library, "EVP_EncryptInit_ex2", encrypt_init) &&
           find(library, "EVP_EncryptUpdate", encrypt_update) &&
           find(library, "EVP_EncryptFinal_ex", encrypt_final) &&
           find(library, "EVP_DecryptInit_ex2", decrypt_init) &&
           find(library, "EVP_DecryptUpdate", decrypt_update) &&
           find(library, "EVP_DecryptFinal_ex", decrypt_final) &&
           find(library, "EVP_PKEY_Q_keygen", keygen) &&
           find(library, "EVP_PKEY_free", pkey_free) &&
           find(library, "EVP_PKEY_get_raw_public_key", raw_public) &&
           find(library, "EVP_PKEY_new_raw_public_key_ex", new_public) &&
           find(library, "EVP_PKEY_CTX_new_from_pkey", pkey_ctx_new) &&
           find(library, "EVP_PKEY_CTX_free", pkey_ctx_free) &&
           find(library, "EVP_PKEY_derive_init", derive_init) &&
           find(library, "EVP_PKEY_derive_set_peer", derive_set_peer) &&
           find(library, "EVP_PKEY_derive", derive);
}

bool seal_library::is_built()
{
    return true;
}

seal_library::~seal_library()
{
    if (call_ == nullptr)
        return;
    call_->kdf_free(call_->hkdf);
    call_->cipher_free(call_->aes);
    call_->cipher_free(call_->chacha);
}

/// libcrypto is never unloaded, and shall not free its tables when the process exits: threads of a
/// device that was not closed may still use them.
bool seal_library::load(const char *name)
{
    void *const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    auto found = std::unique_ptr<functions>(new (std::nothrow) functions);
    if (library == nullptr || found == nullptr || !found->find_all(library))
        return false;
    call_ = std::move(found);
    (void)call_->init(OPENSSL_INIT_NO_ATEXIT, nullptr);
    call_->hkdf = call_->kdf_fetch(nullptr, OSSL_KDF_NAME_HKDF, nullptr);
    call_->aes = call_->cipher_fetch(nullptr, "AES-256-GCM", nullptr);
    call_->chacha = call_->cipher_fetch(nullptr, "ChaCha20-Poly1305", nullptr);
    return call_->hkdf != nullptr && call_->aes != nullptr && call_->chacha != nullptr;
}

namespace {

OSSL_PARAM parameter(const char *name, bytes_view value)
{
    static constexpr char nothing = 0;
    const void *const at = value.size != 0 ? value.at : &nothing;
    return OSSL_PARAM_octet_string(name, const_cast<void *>(at), value.size);
}

} // namespace

bool seal_library::derive(bytes_view secret, bytes_view salt, bytes_view info,
                          seal_secret &out) const
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, sizeof digest - 1),
        parameter(OSSL_KDF_PARAM_KEY, secret), parameter(OSSL_KDF_PARAM_SALT, salt),
        parameter(OSSL_KDF_PARAM_INFO, info), OSSL_PARAM_END};
    EVP_KDF_CTX *const context = call_->kdf_ctx_new(call_->hkdf);
    const bool made =
        context != nullptr && call_->kdf_derive(context, out.bytes, sizeof out.bytes, params) == 1;
    call_->kdf_ctx_free(context);
    return made;
}

// ----------------------------------------------------------------------------------------- AEAD

seal_cipher::~seal_cipher()
{
    if (context_ != nullptr)
        library_->call_->ctx_free(context_); // wipes the key
}

bool seal_cipher::open_with(const seal_library &library, seal_suite suite, const seal_secret &key,
                            bool seals)
{
    const seal_library::functions &call = *library.call_;
    seal_cipher made;
    made.library_ = &library;
    made.context_ = call.ctx_new();
    const EVP_CIPHER *const which = suite == seal_suite::aes_256_gcm ? call.aes : call.chacha;
    if (!made || (seals ? call.encrypt_init : call.decrypt_init)(made.context_, which, key.bytes,
                                                                 nullptr, nullptr) != 1)
        return false;
    swap(made);
    return true;
}

bool seal_cipher::seal(const std::uint8_t *nonce, bytes_view header, std::uint8_t *text,
                       std::size_t size, std::uint8_t *tag)
{
    const seal_library::functions &call = *library_->call_;
    int done = 0;
    return call.encrypt_init(context_, nullptr, nullptr, nonce, nullptr) == 1 &&
           call.encrypt_update(context_, nullptr, &done,
                               static_cast<const std::uint8_t *>(header.at),
                               static_cast<int>(header.size)) == 1 &&
           call.encrypt_update(context_, text, &done, text, static_cast<int>(size)) == 1 &&
           call.encrypt_final(context_, text + done, &done) == 1 &&
           call.ctx_ctrl(context_, EVP_CTRL_AEAD_GET_TAG, seal_tag_size, tag) == 1;
}

bool seal_cipher::open(const std::uint8_t *nonce, bytes_view header, std::uint8_t *text,
                       std::size_t size, const std::uint8_t *tag)
{
    const seal_library::functions &call = *library_->call_;
    int done = 0;
    return call.decrypt_init(context_, nullptr, nullptr, nonce, nullptr) == 1 &&
           call.ctx_ctrl(context_, EVP_CTRL_AEAD_SET_TAG, seal_tag_size,
                         const_cast<std::uint8_t *>(tag)) == 1 &&
           call.decrypt_update(context_, nullptr, &done,
                               static_cast<const std::uint8_t *>(header.at),
                               static_cast<int>(header.size)) == 1 &&
           call.decrypt_update(context_, text, &done, text, static_cast<int>(size)) == 1 &&
           call.decrypt_final(context_, text + done, &done) == 1;
}

// ----------------------------------------------------------------------------------- agreement

bool seal_agreement::make(const seal_library &library, std::uint8_t *share)
{
    forget();
    library_ = &library;
    private_ = library.call_->keygen(nullptr, nullptr, "X25519");
    std::size_t size = seal_share_size;
    return private_ != nullptr && library.call_->raw_public(private_, share, &size) == 1 &&
           size == seal_share_size;
}

/// Fails for shares of low order, with which the result would not depend on our key.
bool seal_agreement::agree(const std::uint8_t *peer_share, seal_secret &out) const
{
    if (private_ == nullptr)
        return false; // forgotten after an agreement
    const seal_library::functions &call = *library_->call_;
    EVP_PKEY *const peer = call.new_public(nullptr, "X25519", nullptr, peer_share, seal_share_size);
    EVP_PKEY_CTX *const context =
        peer != nullptr ? call.pkey_ctx_new(nullptr, private_, nullptr) : nullptr;
    std::size_t size = sizeof out.bytes;
    const bool agreed = context != nullptr && call.derive_init(context) == 1 &&
                        call.derive_set_peer(context, peer) == 1 &&
                        call.derive(context, out.bytes, &size) == 1 && size == sizeof out.bytes;
    call.pkey_ctx_free(context);
    call.pkey_free(peer);
    return agreed;
}

void seal_agreement::forget()
{
    if (private_ != nullptr)
        library_->call_->pkey_free(std::exchange(private_, nullptr)); // wipes it
}

#else // this build has no keys: no device has a key, and nothing below is called but load()

struct seal_library::functions {};

bool seal_library::is_built()
{
    return false;
}

seal_library::~seal_library() = default;

bool seal_library::load(const char *)
{
    return false;
}

bool seal_library::derive(bytes_view, bytes_view, bytes_view, seal_secret &) const
{
    return false;
}

seal_cipher::~seal_cipher() = default;

bool seal_cipher::open_with(const seal_library &, seal_suite, const seal_secret &, bool)
{
    return false;
}

bool seal_cipher::seal(const std::uint8_t *, bytes_view, std::uint8_t *, std::size_t,
                       std::uint8_t *)
{
    return false;
}

bool seal_cipher::open(const std::uint8_t *, bytes_view, std::uint8_t *, std::size_t,
                       const std::uint8_t *)
{
    return false;
}

bool seal_agreement::make(const seal_library &, std::uint8_t *)
{
    return false;
}

bool seal_agreement::agree(const std::uint8_t *, seal_secret &) const
{
    return false;
}

void seal_agreement::forget() {}

#endif

} // namespace soft_hca
