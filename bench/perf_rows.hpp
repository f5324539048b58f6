// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Figures in the columns that ib_send_lat and ib_send_bw of perftest have, so that people and
// scripts that know these programs can read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench::perf {

/// What batches of one stream carried.
struct stream_rates {
    double median = 0, best = 0, mean = 0; ///< bytes per second
    std::uint64_t operations = 0;
};

/// The lines above the rows of an operation.
std::string latency_columns(const std::string &operation);
std::string bandwidth_columns(const std::string &operation);
/// Samples are half round trips in us.
std::string latency_row(std::uint32_t size, const std::vector<double> &samples);
std::string bandwidth_row(std::uint32_t size, const stream_rates &rates);

} // namespace bench::perf
