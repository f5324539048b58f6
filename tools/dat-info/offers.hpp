// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Counters that running programs offer, of which DAPL_COUNTERS=2 has asked for that.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dat_info {

/// An adapter that a program has open, with the sums of its counters.
struct offer {
    std::uint64_t inode = 0; ///< of the pages: tells offers apart
    long process = 0;
    std::string program;
    std::string adapter;
    std::vector<std::pair<const char *, std::uint64_t>> counters; ///< by name
};

/// The offers of this user's programs, by process. Whatever is in their pages is copied, and
/// nothing but numbers and printable text is made of it.
std::vector<offer> find_offers();

} // namespace dat_info
