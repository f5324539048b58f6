// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// dat-perf between the ranks of a job.
#pragma once

#include "perf_options.hpp"

namespace bench::perf {

/// Rank i of the first half leads, rank i of the second one follows. Returns false when a pair
/// failed.
bool measure_pairs(const options &o);

} // namespace bench::perf
