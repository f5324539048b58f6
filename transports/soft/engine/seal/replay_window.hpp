// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Protection against replays: each packet number is accepted once, and none below the window.
#pragma once

#include <cstdint>

namespace soft_hca {

class replay_window {
public:
    static constexpr std::uint32_t words = 32;
    /// Width of the window: a number this far below the highest received number can still be
    /// accepted.
    static constexpr std::uint32_t size = (words - 1) * 64;

    bool is_new(std::uint64_t number) const
    {
        if (number >= end_)
            return true;
        return end_ - number <= size && (word(number) & bit(number)) == 0;
    }
    void mark(std::uint64_t number)
    {
        if (number >= end_) {
            clear_between(end_ == 0 ? 0 : (end_ - 1) / 64, number / 64);
            end_ = number + 1;
        }
        came_[number / 64 % words] |= bit(number);
    }
    /// The highest number received, plus 1.
    std::uint64_t end() const { return end_; }

private:
    static std::uint64_t bit(std::uint64_t number) { return std::uint64_t{1} << number % 64; }
    std::uint64_t word(std::uint64_t number) const { return came_[number / 64 % words]; }
    /// Clears the words behind `last` up to `now`, whose bits are of numbers that leave the window.
    void clear_between(std::uint64_t last, std::uint64_t now)
    {
        if (now - last > words)
            last = now - words;
        while (last != now)
            came_[++last % words] = 0;
    }

    std::uint64_t end_ = 0;
    std::uint64_t came_[words] = {};
};

} // namespace soft_hca
