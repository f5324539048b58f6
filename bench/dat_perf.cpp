// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// dat-perf: latency, bandwidth, message rate and connection rate of an interface adapter, through
// the DAT C API alone. The leading side chooses the measurements and tells the other over a socket;
// see docs/man/dat-perf.1.md.
#include "opening.hpp"
#include "peer_process.hpp"
#include "perf_job.hpp"
#include "perf_leader.hpp"
#include "plot.hpp"
#include "program/command_line.hpp"
#include "program/json.hpp"
#include "program/libdat2.hpp"
#include "program/origin.hpp"
#include "program/output_file.hpp"
#include "program/system.hpp"
#include "statistics.hpp"

#include <cstdio>
#include <sstream>
#include <thread>

namespace {

using namespace bench;
using namespace bench::perf;

// ---------------------------------------------------------------------------------------- the plot

plot::panel panel_of(const std::vector<measurement> &all, const std::string &test,
                     const char *title, const char *unit, double scale)
{
    plot::panel panel;
    panel.title = title;
    panel.unit = unit;
    for (const measurement &each : all) {
        if (each.test != test || each.value <= 0)
            continue;
        panel.named(each.how).points.push_back(
            {double(each.size), each.value * scale, each.low * scale, each.high * scale});
        if (each.high > 0)
            panel.band = "best to 99 %";
    }
    return panel;
}

plot::panel connections_of(const std::vector<measurement> &all)
{
    plot::panel panel;
    panel.title = "Connections, one after another";
    for (const measurement &each : all) {
        if (each.test == "connections")
            panel.notes.push_back({value_text(each.value * 1e-6, "s"),
                                   "from dat_ep_connect to the established event"});
        else if (each.test == "connection rate")
            panel.notes.push_back(
                {value_text(each.value, "/s"), "made, connected, disconnected and freed"});
    }
    return panel;
}

plot::figure figure_of(const options &o, const std::vector<measurement> &all)
{
    plot::figure figure;
    figure.title = o.adapter;
    figure.subtitle = "dat-perf, " + std::string(o.host.empty() ? "both sides on one host"
                                                                : "client of " + o.host);
    figure.footnotes = plot::footnotes();
    figure.panels = {
        panel_of(all, "latency", "Latency: half a round trip", "s", 1e-6),
        panel_of(all, "bandwidth", "Bandwidth", "B/s", 1),
        panel_of(all, "rate", "Messages per second", "/s", 1),
        connections_of(all),
    };
    return figure;
}

// -------------------------------------------------------------------------------------------- main

program::json run_open(const options &o)
{
    program::json results = program::json::array();
    for (const opening &each : measure_openings(o.adapter, o.duration, o.limit)) {
        const char *const call = each.self ? "loaded, fi_getinfo" : "dat_ia_open";
        std::fprintf(o.out(), "opening    %-22s %11s", each.name.c_str(),
                     value_text(each.us * 1e-6, "s").c_str());
        if (each.ratio > 0)
            std::fprintf(o.out(), "   (%.3f of libfabric's)", each.ratio);
        std::fprintf(o.out(), "\n");
        program::json &added = results.emplace_back(
            program::json{{"test", "open"}, {"how", each.name}, {"call", call}, {"unit", "us"}});
        added["value"] = each.us;
        if (each.ratio > 0)
            added["ratio"] = each.ratio;
    }
    return results;
}

void lead(channel &peer, const options &o, program::json results = program::json::array())
{
    leader l(peer, o);
    l.run();
    l.finish();
    for (const program::json &each : l.results())
        results.push_back(each);
    if (!o.json.empty())
        program::write_json(
            o.json,
            {{"adapter", o.adapter}, {"origin", program::origin_json()}, {"results", results}});
    if (!o.svg.empty())
        plot::write_svg(o.svg, figure_of(o, l.measurements()));
}

/// Follows a leader that has said nothing yet: "limit adapter".
void follow_first(channel &leader, const std::string &argument)
{
    std::istringstream words(argument);
    double limit = 0;
    std::string adapter;
    std::getline(words >> limit >> std::ws, adapter);
    follow(leader, leader.receive<greeting>(seconds(limit)), adapter, limit);
}
const peer_role following{"follow", follow_first};

/// Follows a client that the server has heard: "limit size threads client's-limit adapter".
void follow_client(channel &leader, const std::string &argument)
{
    std::istringstream words(argument);
    double limit = 0;
    std::string adapter;
    greeting hello;
    words >> limit >> hello.max_size >> hello.threads >> hello.limit_s;
    std::getline(words >> std::ws, adapter);
    follow(leader, hello, adapter, limit);
}
const peer_role serving{"serve", follow_client};

std::string argument_of(const greeting &hello, const options &o)
{
    std::ostringstream words;
    words << o.limit << ' ' << hello.max_size << ' ' << hello.threads << ' ' << hello.limit_s << ' '
          << o.adapter;
    return words.str();
}

void run_here(const options &o)
{
    program::json opened = program::json::array();
    if (o.wants("open"))
        opened = run_open(o);
    if (o.wants_open_only()) {
        if (!o.json.empty())
            program::write_json(
                o.json,
                {{"adapter", o.adapter}, {"origin", program::origin_json()}, {"results", opened}});
        return;
    }
    auto [child, peer] = peer_process::start(following, std::to_string(o.limit) + " " + o.adapter);
    lead(peer, o, opened);
    if (!child.ended_well(seconds(o.limit)))
        throw program::failure("the peer process exited abnormally");
}

/// Serves several clients at once, each in a process of its own.
void serve_many(peer_listener &listener, const options &o)
{
    std::vector<peer_process> children;
    std::string late;
    while (late.empty() && children.size() < o.clients) {
        try {
            auto [client, hello] = await_leader(listener, o.max_size, o.wait);
            children.push_back(
                peer_process::start(serving, argument_of(hello, o), std::move(client)));
            std::fprintf(stderr, "client %zu of %u\n", children.size(), o.clients);
        } catch (const program::failure &e) {
            late = e.what();
        }
    }
    std::size_t good = 0;
    for (peer_process &child : children)
        good += child.ended_well(seconds(longest_limit_s));
    if (!late.empty())
        throw program::failure(late);
    if (good < children.size())
        throw program::failure(std::to_string(good) + " of " + std::to_string(children.size()) +
                               " clients were served to their end");
}

void serve(const options &o)
{
    peer_listener listener(o.port, o.listen);
    std::fprintf(stderr, "waiting for dat-perf --client on TCP port %u of %s\n", o.port,
                 o.listen.empty() ? "every address" : o.listen.c_str());
    if (o.clients > 1)
        return serve_many(listener, o);
    auto [client, hello] = await_leader(listener, o.max_size, o.wait);
    follow(client, hello, o.adapter, o.limit);
}

/// Names what makes figures of many threads low.
void warn_of_threads(const options &o)
{
    const unsigned polling = o.threads * (o.host.empty() ? 2 : 1);
    const unsigned processors = std::thread::hardware_concurrency();
    if (o.threads > 1 && processors != 0 && polling > processors)
        std::fprintf(
            stderr,
            "dat-perf: %u threads poll, and this host has %u processors: the adapter could "
            "do more\n",
            polling, processors);
}

/// Returns false when that was said already.
bool run(const options &o)
{
    if (const std::string busy = program::this_origin().warning(); !busy.empty() && !o.server)
        std::fprintf(stderr, "dat-perf: %s\n", busy.c_str());
    if (!o.server)
        warn_of_threads(o);
    if (o.in_job)
        return measure_pairs(o);
    for (const std::string &path : {o.json, o.svg})
        if (!path.empty())
            program::check_output(path);
    if (o.server) {
        serve(o);
    } else if (!o.host.empty()) {
        channel server = call_peer(o.host, o.port, seconds(std::min(o.limit, 5.0)));
        lead(server, o);
    } else {
        run_here(o);
    }
    return true;
}

void describe(program::command_line &line, options &o)
{
    // CLI11 before 2.5 refuses a positional argument with the name of a long option.
    line.positional("NAME", o.adapter, "adapter name in dat.conf; dat-info lists them");
    line.text("--adapter", "NAME", o.adapter, "same as the positional argument");
    line.exclude("--adapter", "NAME");
    line.flag("--server", o.server, "run as the passive side, for one client");
    line.text("--client", "HOST", o.host, "measure against the server on this host");
    line.exclude("--client", "--server");
    line.flag("--job", o.in_job,
              "measure between the ranks of a job, which a launcher has started");
    line.exclude("--job", "--server");
    line.exclude("--job", "--client");
    line.number("--clients", o.clients, 1u, 1000u,
                "how many clients --server serves at once, each in a process of its own");
    line.exclude("--clients", "--client");
    line.exclude("--clients", "--job");
    line.text("--listen", "ADDRESS", o.listen,
              "address on which --server takes its client (default: every address)");
    line.exclude("--listen", "--client");
    line.size("--max-size", o.max_size, largest_size,
              "largest message size that --server lets its client ask for");
    line.number<std::uint16_t>("--port", o.port, 1, 65535, "TCP port of the control connection");
    line.flag("--quick", o.quick, "measure one latency and one bandwidth, in under three seconds");
    line.choices("--tests", o.tests, {"latency", "bandwidth", "rate", "connections", "open"},
                 "tests to run: latency, bandwidth, rate, connections; open, if it is named and "
                 "both sides run on this host");
    line.size("--size", o.size, largest_size, "message size of the latency and rate tests");
    line.sizes(
        "--sizes", o.sizes, largest_size,
        "message sizes of the bandwidth test, with --sweep of all tests (default 64,1K,8K,64K,1M; "
        "with --sweep 1,4,16 and so on up to 1M)");
    line.flag("--sweep", o.sweep, "measure latency and rate over --sizes too; takes half a minute");
    line.exclude("--sweep", "--quick");
    line.exclude("--tests", "--quick");
    line.number(
        "--threads", o.threads, 1u, most_threads,
        "connections that carry bandwidth and rate at once, a thread for each on both sides");
    line.exclude("--threads", "--server");
    line.exclude("--threads", "--quick");
    line.flag("--both-ways", o.both_ways,
              "measure bandwidth and rate in both directions at once, too");
    line.exclude("--both-ways", "--server");
    line.exclude("--both-ways", "--quick");
    line.number("--window", o.window, 1u, stream_window, "number of outstanding RDMA operations");
    line.number("--duration", o.duration, 0.01, 3600.0, "seconds per measurement");
    line.number("--wait", o.wait, 0.1, 1e6, "seconds --server waits for a client");
    line.number("--timeout", o.limit, 0.1, longest_limit_s,
                "abort after this many seconds without progress");
    line.text("--api", "VERSION", o.api, "2.0, or 1.2: as a program of DAT 1.2, through libdat");
    line.flag("--perftest", o.in_columns,
              "print figures in the columns of perftest's ib_send_lat and ib_send_bw");
    line.exclude("--perftest", "--server");
    line.exclude("--perftest", "--job");
    line.text("--json", "FILE", o.json,
              "write the results as JSON to this file (- is standard output)");
    line.text("--svg", "FILE", o.svg,
              "plot the results over the message size to this file; implies --sweep");
    line.exclude("--svg", "--quick");
    line.exclude("--svg", "--job");
    line.footer("Without --server, --client and --job both sides run on this host, in two\n"
                "processes.\n"
                "Of a job with n pairs of ranks, rank i measures with rank i + n, all at once:\n"
                "  mpirun -n 4 dat-perf --job ofi-lo\n"
                "Exit status: 0 all tests were measured; 1 an error occurred; 2 invalid options.");
}

/// What the parser cannot find wrong; nothing otherwise.
std::string contradiction(const options &o)
{
    if (o.adapter.empty())
        return "an adapter is required; dat-info lists them";
    if (o.wants("open") && !o.has_one_host())
        return "--tests open measures on one host: leave out --server, --client and --job";
    if (o.clients > 1 && !o.server)
        return "--clients is for --server";
    return {};
}

} // namespace

int main(int argc, char **argv)
{
    become_peer();
    options o;
    program::command_line line(
        "dat-perf", "Latency, bandwidth, message rate and connection rate of a DAT adapter");
    describe(line, o);
    if (const auto status = line.parse(argc, argv))
        return *status;
    if (const std::string wrong = contradiction(o); !wrong.empty())
        return line.misused(wrong);
    o.settle();
    program::write_line_by_line();
    try {
        program::use_api(o.api, argv);
        return run(o) ? 0 : 1;
    } catch (const std::exception &e) {
        std::fprintf(stderr, "dat-perf: %s\n", e.what());
        return 1;
    }
}
