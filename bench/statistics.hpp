// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace bench {

/// The value below which `part` of the samples lie; 0.5 is the median. NaN-free: 0 when empty.
inline double quantile(std::vector<double> samples, double part)
{
    if (samples.empty())
        return 0;
    const auto at = static_cast<std::size_t>(part * static_cast<double>(samples.size() - 1) + 0.5);
    std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(at),
                     samples.end());
    return samples[at];
}

inline double mean(const std::vector<double> &samples)
{
    return std::accumulate(samples.begin(), samples.end(), 0.0) /
           static_cast<double>(samples.size());
}

/// The standard deviation of all samples that there are.
inline double deviation(const std::vector<double> &samples)
{
    const double middle = mean(samples);
    double squares = 0;
    for (const double each : samples)
        squares += (each - middle) * (each - middle);
    return std::sqrt(squares / static_cast<double>(samples.size()));
}

inline double median(const std::vector<double> &samples)
{
    return quantile(samples, 0.5);
}

} // namespace bench
