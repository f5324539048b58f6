// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "run.hpp"

#include "program/failure.hpp"
#include "program/json.hpp"
#include "program/system.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

namespace stress {

const std::array<const char *, counters> counter_names = {
    "endpoints", "connects",  "like others", "made by listeners", "reserved", "handed on",
    "windows",   "SRQs",      "by SRQ",      "established",       "refused",  "ended",
    "resets",    "posted",    "succeeded",   "flushed",           "failed",   "suppressed",
    "dropped",   "software",  "waits",       "expired",           "triggers", "associations",
    "resizes",   "sent home", "bytes",
};

run::run(const settings &wanted)
    : asked(wanted), patience(instant{wanted.patience} * 1'000'000'000), began_(now())
{
    for (unsigned i = 0; i <= asked.threads; ++i)
        workers.push_back(std::make_unique<worker>(i, std::uint64_t{asked.seed} << 16 | i));
}

std::uint64_t run::total(counter what) const
{
    std::uint64_t sum = 0;
    for (const auto &each : workers)
        sum += each->counts[static_cast<std::size_t>(what)].load(std::memory_order_relaxed);
    return sum;
}

std::uint64_t run::calls() const
{
    std::uint64_t sum = 0;
    for (const auto &each : workers)
        sum += each->calls.load(std::memory_order_relaxed);
    return sum;
}

void run::must(DAT_RETURN code, const char *call)
{
    if (asked.skip_unsupported && DAT_GET_TYPE(code) == DAT_MODEL_NOT_SUPPORTED)
        skipped(call);
    if (code != DAT_SUCCESS)
        broken("this call succeeds", std::string(call) + ": " + program::code_text(code));
}

void run::skipped(const char *call)
{
    std::printf("hammer: %s says that %s is not supported: skipped\n", asked.ia.c_str(), call);
    std::fflush(nullptr);
    std::_Exit(77);
}

void run::broken(std::string_view rule, const std::string &what)
{
    static std::mutex printing;
    static bool first = true; // guarded by `printing`
    std::unique_lock hold(printing);
    if (!std::exchange(first, false)) {
        std::fprintf(stderr, "  also: %.*s\n    %s\n", static_cast<int>(rule.size()), rule.data(),
                     what.c_str());
        hold.unlock();
        for (;;)
            std::this_thread::sleep_for(std::chrono::hours(1)); // the first one ends the process
    }
    clear_line();
    std::fflush(stdout);
    std::fprintf(stderr,
                 "hammer: BROKEN: %.*s\n  %s\n  adapter %s, seed %u, %u threads, after %.1f s\n",
                 static_cast<int>(rule.size()), rule.data(), what.c_str(), asked.ia.c_str(),
                 asked.seed, asked.threads, seconds());
    where_they_are();
    hold.unlock();
    // The cause may come later than its effect, in the EVD of another thread.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    hold.lock();
    try {
        write_result(rule);
    } catch (const program::failure &e) {
        std::fprintf(stderr, "hammer: %s\n", e.what());
    }
    std::fflush(nullptr);
    std::_Exit(1); // other threads are in the provider
}

void run::where_they_are() const
{
    for (const auto &each : workers) {
        const char *call = each->call.load(std::memory_order_relaxed);
        const double in_it = static_cast<double>(now() - each->since.load()) / 1e9;
        const auto calls = static_cast<unsigned long long>(each->calls.load());
        if (call == nullptr)
            std::fprintf(stderr, "  thread %u: in no call, after %llu\n", each->number, calls);
        else
            std::fprintf(stderr, "  thread %u: in %s for %.3f s, after %llu calls\n", each->number,
                         call, in_it, calls);
    }
}

void run::progress_line() const
{
    static const bool on_terminal = program::is_terminal(stdout);
    std::printf("%s%.0f s: %llu connections, %llu operations posted, %llu back%s",
                on_terminal ? "\r\x1b[K" : "", seconds(),
                static_cast<unsigned long long>(total(counter::established) / 2),
                static_cast<unsigned long long>(total(counter::posted)),
                static_cast<unsigned long long>(total(counter::succeeded) +
                                                total(counter::flushed) + total(counter::failed)),
                on_terminal ? "" : "\n");
    std::fflush(stdout);
}

void run::clear_line() const
{
    if (program::is_terminal(stdout))
        std::printf("\r\x1b[K");
}

void run::write_result(std::string_view broken_rule) const
{
    if (asked.json.empty())
        return;
    program::json counted;
    for (std::size_t i = 0; i < counters; ++i)
        counted[counter_names[i]] = total(static_cast<counter>(i));
    program::json result{{"adapter", asked.ia},  {"seed", asked.seed}, {"threads", asked.threads},
                         {"seconds", seconds()}, {"calls", calls()},   {"counted", counted},
                         {"broken", nullptr}};
    if (!broken_rule.empty())
        result["broken"] = broken_rule;
    program::write_json(asked.json, result);
}

} // namespace stress
