// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// JSON as the programs write it: members in the order in which they are set.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace program {

using json = nlohmann::ordered_json;

/// this_origin(), for results that are kept: its members have the names that they have there.
json origin_json();

/// Writes to `path`, or to standard output when it is "-". Bytes that are not UTF-8 are replaced by
/// U+FFFD: strings may come from a provider. Throws a failure.
void write_json(const std::string &path, json value);

} // namespace program
