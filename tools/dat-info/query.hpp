// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The work of the children: calls libdat2 and reports the results.
#pragma once

#include "adapter.hpp"
#include "child.hpp"

namespace dat_info {

/// Tells "adapter" (name, major, minor, "1" when thread-safe) for each adapter that the registry
/// knows.
extern const program::job list_job;

/// Opens, queries and closes an adapter, and reports "step" before each call, "refused" (call,
/// code, its meaning) when one says no, "loading" (line, text) for a library that cannot be used,
/// "attribute" (section, name, value, kind), "remark" (text), and "done".
extern const program::job open_job;
/// What open_job is told.
std::string open_argument(const adapter &which, bool with_endpoint);

/// The lines of dat.conf that offer the adapter.
void find_lines(adapter &which, const registry_file &file);

/// Whether the program is linked to this kit's libdat2.
bool libdat2_is_ours();

} // namespace dat_info
