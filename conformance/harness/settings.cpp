// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/settings.hpp"

#include <algorithm>

namespace conformance {

bool settings::promised(const std::string &what) const
{
    return std::find(promises.begin(), promises.end(), what) != promises.end();
}

settings &the_settings()
{
    static settings instance;
    return instance;
}

} // namespace conformance
