// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace dat_info {

/// The names in a folder; none if it cannot be read.
inline std::set<std::string> entries_of(const std::filesystem::path &folder)
{
    std::set<std::string> names;
    std::error_code none;
    for (const auto &each : std::filesystem::directory_iterator(folder, none))
        names.insert(each.path().filename());
    return names;
}

} // namespace dat_info
