// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The side of dat-perf that chooses the measurements and prints them.
#pragma once

#include "osd_annotations.hpp"
#include "perf_follower.hpp"
#include "perf_links.hpp"
#include "perf_options.hpp"
#include "perf_rows.hpp"
#include "program/json.hpp"
#include "program/system.hpp"
#include "traffic.hpp"

#include <cstdarg>
#include <map>

namespace bench::perf {

/// One figure of a test, for the plot.
struct measurement {
    std::string test, how;
    std::uint32_t size;
    double value;
    double low = 0, high = 0; ///< the best and the 99th percentile, where single samples are taken
};

/// Shows the current measurement on a terminal, and takes it back; says it elsewhere too, when it
/// takes long.
class progress_line {
public:
    explicit progress_line(bool wanted)
        : wanted_(wanted), is_terminal_(wanted && program::is_terminal(stderr))
    {}
    ~progress_line() { clear(); }

    void show(const std::string &what)
    {
        clear();
        what_ = what;
        begun_ = clock::now();
        pause_ = seconds(2);
        next_ = pause_;
        if (is_terminal_)
            std::fprintf(stderr, "  ... %s", what.c_str());
    }
    /// Goes on after a part of the measurement.
    void go_on()
    {
        const seconds took = clock::now() - begun_;
        if (!wanted_ || took < next_)
            return;
        if (!is_terminal_)
            pause_ *= 2;
        next_ = took + pause_;
        clear();
        std::fprintf(stderr, "  ... %s, since %.0f s%s", what_.c_str(), took.count(),
                     is_terminal_ ? "" : "\n");
    }
    void clear()
    {
        if (is_terminal_)
            std::fputs("\r\033[K", stderr);
    }

private:
    const bool wanted_;
    const bool is_terminal_;
    std::string what_;
    clock::time_point begun_;
    seconds next_{}, pause_{};
};

class leader {
public:
    leader(channel &peer, const options &o);

    void run();
    void finish() { peer_.send(command{pattern::finish, 0, 0, 0}); }
    const program::json &results() const { return results_; }
    const std::vector<measurement> &measurements() const { return measurements_; }

private:
    void run_quick();
    void run_latency(std::uint32_t size);
    void run_bandwidth();
    void run_rate(std::uint32_t size);
    void run_connections();
    bool usable(std::uint32_t size, std::uint32_t limit, const char *what);
    std::uint32_t fitting(double most, double one_s) const;

    void latency(const char *name, pattern what, std::uint32_t size);
    const stream_rates &bandwidth(const char *name, pattern what, std::uint32_t size);
    void message_rate(const char *name, pattern what, std::uint32_t size);
    void batch_latency(pattern what, std::uint32_t size, std::uint32_t count,
                       std::vector<double> &samples_us);
    seconds stream_once(pattern what, std::uint32_t size, std::uint32_t count);
    const stream_rates &rates_of(pattern what, std::uint32_t size);
    stream_rates measure_stream(pattern what, std::uint32_t size);
    void say_columns(const std::string &columns);
    std::vector<double> connect_many(std::uint32_t count);

    int name_width() const { return o_.both_ways ? 21 : 14; }
    /// Prints, but for all ranks of a job except the first, which prints in the end.
    OSD_PRINTF(2, 3) void say(const char *format, ...) const
    {
        va_list list;
        va_start(list, format);
        if (!o_.in_job)
            std::vfprintf(o_.out(), format, list);
        va_end(list);
    }
    void ask(pattern what, std::uint32_t size, std::uint32_t count)
    {
        announce(peer_, {what, size, count, 0, o_.window}, seconds(o_.limit));
        p_.progress();
    }
    program::json &result(const char *test, const char *how, std::uint32_t size, const char *unit,
                          double value)
    {
        measurements_.push_back({test, how, size, value});
        program::json &added = results_.emplace_back(program::json{{"test", test}, {"how", how}});
        if (size != 0)
            added["size"] = size;
        added["unit"] = unit;
        added["value"] = value;
        return added;
    }

    const options &o_;
    channel &peer_;
    patience p_;
    progress_line progress_;
    dat_adapter adapter_;
    const links links_;
    dat_link &link_ = *links_.front();
    invitation to_{};
    program::json results_ = program::json::array();
    std::vector<measurement> measurements_;
    std::map<std::pair<pattern, std::uint32_t>, stream_rates> streams_; ///< measured already
    std::string columns_; ///< the columns of the latest row
};

} // namespace bench::perf
