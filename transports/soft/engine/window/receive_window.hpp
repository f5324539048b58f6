// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Puts packets in order: early packets are kept until the packets before them have arrived.
//
// Life of a kept packet. keep() stores a copy in the budget of the device. take_next() takes it out
// when all before it were taken; advance() drops it when a duplicate of it was. So a kept packet
// has a number of next() … next() + capacity - 1; a lookup compares the number all the same. The
// budget may drop it earlier, although it was acknowledged selectively: the sender retransmits it
// when the acknowledgement number gets there.
#pragma once

#include "early_packets.hpp"
#include "wire/serial.hpp"

#include <cstddef>
#include <cstdint>

namespace soft_hca {

class receive_window {
public:
    static constexpr std::uint32_t capacity = early_packets::capacity;

    enum class place { in_order, early, old, beyond };

    receive_window() = default;
    receive_window(early_packets &budget, std::uint32_t first_psn)
        : budget_(&budget), next_(first_psn)
    {}
    void start(std::uint32_t first_psn) { *this = receive_window(*budget_, first_psn); }

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
    /// A packet was taken that takes so many numbers, the first of which is next().
    void advance(std::uint32_t numbers = 1)
    {
        for (; numbers != 0; --numbers) {
            ++next_;
            if (holds_any())
                budget_->advance(*kept_, next_);
        }
    }
    /// Stores a copy of a packet of the window. False when it is a duplicate, or there is no room.
    bool keep(std::uint32_t psn, const std::uint8_t *bytes, std::size_t size,
              std::uint32_t numbers = 1)
    {
        if (kept_ == nullptr)
            kept_ = budget_->begin();
        return kept_ != nullptr && budget_->keep(*kept_, next_, psn, bytes, size, numbers);
    }
    bool holds_any() const
    {
        return kept_ != nullptr && kept_->held.load(std::memory_order_relaxed) != 0;
    }
    /// The kept packet numbered next(), or null. The caller keeps it again if it does not take it.
    early_packets::owned_copy take_next()
    {
        return holds_any() ? budget_->take(*kept_, next_) : nullptr;
    }

    /// Selective acknowledgement: bit i of word w stands for the packet next() + 1 + 32 * w + i.
    /// Returns the number of words that are not all zero.
    std::uint32_t describe(std::uint32_t *words, std::uint32_t max_words) const;

private:
    early_packets *budget_ = nullptr;
    std::uint32_t next_ = 0;
    early_packets::owned_holding kept_; ///< made when first needed
};

} // namespace soft_hca
