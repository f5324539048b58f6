// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>

namespace conformance {

/// The text as HTML and XML take it, in elements and in attributes. It may come from a provider:
/// bytes that are not UTF-8 become U+FFFD, control characters spaces.
std::string escaped(const std::string &text);

} // namespace conformance
