// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "perf_rows.hpp"

#include "statistics.hpp"

#include <cstdio>

namespace bench::perf {

namespace {

constexpr double mebibyte = 1024.0 * 1024.0; // what perftest calls MB

std::string title(const std::string &operation)
{
    return "\n# " + operation + "\n";
}

} // namespace

std::string latency_columns(const std::string &operation)
{
    return title(operation) +
           " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]"
           "    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]\n";
}

std::string bandwidth_columns(const std::string &operation)
{
    return title(operation) + " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]"
                              "   MsgRate[Mpps]\n";
}

std::string latency_row(std::uint32_t size, const std::vector<double> &samples)
{
    char row[200];
    std::snprintf(row, sizeof row,
                  " %-6u  %-11zu    %-11.2f    %-11.2f  %-15.2f    %-11.2f    %-13.2f   %-20.2f   "
                  "%.2f\n",
                  size, samples.size(), quantile(samples, 0), quantile(samples, 1), median(samples),
                  mean(samples), deviation(samples), quantile(samples, 0.99),
                  quantile(samples, 0.999));
    return row;
}

std::string bandwidth_row(std::uint32_t size, const stream_rates &rates)
{
    char row[120];
    std::snprintf(row, sizeof row, " %-10u %-14llu %-18.2f %-21.2f %.6f\n", size,
                  static_cast<unsigned long long>(rates.operations), rates.best / mebibyte,
                  rates.mean / mebibyte, rates.mean / size / 1e6);
    return row;
}

} // namespace bench::perf
