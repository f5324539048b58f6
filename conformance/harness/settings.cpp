// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/settings.hpp"

#include "program/system.hpp"

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

bool instrumented()
{
    static const bool there = program::find_symbol("__asan_init") != nullptr ||
                              program::find_symbol("__tsan_init") != nullptr;
    return there;
}

bool thread_sanitized()
{
    static const bool there = program::find_symbol("__tsan_init") != nullptr;
    return there;
}

} // namespace conformance
