// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

namespace ranks {

/// How often this thread has looked into an EVD and found nothing since the last that it found.
std::uint64_t looks_in_vain();

} // namespace ranks
