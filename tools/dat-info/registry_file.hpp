// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The dat.conf that counts, the reason for it, and its lines.
#pragma once

#include <string>
#include <vector>

namespace dat_info {

struct line {
    unsigned number;
    std::string name;
    bool for_the_kernel;
    unsigned api_major, api_minor;
    bool thread_safe;
    bool is_default;
    std::string library;
    std::string provider_version;
    std::string parameters;
    std::string platform_parameters;

    bool is_usable() const { return !for_the_kernel && is_default; }
};

/// A line that is malformed.
struct problem {
    unsigned number;
    std::string reason;
    std::string first_word;
};

struct registry_file {
    std::string path;                   ///< empty: there is none
    std::string chosen_by;              ///< DAT_OVERRIDE, DAT_CONF, or empty: the system's
    std::string error;                  ///< why it cannot be read
    std::vector<std::string> looked_at; ///< the system's places that have none
    std::vector<line> lines;
    std::vector<problem> problems;

    std::string where(unsigned number) const { return path + ":" + std::to_string(number); }
};

/// Finds the file that the registry in use reads: libdat2 of this kit (`is_ours`) looks also at
/// DAT_CONF.
registry_file find_registry_file(bool is_ours);

} // namespace dat_info
