// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The report on all adapters, for people and for programs.
#pragma once

#include "adapter.hpp"

namespace dat_info {

struct findings {
    std::string libdat2;
    bool is_ours = true;
    registry_file file;
    std::vector<adapter> adapters;
    std::vector<std::string> trouble;         ///< why there is none, or another than requested
    std::vector<std::string> registry_output; ///< lines that libdat2 wrote when it was asked
};

enum class detail { list, attributes, all };

void print_text(const findings &found, detail wanted);

/// Writes to standard output.
void print_json(const findings &found);
/// Writes all that somebody else needs who looks for a fault, and the scorecards in these files.
void write_report(const std::string &path, const findings &found,
                  const std::vector<std::string> &scorecards);

} // namespace dat_info
