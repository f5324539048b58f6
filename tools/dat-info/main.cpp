// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// dat-info: lists the available adapters, opens each, and shows its attributes or why it does not
// open. See docs/man/dat-info.1.md.
#include "child.hpp"
#include "diagnosis.hpp"
#include "program/command_line.hpp"
#include "program/libdat2.hpp"
#include "program/output_file.hpp"
#include "program/system.hpp"
#include "query.hpp"
#include "report.hpp"
#include "shared.hpp"
#include "suggest.hpp"
#include "watch.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

// Read by the address sanitizer, in the children too: leaks of providers are not ours.
extern "C" const char *__asan_default_options()
{
    return "detect_leaks=0";
}

namespace {

using namespace dat_info;

enum exit_status { opens = 0, does_not_open = 1, not_there = 3 };

struct options {
    std::vector<std::string> adapters; ///< only these; all, if there are none
    double seconds = 10;
    std::string report;                  ///< the file for a report
    std::vector<std::string> scorecards; ///< which go into it
    bool json = false, verbose = false, suggest = false, shared = false, watch = false;
    double interval = 1;
    std::uint32_t looks = 0;
};

/// Libraries read these variables when they are loaded, so the program re-executes itself.
void ask_for_messages(char **argv)
{
    const bool there =
        std::getenv("DAT_DBG_TYPE") != nullptr && std::getenv("DAPL_DBG_TYPE") != nullptr;
    if (there)
        return;
    for (const auto &[name, all] :
         {std::pair("DAT_DBG_TYPE", "0xff"), std::pair("DAPL_DBG_TYPE", "0xffff")})
        if (std::getenv(name) == nullptr)
            program::set_variable(name, all);
    std::fprintf(stderr, "dat-info: --verbose: %s\n", program::start_again(argv).c_str());
}

adapter adapter_of(const record &told, const registry_file &file)
{
    adapter found;
    found.name = told[1];
    found.api_major = static_cast<unsigned>(std::strtoul(told[2].c_str(), nullptr, 10));
    found.api_minor = static_cast<unsigned>(std::strtoul(told[3].c_str(), nullptr, 10));
    found.thread_safe = told[4] == "1";
    find_lines(found, file);
    if (found.api_major != 2) {
        found.is = state::not_ours;
        found.reason = "it is for programs that use DAT " + told[2] + "." + told[3];
    }
    return found;
}

/// Lists the adapters that the registry knows.
void list(findings &found, double seconds)
{
    run_children({{&list_job, "",
                   [&](child_end end) {
                       found.registry_output = std::move(end.output);
                       for (const record &told : end.told) {
                           if (told[0] == "adapter")
                               found.adapters.push_back(adapter_of(told, found.file));
                           else if (told[0] == "refused")
                               found.trouble.push_back(told[1] + " returns " + told[2]);
                       }
                       if (end.late || end.how.signal != 0)
                           found.trouble.push_back(
                               "libdat2 crashes or hangs when its adapters are listed");
                   }}},
                 seconds);
}

void open_all(findings &found, const options &o)
{
    const bool with_endpoint = o.json || o.verbose || !o.adapters.empty() || !o.report.empty();
    std::vector<task> tasks;
    for (adapter &each : found.adapters)
        if (each.is != state::not_ours)
            tasks.push_back({&open_job, open_argument(each, with_endpoint), [&](child_end end) {
                                 judge(each, std::move(end), found.registry_output, o.seconds);
                             }});
    run_children(std::move(tasks), o.seconds);
    remark_on_safety(found.adapters);
    remark_on_memory(found.adapters);
}

auto is_called(const std::string &name)
{
    return [&name](const adapter &each) { return each.name == name; };
}

/// Keeps the adapters that were asked for, or explains why there are none.
void choose(findings &found, const std::vector<std::string> &names)
{
    if (found.adapters.empty() && found.trouble.empty())
        found.trouble = explain_empty(found.file, found.is_ours);
    if (names.empty() || found.adapters.empty())
        return;
    for (const std::string &name : names)
        if (std::ranges::none_of(found.adapters, is_called(name)))
            for (std::string &line : explain_unknown(name, found.file, found.adapters))
                found.trouble.push_back(std::move(line));
    std::erase_if(found.adapters, [&](const adapter &each) {
        return std::ranges::none_of(names, [&](const auto &name) { return each.name == name; });
    });
}

int status_of(const findings &found, const std::vector<std::string> &names)
{
    const auto does_open = [](const adapter &each) { return each.is == state::opens; };
    const auto is_there = [&](const std::string &name) {
        return std::ranges::any_of(found.adapters, is_called(name));
    };
    const auto named_opens = [&](const std::string &name) {
        return std::ranges::any_of(found.adapters, [&](const adapter &each) {
            return each.name == name && does_open(each);
        });
    };
    if (found.adapters.empty() || !std::ranges::all_of(names, is_there))
        return not_there;
    const bool all_well = names.empty() ? std::ranges::any_of(found.adapters, does_open)
                                        : std::ranges::all_of(names, named_opens);
    return all_well ? opens : does_not_open;
}

int run_suggest(const options &o)
{
    const registry_file file = find_registry_file(libdat2_is_ours());
    if (file.path.empty() || !file.error.empty())
        throw std::runtime_error(file.path.empty()
                                     ? "no dat.conf was found to go by; see dat.conf(5)"
                                     : file.path + " cannot be read: " + file.error);
    const suggestions found = suggest(file);
    if (o.json)
        print_suggestions_json(found, file);
    else
        print_suggestions(found, file);
    return found.has_examples ? opens : not_there;
}

int run_shared(const options &o)
{
    const shared_memory found = look_at_shared_memory(o.seconds);
    if (o.json)
        print_shared_json(found);
    else
        print_shared(found);
    return opens;
}

int run_watch(const options &o)
{
    if (watch({o.adapters, o.interval, o.looks, o.json}))
        return opens;
    std::fprintf(stderr,
                 "dat-info: no program of this user offers counters%s; start one with "
                 "DAPL_COUNTERS=2 in its environment\n",
                 o.adapters.empty() ? "" : " of such an adapter");
    return not_there;
}

void report(const findings &found, const options &o)
{
    write_report(o.report, found, o.scorecards);
    if (o.report != "-")
        std::fprintf(stderr,
                     "dat-info: %s has the name of this host, and names and addresses of its "
                     "adapters; look through it before you send it\n",
                     o.report.c_str());
}

int run(const options &o)
{
    findings found;
    if (!o.report.empty())
        program::check_output(o.report);
    found.libdat2 = program::libdat2_path();
    found.is_ours = libdat2_is_ours();
    found.file = find_registry_file(found.is_ours);
    list(found, o.seconds);
    choose(found, o.adapters);
    open_all(found, o);
    if (!o.report.empty())
        report(found, o);
    if (o.report == "-")
        return status_of(found, o.adapters);
    if (o.json)
        print_json(found);
    else
        print_text(found, o.verbose            ? detail::all
                          : o.adapters.empty() ? detail::list
                                               : detail::attributes);
    return status_of(found, o.adapters);
}

void describe(program::command_line &line, options &o)
{
    line.positionals("adapters", o.adapters, "show only these adapters, with their attributes");
    line.alternative("--adapter", "NAME", o.adapters,
                     "same as the positional argument, for one adapter");
    line.flag("--verbose", o.verbose,
              "show the attributes of all adapters, every line of dat.conf, and the debug messages "
              "of libdat2 and the providers");
    line.flag("--suggest", o.suggest,
              "print lines for the devices of this machine that dat.conf has no line for");
    line.flag("--shared", o.shared,
              "show the regions of shared memory that processes of this user have registered");
    line.exclude("--shared", "--suggest");
    line.exclude("--shared", "adapters");
    line.exclude("--shared", "--adapter");
    line.flag("--watch", o.watch,
              "show the counters of running programs, which offer them if DAPL_COUNTERS is 2 in "
              "their environment, until the programs end");
    line.exclude("--watch", "--suggest");
    line.exclude("--watch", "--shared");
    line.number("--interval", o.interval, 0.1, 3600.0, "seconds between two looks of --watch");
    line.number("--looks", o.looks, 0U, 1000000000U, "end --watch after as many looks");
    line.text(
        "--report", "FILE", o.report,
        "write all that is found, with this machine's RDMA devices, limits and versions, to a "
        "file, for somebody who looks for a fault");
    line.alternative("--scorecard", "FILE", o.scorecards,
                     "put what dapl-conformance --json has written into the report, too");
    for (const char *other : {"--suggest", "--shared", "--watch"}) {
        line.exclude("--report", other);
        line.exclude("--scorecard", other);
    }
    line.flag("--json", o.json, "print JSON");
    line.number("--timeout", o.seconds, 0.1, 3600.0,
                "seconds before opening an adapter is considered hung");
    line.footer("Exit status: 0 all named adapters open, or at least one if none is named;\n"
                "1 a named adapter does not open, or none at all; 2 invalid options;\n"
                "3 no such adapter, or none; with --watch: no program that offers counters.");
}

} // namespace

int main(int argc, char **argv)
{
    options o;
    program::command_line line("dat-info",
                               "List DAT adapters, open each, and explain why one does not open");
    describe(line, o);
    if (const auto status = line.parse(argc, argv))
        return *status;
    if (!o.scorecards.empty() && o.report.empty())
        return line.misused("--scorecard goes into a report: name its file by --report");
    if (o.verbose)
        ask_for_messages(argv);
    program::become_child();
    try {
        return o.shared    ? run_shared(o)
               : o.watch   ? run_watch(o)
               : o.suggest ? run_suggest(o)
                           : run(o);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "dat-info: %s\n", e.what());
        return does_not_open;
    }
}
