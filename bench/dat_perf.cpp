// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// dat-perf: latency, bandwidth, message rate and connection rate of an interface adapter, through
// the DAT C API alone. The leading side chooses the measurements and tells the other over a socket;
// see docs/man/dat-perf.1.md.
#include "dat_link.hpp"
#include "job.hpp"
#include "opening.hpp"
#include "osd_address.hpp"
#include "plot.hpp"
#include "program/command_line.hpp"
#include "program/json.hpp"
#include "program/libdat2.hpp"
#include "program/origin.hpp"
#include "program/output_file.hpp"
#include "statistics.hpp"
#include "traffic.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <unistd.h>

namespace {

using namespace bench;

constexpr std::uint32_t largest_size = 1u << 30;
constexpr double longest_limit_s = 1e6;

struct options {
    std::string adapter, host, listen, json, svg, api = "2.0";
    std::vector<std::string> tests = {"latency", "bandwidth", "rate", "connections"};
    std::vector<std::uint32_t> sizes; ///< chosen by settle() if they are not given
    std::uint32_t size = 64, window = 16, max_size = 64 << 20;
    std::uint16_t port = 18515;
    double duration = 0.3, wait = 300, limit = 20;
    bool server = false, in_job = false, quick = false, sweep = false;

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

/// What the leader says first.
struct greeting {
    char magic[8] = {'d', 'a', 't', 'p', 'e', 'r', 'f', '2'};
    std::uint32_t max_size = 0;
    double limit_s = 0;
};

struct invitation {
    sockaddr_storage address;
    DAT_CONN_QUAL qualifier;
    std::uint32_t max_size; ///< that the follower allows; less than was asked for: it refuses
};

// ------------------------------------------------------------------------------------ the follower

/// Accepts and sees off `count` connections one after another.
void take_connections(dat_adapter &adapter, dat_listener &listener, std::uint32_t count,
                      patience &p)
{
    for (std::uint32_t i = 0; i < count; ++i) {
        dat_endpoint end(adapter);
        end.serve(listener.next_request(p), p);
    }
}

/// Why this is not the beginning of what a leader says; an empty text if it is.
std::string why_no_leader(channel &peer, std::span<const char> said, std::uint32_t max_size)
{
    const greeting ours;
    constexpr std::size_t version = sizeof ours.magic - 1;
    if (std::memcmp(said.data(), ours.magic, std::min(said.size(), version)) != 0)
        return "it is no dat-perf --client";
    if (said.size() > version && said[version] != ours.magic[version])
        return "it is a different version of dat-perf";
    greeting hello;
    if (said.size() < sizeof hello)
        return "";
    std::memcpy(&hello, said.data(), sizeof hello);
    if (hello.max_size == 0 || !(hello.limit_s > 0 && hello.limit_s <= longest_limit_s))
        return "it is no dat-perf --client";
    if (hello.max_size <= max_size)
        return "";
    peer.send(invitation{{}, 0, max_size});
    return "it asks for messages of " + std::to_string(hello.max_size) + " bytes; --max-size is " +
           std::to_string(max_size);
}

/// Waits for a peer that begins as a leader does.
std::pair<channel, greeting> await_leader(peer_listener &listener, std::uint32_t max_size,
                                          double wait)
{
    greeting hello;
    channel leader = listener.accept(
        &hello, sizeof hello,
        [&](channel &peer, std::span<const char> said) {
            return why_no_leader(peer, said, max_size);
        },
        seconds(wait));
    return {std::move(leader), hello};
}

void follow(channel &leader, const greeting &hello, const std::string &adapter_name,
            double leader_timeout)
{
    patience p(leader, seconds(hello.limit_s));
    dat_adapter adapter(adapter_name);
    dat_link link(adapter, hello.max_size);
    dat_listener listener(adapter, 0);
    leader.send(invitation{adapter.address(), listener.qualifier(), hello.max_size});
    link.accept(listener.next_request(p), p);
    leader.send(link.memory());
    link.set_peer_memory(leader.receive<remote_memory>(seconds(hello.limit_s)));
    for (;;) {
        const auto what = leader.receive<command>(seconds(leader_timeout));
        if (what.what == pattern::finish)
            return;
        if (what.size == 0 || what.size > hello.max_size)
            throw program::failure("the client requested a message size larger than it announced");
        if (what.what == pattern::connections) {
            leader.send('r');
            take_connections(adapter, listener, what.count, p);
        } else {
            answer(link, what, leader, p);
        }
    }
}

// -------------------------------------------------------------------------------------- the leader

/// One figure of a test, for the plot.
struct measurement {
    std::string test, how;
    std::uint32_t size;
    double value;
};

/// Shows the current measurement on a terminal, and takes it back; says it elsewhere too, when it
/// takes long.
class progress_line {
public:
    explicit progress_line(bool wanted)
        : wanted_(wanted), is_terminal_(wanted && isatty(STDERR_FILENO))
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
    leader(channel &peer, const options &o)
        : o_(o), peer_(peer), p_(peer, seconds(o.limit)), progress_(!o.in_job), adapter_(o.adapter),
          link_(adapter_, o.largest())
    {
        greeting hello;
        hello.max_size = o.largest();
        hello.limit_s = o.limit;
        peer_.send(hello);
        to_ = peer_.receive<invitation>(seconds(o.limit));
        if (to_.max_size < hello.max_size)
            throw program::failure(
                "the server refuses messages of " + size_text(hello.max_size) + ": it allows " +
                size_text(to_.max_size) +
                "\n  start it with a larger --max-size, or choose smaller --size and --sizes");
        if (osd::address::is_loopback(reinterpret_cast<const sockaddr *>(&to_.address)) && !peer_.is_local())
            throw program::failure(
                "the adapter of the server has a loopback address, which cannot be "
                "reached from here\n  start the server on an adapter of a network");
        link_.connect(to_.address, to_.qualifier, p_);
        link_.set_peer_memory(peer_.receive<remote_memory>(seconds(o.limit)));
        peer_.send(link_.memory());
    }

    void run();
    void finish() { peer_.send(command{pattern::finish, 0, 0, 0}); }
    const program::json &results() const { return results_; }
    const std::vector<measurement> &measurements() const { return measurements_; }

private:
    using batch = std::function<void(std::uint32_t count, std::vector<double> &samples)>;

    void run_quick();
    void run_latency(std::uint32_t size);
    void run_bandwidth();
    void run_rate(std::uint32_t size);
    void run_connections();
    bool usable(std::uint32_t size, std::uint32_t limit, const char *what);
    std::uint32_t fitting(double most, double one_s) const;

    void latency(const char *name, pattern what, std::uint32_t size);
    double bandwidth(const char *name, pattern what, std::uint32_t size);
    void batch_latency(pattern what, std::uint32_t size, std::uint32_t count,
                       std::vector<double> &samples_us);
    seconds stream_once(pattern what, std::uint32_t size, std::uint32_t count);
    double bytes_per_second(pattern what, std::uint32_t size);
    double measure_stream(pattern what, std::uint32_t size);
    std::vector<double> connect_many(std::uint32_t count);

    /// Prints, but for all ranks of a job except the first, which prints in the end.
    [[gnu::format(printf, 2, 3)]] void say(const char *format, ...) const
    {
        va_list list;
        va_start(list, format);
        if (!o_.in_job)
            std::vfprintf(o_.out(), format, list);
        va_end(list);
    }
    void ask(pattern what, std::uint32_t size, std::uint32_t count)
    {
        announce(peer_, {what, size, count, 0}, seconds(o_.limit));
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
    dat_link link_;
    invitation to_{};
    program::json results_ = program::json::array();
    std::vector<measurement> measurements_;
    std::map<std::pair<pattern, std::uint32_t>, double> streams_; ///< measured already
};

void leader::run()
{
    if (o_.quick)
        return run_quick();
    say("%s\n", o_.adapter.c_str());
    if (o_.wants("latency"))
        for (const std::uint32_t size : o_.small_sizes())
            run_latency(size);
    if (o_.wants("bandwidth"))
        run_bandwidth();
    if (o_.wants("rate"))
        for (const std::uint32_t size : o_.small_sizes())
            run_rate(size);
    if (o_.wants("connections"))
        run_connections();
}

void leader::run_quick()
{
    latency("send, polling", pattern::ping_pong, o_.size);
    const std::uint32_t size = std::min(o_.largest(), adapter_.attr().max_rdma_size);
    const double rate = bandwidth("RDMA write", pattern::write_stream, size);
    say("bandwidth  RDMA write     %8s  %8.2f GB/s\n", size_text(size).c_str(), rate / 1e9);
}

/// The number of operations that take a fifth of the duration, up to `most`; one operation takes
/// `one_s`.
std::uint32_t leader::fitting(double most, double one_s) const
{
    return static_cast<std::uint32_t>(std::clamp(o_.duration / 5 / one_s, 1.0, most));
}

// --- latency

/// One sample is half a round trip.
void leader::batch_latency(pattern what, std::uint32_t size, std::uint32_t count,
                           std::vector<double> &samples_us)
{
    if (what == pattern::write_pong)
        clear_mark(link_, size);
    ask(what, size, count);
    auto before = clock::now();
    for (std::uint32_t n = 0; n < count; ++n) {
        if (what == pattern::ping_pong)
            ping(link_, size, p_);
        else if (what == pattern::blocking)
            ping_blocking(link_, size, p_);
        else
            write_ping(link_, size, n, p_);
        const auto now = clock::now();
        samples_us.push_back(seconds(now - before).count() * 1e6 / 2);
        before = now;
    }
}

void leader::latency(const char *name, pattern what, std::uint32_t size)
{
    progress_.show(std::string("latency, ") + name + ", " + size_text(size));
    std::vector<double> samples;
    batch_latency(what, size, 1, samples);
    batch_latency(what, size, fitting(20, samples.front() / 1e6), samples); // warms up
    const std::uint32_t count = fitting(size < 65536 ? 200 : 20, samples.back() / 1e6);
    samples.clear();
    const auto end =
        clock::now() + std::chrono::duration_cast<clock::duration>(seconds(o_.duration));
    do {
        batch_latency(what, size, count, samples);
        progress_.go_on();
    } while (clock::now() < end);
    progress_.clear();
    const double best = quantile(samples, 0), p99 = quantile(samples, 0.99);
    say("latency    %-14s %8s  %8.2f us   (best %.2f, 99 %% below %.2f, %zu round trips)\n", name,
        size_text(size).c_str(), median(samples), best, p99, samples.size());
    program::json &added = result("latency", name, size, "us", median(samples));
    added["best"] = best;
    added["quantile_99"] = p99;
    added["samples"] = samples.size();
}

bool leader::usable(std::uint32_t size, std::uint32_t limit, const char *what)
{
    if (size <= limit)
        return true;
    say("%-25s %8s  exceeds the maximum of this adapter (%u bytes)\n", what,
        size_text(size).c_str(), limit);
    return false;
}

void leader::run_latency(std::uint32_t size)
{
    if (usable(size, adapter_.attr().max_message_size, "latency    send")) {
        latency("send, polling", pattern::ping_pong, size);
        latency("send, waiting", pattern::blocking, size);
    }
    if (usable(size, adapter_.attr().max_rdma_size, "latency    RDMA write"))
        latency("RDMA write", pattern::write_pong, size);
}

// --- bandwidth and rate

seconds leader::stream_once(pattern what, std::uint32_t size, std::uint32_t count)
{
    ask(what, size, count);
    switch (what) {
    case pattern::write_stream:
        return write_many(link_, size, count, o_.window, p_);
    case pattern::read_stream:
        return read_many(link_, size, count, o_.window, p_);
    default:
        return send_many(link_, size, count, p_);
    }
}

/// Bandwidth and rate may ask for one and the same stream.
double leader::bytes_per_second(pattern what, std::uint32_t size)
{
    const auto [known, is_new] = streams_.try_emplace({what, size}, 0.0);
    if (is_new)
        known->second = measure_stream(what, size);
    return known->second;
}

/// The median over batches whose length is found by trying.
double leader::measure_stream(pattern what, std::uint32_t size)
{
    const double first = stream_once(what, size, 1).count();
    const std::uint32_t some = size < 65536 ? 64 : fitting(64, first);
    progress_.go_on();
    const double trial = stream_once(what, size, some).count() / some;
    progress_.go_on();
    const std::uint32_t count = fitting(2e6, trial);
    std::vector<double> rates;
    const auto end =
        clock::now() + std::chrono::duration_cast<clock::duration>(seconds(o_.duration));
    do {
        rates.push_back(double(count) * size / stream_once(what, size, count).count());
        progress_.go_on();
    } while (clock::now() < end);
    return median(rates);
}

double leader::bandwidth(const char *name, pattern what, std::uint32_t size)
{
    progress_.show(std::string("bandwidth, ") + name + ", " + size_text(size));
    const double rate = bytes_per_second(what, size);
    progress_.clear();
    result("bandwidth", name, size, "B/s", rate);
    return rate;
}

void leader::run_bandwidth()
{
    struct way {
        const char *name;
        pattern what;
        std::uint32_t limit;
    };
    const DAT_IA_ATTR &attr = adapter_.attr();
    for (const way &w : {way{"RDMA write", pattern::write_stream, attr.max_rdma_size},
                         way{"RDMA read", pattern::read_stream, attr.max_rdma_size},
                         way{"send", pattern::message_stream, attr.max_message_size}}) {
        for (const std::uint32_t size : o_.sizes) {
            if (!usable(size, w.limit, "bandwidth"))
                continue;
            const double rate = bandwidth(w.name, w.what, size);
            say("bandwidth  %-14s %8s  %11s\n", w.name, size_text(size).c_str(),
                value_text(rate, "B/s").c_str());
        }
    }
}

void leader::run_rate(std::uint32_t size)
{
    if (!usable(size, adapter_.attr().max_message_size, "rate"))
        return;
    progress_.show("message rate, " + size_text(size));
    const double rate = bytes_per_second(pattern::message_stream, size) / size;
    progress_.clear();
    say("rate       %-14s %8s  %11s\n", "send", size_text(size).c_str(),
        value_text(rate, "messages/s").c_str());
    result("rate", "send", size, "1/s", rate);
}

// --- connections

std::vector<double> leader::connect_many(std::uint32_t count)
{
    ask(pattern::connections, 1, count);
    std::vector<double> samples_us;
    for (std::uint32_t i = 0; i < count; ++i) {
        dat_endpoint end(adapter_);
        const auto start = clock::now();
        end.connect(to_.address, to_.qualifier, p_);
        samples_us.push_back(seconds(clock::now() - start).count() * 1e6);
        end.disconnect(p_);
    }
    return samples_us;
}

void leader::run_connections()
{
    progress_.show("connection rate");
    connect_many(2);
    std::vector<double> samples;
    std::vector<double> rates;
    const auto end =
        clock::now() + std::chrono::duration_cast<clock::duration>(seconds(o_.duration));
    do {
        const auto start = clock::now();
        const auto some = connect_many(20);
        rates.push_back(20 / seconds(clock::now() - start).count());
        progress_.go_on();
        samples.insert(samples.end(), some.begin(), some.end());
    } while (clock::now() < end);
    progress_.clear();
    say("connecting %-14s %8s  %8.1f us   (%.0f connections made and ended per second)\n",
        "one by one", "", median(samples), median(rates));
    result("connections", "one by one", 0, "us", median(samples))["per_second"] = median(rates);
    measurements_.push_back({"connection rate", "", 0, median(rates)});
}

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
        auto of_name = [&](const plot::curve &known) { return known.name == each.how; };
        auto curve = std::find_if(panel.curves.begin(), panel.curves.end(), of_name);
        if (curve == panel.curves.end())
            curve = panel.curves.insert(curve, plot::curve{each.how, {}});
        curve->points.push_back({double(each.size), each.value * scale});
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
    figure.footnote = program::this_origin().text();
    figure.panels = {
        panel_of(all, "latency", "Latency: half a round trip", "s", 1e-6),
        panel_of(all, "bandwidth", "Bandwidth, one way", "B/s", 1),
        panel_of(all, "rate", "Messages per second, one way", "/s", 1),
        connections_of(all),
    };
    return figure;
}

// -------------------------------------------------------------------------------------- in a job

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
    char name[256] = {};
    (void)gethostname(name, sizeof name - 1);
    return name;
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
    std::fprintf(to, "%s, %zu pairs of ranks at once\n%-26s %8s %12s %12s %12s %12s\n",
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
            to, "%-11s %-14s %8s %12s %12s %12s %12s\n", first["test"].get<std::string>().c_str(),
            first["how"].get<std::string>().c_str(),
            first.contains("size") ? size_text(first["size"].get<std::uint32_t>()).c_str() : "",
            text(quantile(values, 0)).c_str(), text(median(values)).c_str(),
            text(quantile(values, 1)).c_str(), is_time ? "" : text(sum).c_str());
    }
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

void run_forked(const options &o)
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
    auto [child, peer] = forked_peer::start([&](channel &leader) {
        follow(leader, leader.receive<greeting>(seconds(o.limit)), o.adapter, o.limit);
    });
    lead(peer, o, opened);
    if (!child.ended_well(seconds(o.limit)))
        throw program::failure("the peer process exited abnormally");
}

/// Returns false when that was said already.
bool run(const options &o)
{
    if (const std::string busy = program::this_origin().warning(); !busy.empty() && !o.server)
        std::fprintf(stderr, "dat-perf: %s\n", busy.c_str());
    if (o.in_job)
        return pairs(o).measure();
    for (const std::string &path : {o.json, o.svg})
        if (!path.empty())
            program::check_output(path);
    if (o.server) {
        peer_listener listener(o.port, o.listen);
        std::fprintf(stderr, "waiting for dat-perf --client on TCP port %u of %s\n", o.port,
                     o.listen.empty() ? "every address" : o.listen.c_str());
        auto [client, hello] = await_leader(listener, o.max_size, o.wait);
        follow(client, hello, o.adapter, o.limit);
    } else if (!o.host.empty()) {
        channel server = call_peer(o.host, o.port, seconds(std::min(o.limit, 5.0)));
        lead(server, o);
    } else {
        run_forked(o);
    }
    return true;
}

void describe(program::command_line &line, options &o)
{
    line.positional("adapter", o.adapter, "adapter name in dat.conf; dat-info lists them",
                    program::command_line::presence::required);
    line.flag("--server", o.server, "run as the passive side, for one client");
    line.text("--client", "HOST", o.host, "measure against the server on this host");
    line.exclude("--client", "--server");
    line.flag("--job", o.in_job,
              "measure between the ranks of a job, which a launcher has started");
    line.exclude("--job", "--server");
    line.exclude("--job", "--client");
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
    line.number("--window", o.window, 1u, stream_window, "number of outstanding RDMA operations");
    line.number("--duration", o.duration, 0.01, 3600.0, "seconds per measurement");
    line.number("--wait", o.wait, 0.1, 1e6, "seconds --server waits for a client");
    line.number("--timeout", o.limit, 0.1, longest_limit_s,
                "abort after this many seconds without progress");
    line.text("--api", "VERSION", o.api, "2.0, or 1.2: as a program of DAT 1.2, through libdat");
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

} // namespace

int main(int argc, char **argv)
{
    options o;
    program::command_line line(
        "dat-perf", "Latency, bandwidth, message rate and connection rate of a DAT adapter");
    describe(line, o);
    if (const auto status = line.parse(argc, argv))
        return *status;
    if (o.wants("open") && !o.has_one_host()) {
        std::fprintf(stderr, "dat-perf: --tests open measures on one host: leave out --server, "
                             "--client and --job\nrun dat-perf --help for usage\n");
        return 2;
    }
    o.settle();
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    try {
        program::use_api(o.api, argv);
        return run(o) ? 0 : 1;
    } catch (const std::exception &e) {
        std::fprintf(stderr, "dat-perf: %s\n", e.what());
        return 1;
    }
}
