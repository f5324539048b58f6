// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the library writes to the standard error.
#pragma once

#include <dat2/udat.h>

namespace am {

/// Sets the rank that stands before each line of this process.
void report_as(int rank);

/// Writes one line, with the rank before it, in one write.
[[gnu::format(printf, 1, 2)]] void report(const char *format, ...);

/// Reports a DAT call that has failed. False when it has not.
bool report_failed(const char *call, DAT_RETURN code);

/// Returns the text of a DAT return code, for report().
const char *dat_text(DAT_RETURN code);

} // namespace am
