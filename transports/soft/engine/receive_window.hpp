// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Puts packets in order: early ones are kept until those before them have arrived.
//
// Life of a kept packet. keep() stores a copy, owned by the window, in the slot of its sequence
// number. advance() frees it when that number is taken, from this copy or from a duplicate. So a
// slot holds a packet of next() … next() + capacity - 1 or none; a lookup compares the number all
// the same. A kept packet is not dropped earlier unless the connection ends: it was acknowledged
// selectively, and the sender does not retransmit it.
#pragma once

#include "serial.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace soft_hca {

class receive_window {
public:
    static constexpr std::uint32_t capacity = 256; ///< how far ahead a packet may be
    static constexpr std::size_t max_bytes = 8u << 20;

    enum class place { in_order, early, old, beyond };

    receive_window() = default;
    explicit receive_window(std::uint32_t first_psn) : next_(first_psn) {}
    void start(std::uint32_t first_psn) { *this = receive_window(first_psn); }
    void forget() { start(next_); }

    std::uint32_t next() const { return next_; }
    place place_of(std::uint32_t psn) const
    {
        const std::int32_t ahead = distance(next_, psn);
        if (ahead == 0)
            return place::in_order;
        if (ahead < 0)
            return ahead >= -static_cast<std::int32_t>(2 * capacity) ? place::old : place::beyond;
        return ahead < static_cast<std::int32_t>(capacity) ? place::early : place::beyond;
    }
    /// The packet numbered next() was taken.
    void advance()
    {
        if (held_ != 0)
            drop(next_);
        ++next_;
    }
    /// Stores a copy of a packet of the window. False when it is a duplicate or out of memory.
    bool keep(std::uint32_t psn, const std::uint8_t *bytes, std::size_t size);
    bool holds_any() const { return held_ != 0; }

    struct kept {
        std::uint32_t psn;
        std::size_t size;
        std::uint8_t *bytes() { return reinterpret_cast<std::uint8_t *>(this + 1); }
    };
    /// The kept packet numbered next(), or null. It stays kept until advance().
    kept *peek_next() { return find(next_); }

    /// Selective acknowledgement: bit i of word w stands for the packet next() + 1 + 32 * w + i.
    /// Returns the number of words that are not all zero.
    std::uint32_t describe(std::uint32_t *words, std::uint32_t max_words) const;

private:
    struct slots {
        slots() = default;
        slots(const slots &) = delete;
        slots &operator=(const slots &) = delete;
        ~slots()
        {
            for (kept *each : at)
                std::free(each);
        }
        kept *at[capacity] = {};
    };

    kept *find(std::uint32_t psn) const
    {
        kept *item = held_ == 0 ? nullptr : slots_->at[psn % capacity];
        return item != nullptr && item->psn == psn ? item : nullptr;
    }
    void drop(std::uint32_t psn);

    std::uint32_t next_ = 0;
    std::uint32_t held_ = 0;
    std::size_t bytes_ = 0;
    std::unique_ptr<slots> slots_; ///< made when first needed
};

} // namespace soft_hca
