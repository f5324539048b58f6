// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The lengths of event queues.
#pragma once

#include <dat2/udat.h>

namespace dat12 {

/// Programs of DAT 1.2 ask for a length of 1 or 8 and then have more events outstanding: their
/// former libraries rounded lengths up. DAT calls it a minimum, so this is within it. A length that
/// is no length stays one, for the provider to refuse.
constexpr DAT_COUNT least_qlen(DAT_COUNT asked)
{
    constexpr DAT_COUNT least = 64;
    return asked > 0 && asked < least ? least : asked;
}

} // namespace dat12
