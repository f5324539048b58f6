// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What other ranks have said of barriers, by messages.
#pragma once

#include <atomic>
#include <cstdint>

namespace am {

/// A word has the number of its barrier in the upper 24 bits, and is never 0. A rank may be one
/// barrier ahead of another one, so there are words of two.
class barrier_words {
public:
    static constexpr int max_rounds = 31;

    /// Takes a word that a message has brought. False if there is no such round.
    bool hear(int round, std::uint64_t word)
    {
        if (round < 0 || round > max_rounds)
            return false;
        heard_[word >> 40 & 1][round].store(word, std::memory_order_release);
        return true;
    }
    std::uint64_t heard(std::uint32_t number, int round) const
    {
        return heard_[number & 1][round].load(std::memory_order_acquire);
    }

private:
    std::atomic<std::uint64_t> heard_[2][max_rounds + 1]{};
};

} // namespace am
