// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Barriers by dissemination: in round r each rank tells the rank 2^r above it what it knows, which
// is whether all names agree so far.
#pragma once

#include <cstddef>
#include <cstdint>

namespace am::barrier {

/// Where puts of other ranks write: one page behind the segment.
constexpr std::size_t area_size = 4096;
void set_area(void *area);

/// Sends what can be sent. Not from handlers.
void progress();

/// A message of another rank. @return false if there is no such round
bool told(int round, std::uint64_t word);

} // namespace am::barrier
