// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Known failures that are accepted until a date. The file is a JSON array of objects:
//   {"case": "EVD-08", "reason": "...", "link": "https://...", "until": "2027-01-31"}
// and "flaky": true for a case that fails intermittently.
#pragma once

#include <map>
#include <string>

namespace conformance {

struct waiver {
    std::string reason;
    std::string link;
    std::string until; ///< the last day on which it waives
    bool expired = false;
    bool flaky = false; ///< it may pass
};

/// By rule id.
using waivers = std::map<std::string, waiver>;

/// `today` is a date as in the file. Throws std::runtime_error with the error and its place.
waivers read_waivers(const std::string &path, const std::string &today);

} // namespace conformance
