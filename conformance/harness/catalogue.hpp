// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The rules that the cases check, one each: "EVD-08: a wait of 200 ms does not return before 200
// ms".
#pragma once

#include <string>
#include <vector>

namespace conformance {

struct rule {
    std::string id;    ///< EVD-08
    std::string text;  ///< a wait of 200 ms ...
    std::string hint;  ///< what a typical port that fails does
    std::string needs; ///< the capability it is about; mostly none
    bool alone = false;

    std::string group() const { return id.substr(0, id.find('-')); }
};

/// All rules of this program, group by group.
std::vector<rule> all_rules();

/// The rules whose id or name matches one of the shell patterns; all rules if there is no pattern.
std::vector<rule> select(const std::vector<rule> &rules, const std::vector<std::string> &patterns);

/// The title of a group.
std::string group_title(const std::string &group);

} // namespace conformance
