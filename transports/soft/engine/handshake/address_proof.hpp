// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Proof that a requester receives packets at the address that its request came from, which anybody
// may have forged.
//
// A requester that repeats the token of a retry does; the token is computed from the request, so
// nothing is stored for it. A requester that does not understand a retry may only make us send
// three times as many bytes as came from its address, and few such are served at a time.
#pragma once

#include "net/packet_io.hpp"
#include "osd_siphash.hpp"
#include "wire/wire.hpp"

#include <atomic>
#include <cstdint>
#include <utility>

namespace soft_hca {

struct address_token {
    std::uint32_t id = 0;
    std::uint32_t tag = 0;

    friend bool operator==(const address_token &, const address_token &) = default;
};

/// Tokens of a device, and hashes that strangers cannot predict.
class address_tokens {
public:
    /// A token is valid for one or two periods. False without random numbers.
    bool open(std::int64_t period_ns = 10'000'000'000);
    address_token make(const net_address &from, const handshake &hello, std::int64_t now) const
    {
        return token(from, hello, period(now));
    }
    /// Whether a token was made for this request from this address.
    bool valid(const address_token &given, const net_address &from, const handshake &hello,
               std::int64_t now) const
    {
        return given == token(from, hello, period(now)) ||
               given == token(from, hello, period(now) - 1);
    }
    std::uint64_t hash(const net_address &from, std::uint32_t id, std::uint32_t tag) const
    {
        return hash(from, from.port(), id, tag, 0);
    }
    std::uint64_t hash_of_host(const net_address &from) const { return hash(from, 0, 0, 0, 0); }

private:
    std::int64_t period(std::int64_t now) const { return 1 + now / period_ns_; }
    address_token token(const net_address &from, const handshake &hello, std::int64_t period) const;
    std::uint64_t hash(const net_address &from, std::uint16_t port, std::uint32_t id,
                       std::uint32_t tag, std::int64_t period) const;

    osd::siphash_key key_;
    std::int64_t period_ns_ = 1;
};

/// The bytes that may be sent to an address that is not proven.
class address_budget {
public:
    bool is_free() const { return !used_.load(); }
    /// Begins a use of the budget, which is free.
    void claim()
    {
        left_.store(0);
        used_.store(true);
    }
    void release()
    {
        uses_.fetch_add(1);
        used_.store(false);
    }
    std::uint32_t use() const { return uses_.load(); }
    /// Adds bytes that came from the address. Has no effect after the end of that use.
    void add(std::size_t bytes, std::uint32_t in_use)
    {
        if (in_use == use())
            left_.fetch_add(3 * static_cast<std::int64_t>(bytes));
    }
    /// Returns false when so many bytes may not be sent.
    bool spend(std::size_t bytes)
    {
        const auto wanted = static_cast<std::int64_t>(bytes);
        if (left_.fetch_sub(wanted) >= wanted)
            return true;
        left_.fetch_add(wanted);
        return false;
    }

private:
    std::atomic<bool> used_{false};
    std::atomic<std::uint32_t> uses_{0};
    std::atomic<std::int64_t> left_{0};
};

/// Holds a budget that was claimed, or none: anything may be sent.
class budget_use {
public:
    budget_use() = default;
    explicit budget_use(address_budget &budget) : budget_(&budget) { budget.claim(); }
    budget_use(budget_use &&other) noexcept : budget_(std::exchange(other.budget_, nullptr)) {}
    budget_use &operator=(budget_use &&other) noexcept
    {
        std::swap(budget_, other.budget_);
        return *this;
    }
    ~budget_use()
    {
        if (budget_ != nullptr)
            budget_->release();
    }
    bool spend(std::size_t bytes) { return budget_ == nullptr || budget_->spend(bytes); }

private:
    address_budget *budget_ = nullptr;
};

} // namespace soft_hca
