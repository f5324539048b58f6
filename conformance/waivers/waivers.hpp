// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Known failures that are accepted until a date. The file is a JSON array of objects:
//   {"case": "EVD-08", "reason": "...", "failure": "got DAT_TIMEOUT_EXPIRED*dat_evd_wait",
//    "link": "https://...", "until": "2027-01-31"}
// and "flaky": true for a case that fails intermittently; it may leave out the failure. Several
// failures are an array. "kernel": ">=6.1 <7" names the kernels on which it fails.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace conformance {

struct waiver {
    std::string reason;
    std::vector<std::string> failures; ///< failures of the case, any of which it may give; * is any
                                       ///< text
    std::string link;
    std::string until; ///< the last day on which it waives
    bool expired = false;
    bool flaky = false;        ///< it may pass, or not be claimed
    std::string kernels;       ///< kernels, as the file names them; empty: all
    bool other_kernel = false; ///< the running kernel is not among them

    /// Whether it is about this failure.
    bool expects(const std::string &failed) const;
};

/// All waivers, by rule id.
using waivers = std::map<std::string, waiver>;

/// `today` is a date as in the file, `kernel` the release of the kernel, as 6.1.0-56-amd64. Throws
/// std::runtime_error with the error and its place.
waivers read_waivers(const std::string &path, const std::string &today, const std::string &kernel);

} // namespace conformance
