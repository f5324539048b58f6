// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// dat-perf: latency, bandwidth, message rate and connection rate of an interface adapter, through
// the DAT C API alone. The leading side decides what is measured and tells the other one over a
// socket; see docs/man/dat-perf.1.md.
#include "dat_link.hpp"
#include "json.hpp"
#include "statistics.hpp"
#include "traffic.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <functional>
#include <unistd.h>

namespace {

using namespace bench;

struct options {
    std::string adapter, host, json;
    std::vector<std::string> tests = {"latency", "bandwidth", "rate", "connections"};
    std::vector<std::uint32_t> sizes = {64, 1024, 8192, 65536, 1 << 20};
    std::uint32_t size = 64, window = 16;
    unsigned short port = 18515;
    double duration = 0.3, wait = 300, limit = 20;
    bool server = false, quick = false;

    bool wants(const char *test) const
    {
        return std::find(tests.begin(), tests.end(), test) != tests.end();
    }
    std::uint32_t largest() const
    {
        return std::max(size, *std::max_element(sizes.begin(), sizes.end()));
    }
};

/// What each side says first.
struct greeting {
    char magic[8] = {'d', 'a', 't', 'p', 'e', 'r', 'f', '1'};
    std::uint32_t max_size = 0; ///< from the leader
    double limit_s = 0;         ///< likewise
};

struct invitation {
    sockaddr_storage address;
    DAT_CONN_QUAL qualifier;
};

// ------------------------------------------------------------------------------------ the follower

/// Accepts and sees off `count` connections one after another.
void take_connections(dat_adapter &adapter, dat_listener &listener, std::uint32_t count,
                      patience &p)
{
    for (std::uint32_t i = 0; i < count; ++i) {
        dat_endpoint end(adapter);
        end.accept(listener.next_request(p), p);
        end.await_disconnected(p);
    }
}

void follow(channel &leader, const std::string &adapter_name, double leader_timeout)
{
    const auto hello = leader.receive<greeting>(seconds(leader_timeout));
    if (std::memcmp(hello.magic, greeting{}.magic, sizeof hello.magic) != 0)
        throw failure("the client is not a dat-perf of this version");
    patience p(leader, seconds(hello.limit_s));
    dat_adapter adapter(adapter_name);
    dat_link link(adapter, hello.max_size);
    dat_listener listener(adapter, 0);
    leader.send(invitation{adapter.address(), listener.qualifier()});
    link.accept(listener.next_request(p), p);
    leader.send(link.memory());
    link.set_peer_memory(leader.receive<remote_memory>(seconds(hello.limit_s)));
    for (;;) {
        const auto what = leader.receive<command>(seconds(leader_timeout));
        if (what.what == pattern::finish)
            return;
        if (what.size == 0 || what.size > hello.max_size)
            throw failure("the client asks for a message size that it did not announce");
        if (what.what == pattern::connections) {
            leader.send('r');
            take_connections(adapter, listener, what.count, p);
        } else {
            answer(link, what, leader, p);
        }
    }
}

// -------------------------------------------------------------------------------------- the leader

/// "64 B", "8 KiB", "1 MiB".
std::string size_text(std::uint32_t size)
{
    if (size >= 1 << 20 && size % (1 << 20) == 0)
        return std::to_string(size >> 20) + " MiB";
    if (size >= 1024 && size % 1024 == 0)
        return std::to_string(size >> 10) + " KiB";
    return std::to_string(size) + " B";
}

/// Says on a terminal what is being measured, and takes it back.
class progress_line {
public:
    explicit progress_line(bool wanted) : shown_(wanted && isatty(STDERR_FILENO)) {}
    ~progress_line() { clear(); }

    void show(const std::string &what)
    {
        clear();
        if (shown_)
            std::fprintf(stderr, "  ... %s", what.c_str());
    }
    void clear()
    {
        if (shown_)
            std::fputs("\r\033[K", stderr);
    }

private:
    bool shown_;
};

class leader {
public:
    leader(channel &peer, const options &o)
        : o_(o), peer_(peer), p_(peer, seconds(o.limit)), adapter_(o.adapter),
          link_(adapter_, o.largest()), progress_(!o.quick)
    {
        greeting hello;
        hello.max_size = o.largest();
        hello.limit_s = o.limit;
        peer_.send(hello);
        to_ = peer_.receive<invitation>(seconds(o.limit));
        if (is_loopback(to_.address) && !peer_.is_local())
            throw failure("the adapter of the server has a loopback address, which cannot be "
                          "reached from here\n  start the server on an adapter of a network");
        link_.connect(to_.address, to_.qualifier, p_);
        link_.set_peer_memory(peer_.receive<remote_memory>(seconds(o.limit)));
        peer_.send(link_.memory());
    }

    void run();
    void finish() { peer_.send(command{pattern::finish, 0, 0, 0}); }
    const std::vector<json_object> &results() const { return results_; }

private:
    using batch = std::function<void(std::uint32_t count, std::vector<double> &samples)>;

    void run_quick();
    void run_latency();
    void run_bandwidth();
    void run_rate();
    void run_connections();
    bool usable(std::uint32_t size, std::uint32_t limit, const char *what);

    void latency(const char *name, pattern what);
    double bandwidth(const char *name, pattern what, std::uint32_t size);
    void batch_latency(pattern what, std::uint32_t count, std::vector<double> &samples_us);
    seconds stream_once(pattern what, std::uint32_t size, std::uint32_t count);
    double bytes_per_second(pattern what, std::uint32_t size);
    std::vector<double> connect_many(std::uint32_t count);

    void ask(pattern what, std::uint32_t size, std::uint32_t count)
    {
        announce(peer_, {what, size, count, 0}, seconds(o_.limit));
        p_.progress();
    }
    json_object &result(const char *test, const char *how)
    {
        return results_.emplace_back().set("test", test).set("how", how);
    }

    const options &o_;
    channel &peer_;
    patience p_;
    dat_adapter adapter_;
    dat_link link_;
    progress_line progress_;
    invitation to_{};
    std::vector<json_object> results_;
};

void leader::run()
{
    if (o_.quick)
        return run_quick();
    std::printf("%s\n", o_.adapter.c_str());
    if (o_.wants("latency"))
        run_latency();
    if (o_.wants("bandwidth"))
        run_bandwidth();
    if (o_.wants("rate"))
        run_rate();
    if (o_.wants("connections"))
        run_connections();
}

void leader::run_quick()
{
    latency("send, polling", pattern::ping_pong);
    const std::uint32_t size = std::min(o_.largest(), adapter_.attr().max_rdma_size);
    const double rate = bandwidth("RDMA write", pattern::write_stream, size);
    std::printf("bandwidth  RDMA write     %8s  %8.2f GB/s\n", size_text(size).c_str(), rate / 1e9);
}

// --- latency

/// One sample is half a round trip.
void leader::batch_latency(pattern what, std::uint32_t count, std::vector<double> &samples_us)
{
    if (what == pattern::write_pong)
        clear_mark(link_, o_.size);
    ask(what, o_.size, count);
    auto before = clock::now();
    for (std::uint32_t n = 0; n < count; ++n) {
        if (what == pattern::ping_pong)
            ping(link_, o_.size, p_);
        else if (what == pattern::blocking)
            ping_blocking(link_, o_.size, p_);
        else
            write_ping(link_, o_.size, n, p_);
        const auto now = clock::now();
        samples_us.push_back(seconds(now - before).count() * 1e6 / 2);
        before = now;
    }
}

void leader::latency(const char *name, pattern what)
{
    progress_.show(std::string("latency, ") + name);
    std::vector<double> samples;
    batch_latency(what, 20, samples); // warms up
    samples.clear();
    const auto end =
        clock::now() + std::chrono::duration_cast<clock::duration>(seconds(o_.duration));
    do {
        batch_latency(what, 200, samples);
    } while (clock::now() < end);
    progress_.clear();
    const double best = quantile(samples, 0), p99 = quantile(samples, 0.99);
    std::printf("latency    %-14s %8s  %8.2f us   (best %.2f, 99 %% below %.2f, %zu round trips)\n",
                name, size_text(o_.size).c_str(), median(samples), best, p99, samples.size());
    result("latency", name)
        .set("size", o_.size)
        .set("unit", "us")
        .set("value", median(samples))
        .set("best", best)
        .set("quantile_99", p99)
        .set("samples", static_cast<double>(samples.size()));
}

bool leader::usable(std::uint32_t size, std::uint32_t limit, const char *what)
{
    if (size <= limit)
        return true;
    std::printf("%-25s %8s  is more than this adapter takes (%u bytes)\n", what,
                size_text(size).c_str(), limit);
    return false;
}

void leader::run_latency()
{
    if (usable(o_.size, adapter_.attr().max_message_size, "latency    send")) {
        latency("send, polling", pattern::ping_pong);
        latency("send, waiting", pattern::blocking);
    }
    if (usable(o_.size, adapter_.attr().max_rdma_size, "latency    RDMA write"))
        latency("RDMA write", pattern::write_pong);
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

/// The median over batches whose length is found by trying.
double leader::bytes_per_second(pattern what, std::uint32_t size)
{
    stream_once(what, size, o_.window);
    const double trial = stream_once(what, size, 64).count() / 64;
    const double wanted = o_.duration / 5 / trial;
    const auto count = static_cast<std::uint32_t>(std::clamp(wanted, 16.0, 2e6));
    std::vector<double> rates;
    const auto end =
        clock::now() + std::chrono::duration_cast<clock::duration>(seconds(o_.duration));
    do {
        rates.push_back(double(count) * size / stream_once(what, size, count).count());
    } while (clock::now() < end);
    return median(rates);
}

double leader::bandwidth(const char *name, pattern what, std::uint32_t size)
{
    progress_.show(std::string("bandwidth, ") + name + ", " + size_text(size));
    const double rate = bytes_per_second(what, size);
    progress_.clear();
    result("bandwidth", name).set("size", size).set("unit", "B/s").set("value", rate);
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
            std::printf("bandwidth  %-14s %8s  %8.3f GB/s\n", w.name, size_text(size).c_str(),
                        rate / 1e9);
        }
    }
}

void leader::run_rate()
{
    if (!usable(o_.size, adapter_.attr().max_message_size, "rate"))
        return;
    progress_.show("message rate");
    const double rate = bytes_per_second(pattern::message_stream, o_.size) / o_.size;
    progress_.clear();
    std::printf("rate       %-14s %8s  %8.3f M messages/s\n", "send", size_text(o_.size).c_str(),
                rate / 1e6);
    result("rate", "send").set("size", o_.size).set("unit", "1/s").set("value", rate);
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
        samples.insert(samples.end(), some.begin(), some.end());
    } while (clock::now() < end);
    progress_.clear();
    std::printf("connecting %-14s %8s  %8.1f us   (%.0f connections made and ended per second)\n",
                "one by one", "", median(samples), median(rates));
    result("connections", "one by one")
        .set("unit", "us")
        .set("value", median(samples))
        .set("per_second", median(rates));
}

// -------------------------------------------------------------------------------------------- main

void lead(channel &peer, const options &o)
{
    leader l(peer, o);
    l.run();
    l.finish();
    if (!o.json.empty())
        write_json(o.json, json_object().set("adapter", o.adapter).set("results", l.results()));
}

void run_forked(const options &o)
{
    auto [child, peer] =
        forked_peer::start([&](channel &leader) { follow(leader, o.adapter, o.limit); });
    lead(peer, o);
    if (!child.ended_well(seconds(o.limit)))
        throw failure("the peer process did not end as it should");
}

void run(const options &o)
{
    if (o.server) {
        std::fprintf(stderr, "waiting for dat-perf --client on TCP port %u\n", o.port);
        channel client = listen_for_peer(o.port, seconds(o.wait));
        follow(client, o.adapter, o.limit);
    } else if (!o.host.empty()) {
        channel server = call_peer(o.host, o.port, seconds(std::min(o.limit, 5.0)));
        lead(server, o);
    } else {
        run_forked(o);
    }
}

void describe(CLI::App &app, options &o)
{
    app.add_option("adapter", o.adapter, "adapter name in dat.conf; dat-info lists them")
        ->required();
    auto *server = app.add_flag("--server", o.server, "be the passive side for one client");
    app.add_option("--client", o.host, "measure against the server on this host")->excludes(server);
    app.add_option("--port", o.port, "TCP port on which the two sides agree")
        ->capture_default_str();
    app.add_flag("--quick", o.quick, "one latency and one bandwidth, in under three seconds");
    app.add_option("--tests", o.tests, "latency, bandwidth, rate, connections")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::IsMember({"latency", "bandwidth", "rate", "connections"}))
        ->capture_default_str();
    const auto valid_size = CLI::Range(1u, 1u << 30);
    app.add_option("--size", o.size, "bytes per message of latency and rate")
        ->transform(CLI::AsSizeValue(false))
        ->check(valid_size)
        ->capture_default_str();
    app.add_option("--sizes", o.sizes, "message sizes of bandwidth")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->transform(CLI::AsSizeValue(false))
        ->check(valid_size)
        ->capture_default_str();
    app.add_option("--window", o.window, "RDMA operations under way at a time")
        ->check(CLI::Range(1u, stream_window))
        ->capture_default_str();
    app.add_option("--duration", o.duration, "seconds per measurement")
        ->check(CLI::Range(0.01, 3600.0))
        ->capture_default_str();
    app.add_option("--wait", o.wait, "seconds that --server waits for its client")
        ->check(CLI::Range(0.1, 1e6))
        ->capture_default_str();
    app.add_option("--timeout", o.limit, "give up when nothing happens for this many seconds")
        ->check(CLI::Range(0.1, 1e6))
        ->capture_default_str();
    app.add_option("--json", o.json, "write the results to this file (- is standard output)");
    app.footer("Without --server and --client both sides run here, in two processes.");
}

} // namespace

int main(int argc, char **argv)
{
    options o;
    CLI::App app{"Latency, bandwidth, message rate and connection rate of a DAT adapter"};
    describe(app, o);
    CLI11_PARSE(app, argc, argv);
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    try {
        run(o);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "dat-perf: %s\n", e.what());
        return 1;
    }
}
