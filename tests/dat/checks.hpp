// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The checks of most scenarios.
#pragma once

#include "scenario.hpp"

#include <doctest/doctest.h>

namespace scenario {

/// A scenario whose every EXPECT held, that exited with 0 and printed nothing unexpected.
inline void check_quiet(const outcome &result)
{
    CHECK(result.failures == "");
    CHECK(result.status == 0);
    CHECK(result.messages == "");
    CHECK(result.output == "");
}

/// Like check_quiet, but with exactly these lines on standard error.
inline void check_says(const outcome &result, const std::string &messages)
{
    CHECK(result.failures == "");
    CHECK(result.status == 0);
    CHECK(result.messages == messages);
}

} // namespace scenario
