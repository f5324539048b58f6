// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// dapl-conformance: black-box cases over the DAT C API, for any adapter, and their scorecard.
// See docs/man/dapl-conformance.1.md.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS // crashes are handled by the parent, or by a debugger
#include "harness/support.hpp"

#include "calls/answers.hpp"
#include "harness/peer.hpp"
#include "harness/scratch.hpp"
#include "harness/silent_reporter.hpp"
#include "program/command_line.hpp"
#include "program/failure.hpp"
#include "program/libdat2.hpp"
#include "program/origin.hpp"
#include "program/output_file.hpp"
#include "program/system.hpp"
#include "reports/scorecard.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <unistd.h>

// Read by the address sanitizer. Dependencies of providers (libfabric's plug-ins) leak when they
// are unloaded, and their leaks can then not be distinguished from ours. Leaks of ours are detected
// where libraries stay loaded: in the rounds of client programs, and in the unit tests.
extern "C" const char *__asan_default_options()
{
    return "detect_leaks=0";
}

namespace conformance {
namespace {

// -------------------------------------------------------------------------------------- in-process

constexpr unsigned case_seconds = 120;
const char *volatile running_case = "(none)";

/// Writes the name of the current case; async-signal-safe.
void say_case(const char *what)
{
    const char *name = running_case;
    (void)!::write(STDERR_FILENO, what, std::strlen(what));
    (void)!::write(STDERR_FILENO, name, std::strlen(name));
    (void)!::write(STDERR_FILENO, "\n", 1);
}

void on_alarm(int)
{
    say_case("\nwatchdog: this case hangs: ");
    std::abort();
}

void on_crash(int signal)
{
    say_case("\ncrashed in this case: ");
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

void watch_crashes()
{
    if (instrumented()) // sanitizers have more to say
        return;
    program::catch_crashes(on_crash);
}

/// In-process: aborts a case that hangs, and prints its name.
struct watchdog : silent_reporter {
    explicit watchdog(const doctest::ContextOptions &) {}

    void test_run_start() override
    {
        if (!the_settings().in_process)
            return;
        watch_crashes();
    }
    void test_case_start(const doctest::TestCaseData &data) override
    {
        running_case = data.m_name;
        if (the_settings().in_process)
            program::set_alarm(case_seconds, on_alarm);
    }
    void test_case_end(const doctest::CurrentTestCaseStats &) override { program::set_alarm(0); }
};
DOCTEST_REGISTER_LISTENER("watchdog", 1, watchdog);

// ----------------------------------------------------------------------------------------- options

enum exit_status { all_well = 0, something_failed = 1, wrong_usage = 2, no_device = 3, skip = 77 };

struct options {
    std::vector<std::string> adapters; ///< one, however it was named
    std::vector<std::string> cases;
    std::vector<std::string> keep_loaded;
    std::string waivers_file;
    std::string json;
    std::string html;
    std::string junit;
    std::string calls;
    double seconds = case_seconds;
    double patience = std::chrono::duration<double>(conformance::patience).count();
    std::uint32_t jobs = 0;
    bool list = false;
    bool skip_missing = false;
    bool open_first = false;
    bool no_repeat = false;
    std::string api = "2.0";
    std::string peer_role;
    std::string peer_fd;
};

constexpr const char *footer =
    "Exit status: 0 no failures; 1 failures, errors or wrong waivers;\n"
    "2 invalid options; 3 the adapter cannot be opened (77 with --skip-missing).\n"
    "With --in-process, other options are passed to doctest.";

void describe_how(program::command_line &line, options &o)
{
    settings &ours = the_settings();
    line.number("--jobs", o.jobs, 1u, 1024u,
                "run N cases in parallel (default: two per processor)");
    line.number("--timeout", o.seconds, 0.1, 1e6,
                "seconds before a case, or opening the adapter, is considered hung");
    line.number("--patience", o.patience, 0.1, 1e6,
                "seconds that a case waits for an expected event");
    line.flag("--long", ours.long_rounds,
              "run stress cases at full length: bursts of 5,000 connects, thousands of rounds");
    line.file("--peer-network", ours.peer_network,
              "network namespace of the peer processes, such as /run/netns/NAME, as if they ran on "
              "another host");
    line.text("--peer-user", "USER", ours.peer_user,
              "user that the peer processes run as, by name or number; needs root");
    line.text("--fail-device", "COMMAND", ours.fail_device,
              "run LIFE-28 alone: the shell's COMMAND makes the device fail or go");
    line.alternative("--keep-loaded", "LIBRARY", o.keep_loaded,
                     "preload this library and keep it loaded (repeatable), so that a provider "
                     "that depends on it opens faster");
    line.flag("--open-first", o.open_first,
              "open and close the adapter once in the parent process, before the cases are "
              "forked: for libraries with slow initialization that are safe to fork");
    line.flag("--no-repeat", o.no_repeat,
              "judge by the first run: do not repeat failed cases alone, one at a time");
    line.flag("--in-process", ours.in_process,
              "run the cases with doctest in this process, for debuggers and sanitizers");
    line.internal("--peer", o.peer_role);
    line.internal("--fd", o.peer_fd);
}

void describe(program::command_line &line, options &o)
{
    settings &ours = the_settings();
    // CLI11 before 2.5 refuses a positional argument with the name of a long option.
    line.positionals("NAME", o.adapters,
                     "name in dat.conf of the adapter to test (default: the environment variable "
                     "DAPL_CONFORMANCE_IA)");
    line.alternative("--ia,--adapter", "NAME", o.adapters, "same as the positional argument");
    line.flag("--threadsafe", ours.thread_safe,
              "open the adapter through its thread-safe line of dat.conf");
    line.text("--api", "VERSION", o.api,
              "2.0, or 1.2: run the cases through libdat, the library of DAT 1.2");
    line.alternative(
        "--case", "PATTERN", o.cases,
        "run only the cases whose id or name matches this pattern (repeatable): 'EVD-*'");
    line.flag("--list", o.list, "list the cases and exit");
    line.choices(
        "--promise", ours.promises,
        {"acknowledged", "final_byte_last", "local_protection", "private_descriptors",
         "unmapped_memory", "unmapped_messages"},
        "check what the transport guarantees beyond DAT: acknowledged, a request completes "
        "only after the peer has accepted or refused it; final_byte_last, the last byte of "
        "an RDMA write becomes visible after all others; local_protection, the LMR "
        "contexts of local segments are checked; private_descriptors, programs that the "
        "consumer starts inherit no descriptor; unmapped_memory, unmapping registered "
        "memory fails operations but does not crash the process, though messages of up to 4 KiB "
        "may; unmapped_messages, together with unmapped_memory, these do not either");
    line.file("--waivers", o.waivers_file, "JSON file of known failures to accept");
    line.text("--json", "FILE", o.json, "write the scorecard as JSON to this file");
    line.text("--html", "FILE", o.html, "write the scorecard as a web page to this file");
    line.text("--junit", "FILE", o.junit,
              "write the scorecard for a build server to this file, in the format of JUnit");
    line.text("--calls", "FILE", o.calls,
              "judge nothing: write to this file, as JSON, what each call answers in each state of "
              "the object that it is made on");
    line.flag("--skip-missing", o.skip_missing,
              "exit with 77 (skipped) if the adapter cannot be opened");
    describe_how(line, o);
    line.footer(footer);
    line.allow_unknown();
}

/// What is wrong with the options, or nothing.
std::string contradiction(const program::command_line &line, const options &o)
{
    settings &ours = the_settings();
    if (const auto rest = line.rest(); !rest.empty() && !ours.in_process)
        return "unknown option " + rest.front();
    if (o.adapters.size() > 1)
        return "one adapter at a time: " + o.adapters[0] + " or " + o.adapters[1];
    if (!ours.peer_user.empty() && !program::is_administrator())
        return "--peer-user: only root can start processes of others";
    if (!ours.fail_device.empty() && !o.cases.empty())
        return "--fail-device runs LIFE-28 alone, without --case";
    return "";
}

[[noreturn]] void misused(const std::string &what)
{
    throw program::failure(what + "\nrun dapl-conformance --help for usage");
}

/// Settings that are no variables of the options.
void take(options &o)
{
    const char *const usual = std::getenv("DAPL_CONFORMANCE_IA");
    if (!o.adapters.empty())
        the_settings().ia = o.adapters.front();
    else if (usual != nullptr)
        the_settings().ia = usual;
    if (!the_settings().fail_device.empty()) { // no other case, and no second time
        o.cases = {"LIFE-28"};
        o.no_repeat = true;
    }
    patience = milliseconds(static_cast<milliseconds::rep>(o.patience * 1000));
}

void keep_loaded(const std::string &library)
{
    std::string why;
    if (program::load_library(library, why) == nullptr)
        misused("--keep-loaded: " + why);
}

// ------------------------------------------------------------------------------------------- ways

/// Ends a peer at once: a sanitizer's exit status would replace the role's.
[[noreturn]] void leave_peer(int result)
{
    if (instrumented())
        std::_Exit(result);
    std::exit(result);
}

int list(const std::vector<rule> &rules)
{
    for (const rule &each : rules)
        std::printf("%-10s %s%s\n", each.id.c_str(), each.text.c_str(),
                    each.needs.empty() ? "" : (" [" + each.needs + "]").c_str());
    return all_well;
}

/// A filter of doctest is a comma-separated list.
std::string doctest_filter(const std::vector<rule> &chosen)
{
    std::string filter;
    for (const rule &each : chosen)
        filter += (filter.empty() ? "" : ",") + each.id + ": *";
    return filter;
}

int run_in_process(const options &o, const std::vector<rule> &chosen, int argc, char **argv)
{
    doctest::Context context(argc, argv);
    if (!o.cases.empty())
        context.addFilter("test-case", doctest_filter(chosen).c_str());
    return context.run();
}

std::string today()
{
    return program::this_origin().date.substr(0, 10);
}

waivers waivers_of(const options &o)
{
    if (o.waivers_file.empty())
        return {};
    const waivers known = read_waivers(o.waivers_file, today(), program::this_machine().release);
    const std::vector<rule> rules = all_rules(); // includes cases left out by --api
    for (const auto &each : known)
        if (std::none_of(rules.begin(), rules.end(),
                         [&](const rule &one) { return one.id == each.first; }))
            throw std::runtime_error(o.waivers_file + ": unknown case " + each.first);
    return known;
}

unsigned jobs_of(const options &o)
{
    return o.jobs != 0 ? o.jobs : 2 * program::this_machine().processors;
}

void write_reports(const options &o, const scorecard &card)
{
    if (!o.json.empty())
        write_json(card, o.json);
    if (!o.html.empty())
        write_html(card, o.html);
    if (!o.junit.empty())
        write_junit(card, o.junit);
}

/// Runs cases, for the first time or again, and keeps their results in the scorecard.
class round {
public:
    round(const options &o, const waivers &known, const std::vector<rule> &chosen, terminal &screen,
          scorecard &card)
        : options_(o), known_(known), chosen_(chosen), screen_(screen), card_(card)
    {}
    /// Returns the number of the signal that interrupted it, or 0.
    int run(const std::vector<std::size_t> &cases, unsigned jobs)
    {
        std::vector<child_task> tasks;
        for (const std::size_t i : cases)
            tasks.push_back(task_of(i));
        const int signal = run_children(std::move(tasks), jobs, [&](unsigned running) {
            screen_.progress(done_, cases.size(), so_far_, running);
        });
        screen_.clear_progress();
        return signal;
    }

private:
    child_task task_of(std::size_t i)
    {
        child_task task;
        task.work = &case_job;
        task.argument = case_argument(chosen_[i], card_.on.keeps);
        task.done = [this, i](const child_end &end) {
            take(i, judge_end(chosen_[i], end, known_));
        };
        task.seconds = options_.seconds;
        task.alone = chosen_[i].alone;
        return task;
    }
    void take(std::size_t i, result made)
    {
        result &kept = card_.results[i];
        if (is_failure(kept.what) && made.what == outcome::passed)
            made.failed_at_first = kept.reason;
        kept = std::move(made);
        ++so_far_[kept.what];
        ++done_;
        if (is_bad(kept.what))
            screen_.show_failure(kept);
    }

    const options &options_;
    const waivers &known_;
    const std::vector<rule> &chosen_;
    terminal &screen_;
    scorecard &card_;
    tally so_far_;
    std::size_t done_ = 0;
};

/// More failures than these are no accident, and to wait for all of them again would take long.
constexpr std::size_t most_repeated = 10;

/// A busy machine may let a case fail whose time was too short, or whose peer was started too late.
/// Before it counts, each is repeated alone, and what still fails is the port's.
int judge_all(const options &o, const waivers &known, const std::vector<rule> &chosen,
              terminal &screen, scorecard &card)
{
    card.results.resize(chosen.size());
    std::vector<std::size_t> all(chosen.size()); // the last take longest
    std::iota(all.rbegin(), all.rend(), std::size_t{0});
    const int signal = round(o, known, chosen, screen, card).run(all, jobs_of(o));
    std::vector<std::size_t> failed;
    for (std::size_t i = 0; i < chosen.size(); ++i)
        if (is_failure(card.results[i].what))
            failed.push_back(i);
    if (signal != 0 || o.no_repeat || failed.empty() || failed.size() > most_repeated)
        return signal;
    screen.say("repeating, alone, what failed");
    return round(o, known, chosen, screen, card).run(failed, 1);
}

int give_up_on_device(const options &o, const terminal &screen, const scorecard &card)
{
    screen.show_absence(card);
    write_reports(o, card);
    if (card.on.is != device::state::absent)
        return something_failed;
    return o.skip_missing ? skip : no_device;
}

scorecard new_card()
{
    scorecard card;
    card.adapter = the_settings().ia;
    card.thread_safe = the_settings().thread_safe;
    card.libdat2 = program::libdat2_path();
    card.date = program::this_origin().date;
    return card;
}

/// One-time initialization of its libraries is then inherited by each child. Threads are not.
void open_first()
{
    const std::size_t before = what_is_held().threads.size(); // a sanitizer may have one
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    if (open_adapter(the_settings().ia, &async, &ia) == DAT_SUCCESS)
        (void)dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
    if (!becomes_true([&] { return what_is_held().threads.size() <= before; }, milliseconds(2000)))
        throw std::runtime_error("--open-first: a library keeps a thread, so processes cannot be "
                                 "copied; leave it out");
}

int run_judged(const options &o, const waivers &known, const std::vector<rule> &chosen)
{
    const scratch folder;
    terminal screen(stdout);
    scorecard card = new_card();
    const auto began = std::chrono::steady_clock::now();
    card.on = probe_device(o.seconds);
    if (card.on.signal != 0)
        return 128 + card.on.signal;
    if (card.on.is != device::state::open)
        return give_up_on_device(o, screen, card);
    if (o.open_first)
        open_first();
    if (!o.calls.empty())
        return record_answers(o.calls, jobs_of(o), o.seconds) ? all_well : something_failed;
    if (const int signal = judge_all(o, known, chosen, screen, card); signal != 0)
        return 128 + signal;
    card.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    screen.show(card);
    write_reports(o, card);
    return card.count().bad() != 0 ? something_failed : all_well;
}

// --------------------------------------------------------------------------------------- DAT 1.2

/// What these cases are about is not in DAT 1.2: extensions, private data of a rejection, the
/// operation of a completion, queues exactly as short as asked for, relations of adapters,
/// providers of DAT 2.0 and their lines of dat.conf, and the arguments of calls that it does not
/// have.
bool is_in_dat12(const rule &each)
{
    static constexpr const char *others[] = {"CR-07",  "DTO-39", "EVD-29", "REG-10",
                                             "REG-14", "REG-16", "REG-17", "REG-18",
                                             "REG-19", "REG-20", "RMR-23"};
    return each.group() != "EXT" && each.group() != "UD" &&
           std::none_of(std::begin(others), std::end(others),
                        [&each](const char *other) { return each.id == other; });
}

std::vector<rule> rules_of(const options &o)
{
    std::vector<rule> rules = all_rules();
    if (o.api == "1.2")
        std::erase_if(rules, [](const rule &each) { return !is_in_dat12(each); });
    return rules;
}

int run(const options &o, int argc, char **argv)
{
    const std::vector<rule> rules = rules_of(o);
    const std::vector<rule> chosen = select(rules, o.cases);
    if (chosen.empty())
        misused("no case matches; --list shows all cases");
    if (o.list)
        return list(chosen);
    if (the_settings().ia.empty())
        misused("no adapter is named; dat-info lists them");
    const waivers known = waivers_of(o);
    for (const std::string &path : {o.json, o.html, o.junit})
        if (!path.empty())
            program::check_output(path);
    for (const std::string &library : o.keep_loaded)
        keep_loaded(library);
    if (the_settings().in_process)
        return run_in_process(o, chosen, argc, argv);
    return run_judged(o, known, chosen);
}

} // namespace
} // namespace conformance

int main(int argc, char **argv)
{
    conformance::options o;
    program::command_line line("dapl-conformance",
                               "Judge a DAT adapter: a scorecard of black-box cases over the API");
    conformance::describe(line, o);
    if (const auto status = line.parse(argc, argv))
        return *status;
    if (const std::string wrong = conformance::contradiction(line, o); !wrong.empty())
        return line.misused(wrong);
    conformance::take(o);
    if (!o.peer_role.empty())
        conformance::leave_peer(conformance::run_role(o.peer_role, std::atoll(o.peer_fd.c_str())));
    program::become_child();
    try {
        program::use_api(o.api, argv);
        return conformance::run(o, argc, argv);
    } catch (const std::runtime_error &e) {
        std::fprintf(stderr, "dapl-conformance: %s\n", e.what());
        return conformance::wrong_usage;
    }
}
