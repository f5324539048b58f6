// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "perf_job.hpp"

#include "job.hpp"
#include "perf_leader.hpp"
#include "plot.hpp"
#include "program/origin.hpp"
#include "program/output_file.hpp"
#include "program/system.hpp"
#include "statistics.hpp"

#include <optional>

namespace bench::perf {

namespace {

/// Rank i of the first half leads, rank i of the second one follows.
class pairs {
public:
    explicit pairs(const options &o) : o_(o), half_(job_.size() / 2)
    {
        if (half_ == 0)
            throw program::failure("a job of one rank has no pairs: start two or more");
    }

    /// Returns false when a pair failed.
    bool measure();

private:
    static std::string this_host();
    bool leads() const { return job_.rank() < half_; }
    bool follows() const { return !leads() && job_.rank() < 2 * half_; }
    void take_part();
    program::json lead();
    bool report();
    void print(const program::json &all) const;

    const options &o_;
    job job_;
    int half_;
    std::optional<peer_listener> listener_;
};

std::string pairs::this_host()
{
    return program::this_machine().host;
}

program::json pairs::lead()
{
    const int other = job_.rank() + half_;
    const std::string host = job_.told_by(other, "dat-perf.host");
    const auto port = static_cast<unsigned short>(std::stoi(job_.told_by(other, "dat-perf.port")));
    channel server = call_peer(host == this_host() ? "localhost" : host, port, seconds(o_.limit));
    leader l(server, o_);
    l.run();
    l.finish();
    return {
        {"ranks", {job_.rank(), other}}, {"hosts", {this_host(), host}}, {"results", l.results()}};
}

void pairs::take_part()
{
    if (follows()) {
        auto [leader, hello] = await_leader(*listener_, o_.max_size, o_.wait);
        follow(leader, hello, o_.adapter, o_.limit);
    } else if (leads()) {
        job_.tell("dat-perf.results", lead().dump());
    }
}

bool pairs::measure()
{
    if (job_.rank() == 0 && !o_.json.empty())
        program::check_output(o_.json);
    if (follows()) {
        listener_.emplace(static_cast<unsigned short>(0));
        job_.tell("dat-perf.host", this_host());
        job_.tell("dat-perf.port", std::to_string(listener_->port()));
    }
    job_.meet();
    try {
        take_part();
    } catch (const std::exception &e) {
        std::fprintf(stderr, "dat-perf: rank %d: %s\n", job_.rank(), e.what());
        if (leads())
            job_.tell("dat-perf.results", "");
    }
    job_.meet();
    return job_.rank() != 0 || report();
}

bool pairs::report()
{
    bool good = true;
    program::json all = program::json::array();
    for (int rank = 0; rank < half_; ++rank) {
        const std::string told = job_.told_by(rank, "dat-perf.results");
        good &= !told.empty();
        if (!told.empty())
            all.push_back(program::json::parse(told));
    }
    if (!o_.json.empty())
        program::write_json(
            o_.json, {{"adapter", o_.adapter}, {"origin", program::origin_json()}, {"pairs", all}});
    print(all);
    if (!good)
        std::fprintf(stderr, "dat-perf: %zu of %d pairs were measured\n", all.size(), half_);
    return good;
}

/// Whether two results are of one test. If the adapters of a pair have other limits, some tests are
/// missing.
bool is_same_test(const program::json &one, const program::json &other)
{
    return one["test"] == other["test"] && one["how"] == other["how"] &&
           one.value("size", 0U) == other.value("size", 0U);
}

/// Prints the figures that the pairs measured at one time.
void pairs::print(const program::json &all) const
{
    if (all.empty())
        return;
    std::FILE *const to = o_.out();
    std::fprintf(to, "%s, %zu pairs of ranks at once\n%-33s %8s %12s %12s %12s %12s\n",
                 o_.adapter.c_str(), all.size(), "", "", "lowest", "median", "highest", "together");
    for (const program::json &first : all[0]["results"]) {
        const auto unit = first["unit"].get<std::string>();
        const bool is_time = unit == "us";
        const std::string shown = is_time ? "s" : unit == "1/s" ? "/s" : unit;
        std::vector<double> values;
        for (const program::json &pair : all)
            for (const program::json &each : pair["results"])
                if (is_same_test(each, first))
                    values.push_back(each["value"].get<double>() * (is_time ? 1e-6 : 1));
        double sum = 0;
        for (const double each : values)
            sum += each;
        const auto text = [&](double value) { return value_text(value, shown); };
        std::fprintf(
            to, "%-11s %-21s %8s %12s %12s %12s %12s\n", first["test"].get<std::string>().c_str(),
            first["how"].get<std::string>().c_str(),
            first.contains("size") ? size_text(first["size"].get<std::uint32_t>()).c_str() : "",
            text(quantile(values, 0)).c_str(), text(median(values)).c_str(),
            text(quantile(values, 1)).c_str(), is_time ? "" : text(sum).c_str());
    }
}

} // namespace

bool measure_pairs(const options &o)
{
    return pairs(o).measure();
}

} // namespace bench::perf
