// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

namespace ranks {

/// Packets of the soft port, sent by this rank, that say that a message found no receive.
std::uint64_t receiver_not_ready();

} // namespace ranks
