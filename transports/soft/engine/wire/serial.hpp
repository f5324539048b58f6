// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Sequence numbers of 32 bits that wrap (RFC 1982).
#pragma once

#include <cstdint>

namespace soft_hca {

constexpr std::int32_t distance(std::uint32_t from, std::uint32_t to)
{
    return static_cast<std::int32_t>(to - from);
}

constexpr bool before(std::uint32_t a, std::uint32_t b)
{
    return distance(a, b) > 0;
}

} // namespace soft_hca
