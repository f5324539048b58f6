// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The secret of a job, by which its ranks know each other. Rank 0 makes it, and it reaches the
// others through the launcher together with the place where rank 0 listens. One secret for all is
// as good as one for each rank: every rank would have to know all of them, and all belong to one
// user.
//
// A rank that asks for a connection, or answers, adds a hash of its statement with the secret as
// the key. The hash covers both ranks, the purpose and a number that a rank uses once for each
// other one, so it is of no use to another rank, for another purpose, or a second time.
#pragma once

#include <array>
#include <cstdint>

namespace am {

struct secret {
    std::array<std::uint64_t, 2> words{};

    /// Takes random numbers from the system. False if it has none, which is reported.
    bool make();
    bool is_made() const { return words[0] != 0 || words[1] != 0; }
};

using proof = std::array<std::uint64_t, 2>;

/// A statement to be proven. It has no padding, which would be hashed, too.
struct statement {
    std::uint32_t purpose; ///< a connection_purpose
    std::uint32_t answer;  ///< 1: the rank that was asked says it
    std::uint32_t from;
    std::uint32_t to;
    std::uint64_t number; ///< the request's
    std::uint64_t code;
};

proof prove(const secret &key, const statement &said);
/// Compares in a time that does not depend on which bytes are wrong.
bool is_proof(const secret &key, const statement &said, const proof &given);

/// Remembers which request numbers of a rank have come. A number is new once. Numbers far
/// below the highest count as seen.
class number_window {
public:
    bool is_new(std::uint64_t number)
    {
        constexpr std::uint64_t width = 64;
        if (number > highest_) {
            const std::uint64_t step = number - highest_;
            seen_ = step < width ? seen_ << step | 1 : 1;
            highest_ = number;
            return true;
        }
        const std::uint64_t age = highest_ - number;
        if (number == 0 || age >= width || (seen_ >> age & 1) != 0)
            return false;
        seen_ |= std::uint64_t{1} << age;
        return true;
    }

private:
    std::uint64_t highest_ = 0;
    std::uint64_t seen_ = 0; ///< bit i: the number `highest_ - i` has come
};

} // namespace am
