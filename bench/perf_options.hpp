// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What dat-perf was asked to measure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace bench::perf {

constexpr std::uint32_t largest_size = 1u << 30;
constexpr double longest_limit_s = 1e6;

struct options {
    std::string adapter, host, listen, json, svg, api = "2.0";
    std::vector<std::string> tests = {"latency", "bandwidth", "rate", "connections"};
    std::vector<std::uint32_t> sizes; ///< chosen by settle() if they are not given
    std::uint32_t size = 64, window = 16, max_size = 64 << 20, threads = 1, clients = 1;
    std::uint16_t port = 18515;
    double duration = 0.3, wait = 300, limit = 20;
    bool server = false, in_job = false, quick = false, sweep = false, both_ways = false;
    bool in_columns = false; ///< those of perftest's programs

    /// The stream for figures as text: JSON on standard output stands alone.
    std::FILE *out() const { return json == "-" ? stderr : stdout; }
    void settle()
    {
        sweep = sweep || !svg.empty();
        if (!sizes.empty())
            return;
        if (sweep)
            for (std::uint32_t each = 1; each <= 1 << 20; each *= 4)
                sizes.push_back(each);
        else
            sizes = {64, 1024, 8192, 65536, 1 << 20};
    }
    /// The sizes of latency and rate.
    std::vector<std::uint32_t> small_sizes() const
    {
        return sweep ? sizes : std::vector<std::uint32_t>{size};
    }

    bool wants(const char *test) const
    {
        return std::find(tests.begin(), tests.end(), test) != tests.end();
    }
    bool wants_open_only() const { return wants("open") && tests.size() == 1; }
    bool has_one_host() const { return !server && host.empty() && !in_job; }
    std::uint32_t largest() const
    {
        return std::max(size, *std::max_element(sizes.begin(), sizes.end()));
    }
};

} // namespace bench::perf
