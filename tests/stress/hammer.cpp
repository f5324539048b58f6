// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// hammer: threads that create, connect, use, disconnect and free endpoints of one adapter, and
// resize, move and wait on its EVDs, at random, and record everything that they post in ledgers.
// From time to time the adapter is closed with operations outstanding. Reports the rule of DAT that
// is broken, if one is.
#include "world.hpp"

#include "program/command_line.hpp"
#include "program/failure.hpp"
#include "program/libdat2.hpp"
#include "program/system.hpp"

#include <algorithm>
#include <cstdio>
#include <thread>

// Read by the address sanitizer. libfabric's tcp provider leaks a few bytes of some requests whose
// sender disconnects immediately.
extern "C" const char *__lsan_default_suppressions()
{
    return "leak:libfabric.so";
}

namespace stress {
namespace {

struct belongings {
    std::size_t descriptors = program::open_descriptors();
    std::size_t threads = program::threads();

    bool within(const belongings &other) const
    {
        return descriptors <= other.descriptors && threads <= other.threads;
    }
};

/// Resources that its libraries allocate once are not leaks.
void open_and_close(run &r)
{
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    r.insist("dat_ia_openv", [&] {
        return dat_ia_openv(const_cast<char *>(r.asked.ia.c_str()), 8, &async, &ia,
                            DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_TRUE);
    });
    program::must("dat_ia_close", dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}

/// A joined thread stays listed until the kernel has released it.
void expect_nothing_kept(run &r, const belongings &before)
{
    belongings after;
    for (const instant until = now() + r.patience; !after.within(before) && now() < until;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        after = {};
    }
    if (!after.within(before))
        r.broken("a closed adapter leaves nothing behind",
                 "descriptors " + std::to_string(before.descriptors) + " -> " +
                     std::to_string(after.descriptors) + ", threads " +
                     std::to_string(before.threads) + " -> " + std::to_string(after.threads));
}

/// Where the system does not tell whether a thread sleeps, one does that has been in its call for
/// long: a thread that runs is about to sleep.
bool sleeps(const worker &who)
{
    constexpr instant long_enough = 250'000'000;
    if (!who.for_good.load())
        return false;
    return program::is_asleep(who.thread.load()).value_or(now() - who.since.load() > long_enough);
}

bool has_ended(const worker &who)
{
    return !who.at_work.load();
}

/// Whether every thread has ended, or sleeps in a wait without a timeout.
bool all_rest(const crew &workers)
{
    const auto all = [&] {
        return std::all_of(workers.begin(), workers.end(),
                           [](const auto &each) { return has_ended(*each) || sleeps(*each); });
    };
    if (!all())
        return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return all(); // no worker has just begun
}

/// Monitors the threads while they work.
class watch {
public:
    watch(run &of, world &over) : run_(of), world_(over) {}

    template <class Over>
    void until(Over &&over)
    {
        while (!over()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            if (now() - looked_ > 1'000'000'000)
                look();
        }
    }

private:
    void look()
    {
        looked_ = now();
        if (looks_++ % 10 == 0 || program::is_terminal(stdout))
            run_.progress_line();
        world_.look_for_stalls();
        if (const std::uint64_t calls = run_.calls(); calls != seen_) {
            seen_ = calls;
            moved_ = looked_;
        }
        if (looked_ - moved_ > run_.patience)
            run_.broken("something moves", "no thread has called anything for a while");
    }

    run &run_;
    world &world_;
    unsigned looks_ = 0;
    std::uint64_t seen_ = 0;
    instant looked_ = now();
    instant moved_ = now();
};

/// Opens the adapter, lets the threads use it, and closes it: after everything has completed and
/// was freed, or abruptly with operations outstanding.
void live(run &r, double until, bool abruptly)
{
    world w(r);
    worker &own = *r.workers.back();
    std::vector<std::thread> threads;
    const auto begin = [&](worker &who, void (world::*work)(worker &)) {
        who.at_work.store(true);
        threads.emplace_back([&w, &who, work] {
            who.thread.store(program::thread_id());
            (w.*work)(who);
            who.at_work.store(false);
        });
    };
    for (unsigned i = 0; i < r.asked.threads; ++i)
        begin(*r.workers[i], &world::work);
    const auto all_ended = [&] {
        return std::all_of(r.workers.begin(), r.workers.end(),
                           [](const auto &each) { return has_ended(*each); });
    };
    watch at(r, w);
    at.until([&] { return r.seconds() >= until; });
    if (abruptly) {
        w.abandon();
        at.until([&] { return all_rest(r.workers); });
        begin(own, &world::close_abruptly);
    } else {
        w.stop();
    }
    at.until(all_ended);
    for (std::thread &each : threads)
        each.join();
    if (abruptly)
        w.expect_memory_left_alone();
    else
        w.close_down(own);
}

void hammer(run &r)
{
    open_and_close(r);
    const belongings before;
    for (unsigned i = 1; i <= r.asked.worlds; ++i) {
        live(r, static_cast<double>(r.asked.seconds) * i / r.asked.worlds, i < r.asked.worlds);
        expect_nothing_kept(r, before);
    }
}

void describe(program::command_line &line, settings &s)
{
    line.text("--ia", "NAME", s.ia, "name in dat.conf of the adapter");
    line.number("--threads", s.threads, 1u, 256u, "number of threads");
    line.number("--links", s.links, 1u, 1024u, "pairs of endpoints");
    line.number("--seconds", s.seconds, 1u, 1'000'000u, "duration");
    line.number("--worlds", s.worlds, 1u, 100'000u,
                "how often the adapter is opened in that time; all but the last close is abrupt, "
                "with operations outstanding");
    line.number("--seed", s.seed, 0u, 0xffffffffu, "seed of the random numbers; 0: from the clock");
    line.number("--patience", s.patience, 1u, 100'000u,
                "seconds before an expected event is reported as missing");
    line.text(
        "--keep-loaded", "LIBRARY", s.keep_loaded,
        "preload this library and keep it loaded, so that sanitizers can resolve its symbols");
    line.flag("--faults", s.faults,
              "calls may fail for lack of resources, and are repeated; requests may fail, and "
              "connections end, for no reason");
    line.flag(
        "--no-srqs", s.no_srqs,
        "no endpoint has an SRQ: for a transport that breaks the connection where an SRQ runs "
        "dry, as iWARP does");
    line.flag("--no-windows", s.no_windows,
              "no RMR is bound: for a transport that fails binds which wait behind a message that "
              "is sent again, as rxe does where SRQs run dry");
    line.flag("--skip-unsupported", s.skip_unsupported,
              "exit with 77 (skipped) if a call that all adapters have is not supported: for ports "
              "that are being written");
    line.text("--api", "VERSION", s.api, "2.0, or 1.2: through libdat, the library of DAT 1.2");
    line.text("--json", "FILE", s.json,
              "write the counters as JSON to this file (- is standard output)");
    line.footer("The seed decides what each thread does, the machine when.\n"
                "Exit status: 0 all well; 1 a rule is broken; 2 wrong usage; 77 skipped.");
}

int start(const settings &asked)
{
    std::string why;
    if (!asked.keep_loaded.empty() && program::load_library(asked.keep_loaded, why) == nullptr)
        throw program::failure(why);
    run r(asked);
    hammer(r);
    r.clear_line();
    std::printf("all well: %s, seed %u, %u threads, %.1f s:", asked.ia.c_str(), asked.seed,
                asked.threads, r.seconds());
    for (std::size_t i = 0; i < counters; ++i)
        std::printf(" %s %llu%s", counter_names[i],
                    static_cast<unsigned long long>(r.total(static_cast<counter>(i))),
                    i + 1 < counters ? "," : "\n");
    r.write_result("");
    return 0;
}

} // namespace
} // namespace stress

int main(int argc, char **argv)
{
    stress::settings asked;
    program::command_line line("hammer", "Threads that use one adapter in every way at once");
    stress::describe(line, asked);
    if (const auto status = line.parse(argc, argv))
        return *status;
    if (asked.ia.empty()) {
        std::fprintf(stderr, "hammer: --ia is missing\nrun hammer --help for usage\n");
        return program::wrong_usage;
    }
    if (asked.seed == 0)
        asked.seed = static_cast<std::uint32_t>(stress::now() / 1000) | 1;
    try {
        program::use_api(asked.api, argv);
        return stress::start(asked);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "hammer: %s\n", e.what());
        return 1;
    }
}
