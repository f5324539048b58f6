// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// posted-events: how long threads take that post software events to one EVD at once, and how often
// they sleep. Adapters take turns in one run; their times are told beside those of the first.
#include "dat_link.hpp"
#include "program/command_line.hpp"
#include "program/json.hpp"
#include "statistics.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <deque>
#include <sys/resource.h>
#include <thread>

namespace {

using namespace bench;

struct options {
    std::vector<std::string> adapters = {"soft-lo"};
    std::string json;
    std::uint32_t rounds = 10, threads = 8, events = 8000, repeats = 20;
};

struct measurement {
    double seconds = 0;
    long sleeps = 0;
};

long sleeps_of_this_thread()
{
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

/// An adapter, and an EVD with room for all that the threads post.
class target {
public:
    target(const options &o, const std::string &name) : options_(o), adapter_(name, true)
    {
        program::must("dat_evd_create",
                      dat_evd_create(adapter_.ia(), static_cast<DAT_COUNT>(o.threads * o.events),
                                     DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, &evd_));
    }
    ~target() { dat_evd_free(evd_); }
    target(const target &) = delete;

    /// All threads post all their events, and nobody takes them meanwhile.
    measurement measure()
    {
        measurement sum;
        for (std::uint32_t i = 0; i < options_.repeats; ++i) {
            const measurement once = post_all();
            sum.seconds += once.seconds;
            sum.sleeps += once.sleeps;
            drain();
        }
        return sum;
    }

private:
    using clock = std::chrono::steady_clock;

    measurement post_all()
    {
        std::barrier start(static_cast<std::ptrdiff_t>(options_.threads));
        std::vector<measurement> each(options_.threads);
        std::vector<clock::time_point> begun(options_.threads), ended(options_.threads);
        std::vector<std::thread> threads;
        for (std::uint32_t me = 0; me < options_.threads; ++me)
            threads.emplace_back([&, me] {
                start.arrive_and_wait();
                begun[me] = clock::now();
                const long before = sleeps_of_this_thread();
                for (std::uint32_t i = 0; i < options_.events; ++i)
                    post();
                each[me].sleeps = sleeps_of_this_thread() - before;
                ended[me] = clock::now();
            });
        measurement all;
        for (std::thread &thread : threads)
            thread.join();
        for (const measurement &one : each)
            all.sleeps += one.sleeps;
        const auto took = *std::max_element(ended.begin(), ended.end()) -
                          *std::min_element(begun.begin(), begun.end());
        all.seconds = std::chrono::duration<double>(took).count();
        return all;
    }

    void post()
    {
        DAT_EVENT event{};
        event.event_number = DAT_SOFTWARE_EVENT;
        program::must("dat_evd_post_se", dat_evd_post_se(evd_, &event));
    }

    void drain()
    {
        std::uint32_t taken = 0;
        for (DAT_EVENT event; dat_evd_dequeue(evd_, &event) == DAT_SUCCESS;)
            ++taken;
        if (taken != options_.threads * options_.events)
            throw program::failure("events are lost");
    }

    const options &options_;
    dat_adapter adapter_;
    DAT_EVD_HANDLE evd_ = DAT_HANDLE_NULL;
};

int run(const options &o)
{
    std::deque<target> targets;
    for (const std::string &name : o.adapters)
        targets.emplace_back(o, name);
    std::vector<std::vector<double>> ratios(targets.size()), nanoseconds(targets.size());
    std::vector<long> sleeps(targets.size());
    for (std::uint32_t round = 0; round < o.rounds; ++round) {
        std::vector<double> took(targets.size());
        for (std::size_t i = 0; i < targets.size(); ++i) {
            const std::size_t at = round % 2 == 0 ? i : targets.size() - 1 - i;
            const measurement m = targets[at].measure();
            took[at] = m.seconds;
            sleeps[at] += m.sleeps;
        }
        for (std::size_t i = 0; i < targets.size(); ++i) {
            ratios[i].push_back(took[i] / took[0]);
            nanoseconds[i].push_back(took[i] * 1e9 / o.repeats / o.events / o.threads);
        }
    }
    program::json results = program::json::array();
    std::printf("%u threads to one EVD\n%-20s %12s %12s %14s\n", o.threads, "adapter", "ns/event",
                "beside first", "sleeps/round");
    for (std::size_t i = 0; i < targets.size(); ++i) {
        const double per_round = static_cast<double>(sleeps[i]) / o.rounds;
        std::printf("%-20s %12.1f %12.2f %14.1f\n", o.adapters[i].c_str(), median(nanoseconds[i]),
                    median(ratios[i]), per_round);
        results.push_back({{"adapter", o.adapters[i]},
                           {"ns", median(nanoseconds[i])},
                           {"ratio", median(ratios[i])},
                           {"sleeps", per_round}});
    }
    if (!o.json.empty())
        program::write_json(
            o.json,
            {{"origin", program::origin_json()}, {"threads", o.threads}, {"results", results}});
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    options o;
    program::command_line line("posted-events",
                               "Time of dat_evd_post_se by threads that post to one EVD at once");
    line.positionals("adapters", o.adapters, "adapter names in dat.conf, with a threadsafe line");
    line.number("--rounds", o.rounds, 1u, 10'000u, "rounds per adapter, interleaved");
    line.number("--threads", o.threads, 1u, 256u, "threads that post");
    line.number("--events", o.events, 1u, 1'000'000u, "events of each thread until it is joined");
    line.number("--repeats", o.repeats, 1u, 10'000u, "how often they do that in a round");
    line.text("--json", "FILE", o.json,
              "write the results as JSON to this file (- is standard output)");
    if (const auto status = line.parse(argc, argv))
        return *status;
    try {
        return run(o);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "posted-events: %s\n", e.what());
        return 1;
    }
}
