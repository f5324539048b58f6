// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// overhead: what the DAPL layer costs on top of libfabric. Two processes hold two connections
// each, one through DAT and one straight through libfabric, and use them in turn for short batches,
// so that whatever disturbs the machine disturbs both. The answer is the median of the ratios of
// neighbouring batches.
#include "command_line.hpp"
#include "dat_link.hpp"
#include "fi_link.hpp"
#include "json.hpp"
#include "placement.hpp"
#include "statistics.hpp"
#include "traffic.hpp"

#include <cstdio>
#include <map>

namespace {

using namespace bench;

constexpr seconds limit{20};
constexpr std::uint32_t big = 1 << 20;

struct options {
    std::string adapter = "ofi-lo", provider = "tcp", node = "127.0.0.1", json;
    std::vector<std::string> tests = {"latency"};
    std::uint32_t size = 64, batches = 100, iterations = 500, warmup = 50;
    double max_ratio = 0;
    bool pin = true;
};

struct addresses {
    sockaddr_storage dat, fi;
    DAT_CONN_QUAL qualifier;
};

/// Both connections of one process.
struct stacks {
    dat_adapter adapter;
    dat_link dat;
    fi_link fi;

    explicit stacks(const options &o)
        : adapter(o.adapter), dat(adapter, big), fi(o.provider, o.node, big)
    {}

    void exchange_memory(channel &peer)
    {
        const auto [address, key] = fi.memory();
        peer.send(dat.memory());
        peer.send(remote_memory{address, key});
        dat.set_peer_memory(peer.receive<remote_memory>(limit));
        const auto theirs = peer.receive<remote_memory>(limit);
        fi.set_peer_memory(theirs.address, theirs.key);
    }
};

constexpr std::uint32_t on_dat = 0; // command::stack; 1 is straight on libfabric

void follow(channel &leader, const options &o, line_probe &probe)
{
    stacks s(o);
    patience p(leader, limit);
    dat_listener listener(s.adapter, 0);
    leader.send(addresses{s.adapter.address(), s.fi.listen(), listener.qualifier()});
    s.dat.accept(listener.next_request(p), p);
    s.fi.accept(p);
    s.exchange_memory(leader);
    if (const auto cpus = two_cpus(); o.pin && cpus)
        pin_to(cpus->second);
    for (;;) {
        const auto what = leader.receive<command>(seconds(60));
        if (what.what == pattern::finish)
            return;
        if (what.what == pattern::line_probe) {
            leader.send('r');
            probe.follow();
        } else if (what.stack == on_dat) {
            answer(s.dat, what, leader, p);
        } else {
            answer(s.fi, what, leader, p);
        }
    }
}

/// One measured operation of both stacks.
struct test {
    const char *name;
    pattern what;
    std::uint32_t size, count, batches;
    double scale; ///< from seconds per batch to the unit; negative: per second
    const char *unit;
};

struct pair_sample {
    double dat_s, fi_s, line_ns;
    double ratio() const { return dat_s / fi_s; }
};

class leader {
public:
    explicit leader(const options &o)
        : warmup_(o.warmup),
          started_(forked_peer::start([&](channel &other) { follow(other, o, probe_); })),
          p_(started_.second, limit), s_(o)
    {
        const auto to = peer().receive<addresses>(limit);
        s_.dat.connect(to.dat, to.qualifier, p_);
        s_.fi.connect(to.fi, p_);
        s_.exchange_memory(peer());
        if (const auto cpus = two_cpus(); o.pin && cpus)
            pin_to(cpus->first);
    }

    std::vector<pair_sample> run(const test &t)
    {
        std::vector<pair_sample> samples;
        for (std::uint32_t i = 0; i < t.batches + 2; ++i) {
            pair_sample sample{};
            sample.line_ns = line();
            // the two take turns in going first
            for (const std::uint32_t stack : {i % 2, 1 - i % 2})
                (stack == on_dat ? sample.dat_s : sample.fi_s) = batch(t, stack);
            if (i >= 2) // the first ones warm up
                samples.push_back(sample);
        }
        return samples;
    }

    void finish()
    {
        peer().send(command{pattern::finish, 0, 0, 0});
        started_.first.ended_well(limit);
    }

private:
    channel &peer() { return started_.second; }

    double line()
    {
        announce(peer(), {pattern::line_probe, 0, 0, 0}, limit);
        return probe_.lead();
    }

    /// The connection rested while the other one was used: the first round trips do not count.
    double batch(const test &t, std::uint32_t stack)
    {
        if (warmup_ > 0)
            timed(test{"", pattern::ping_pong, t.size, warmup_, 0, 0, ""}, stack);
        return timed(t, stack);
    }

    double timed(const test &t, std::uint32_t stack)
    {
        announce(peer(), {t.what, t.size, t.count, stack}, limit);
        return stack == on_dat ? drive(s_.dat, t) : drive(s_.fi, t);
    }

    template <class Link>
    double drive(Link &link, const test &t)
    {
        switch (t.what) {
        case pattern::message_stream:
            return send_many(link, t.size, t.count, p_).count();
        case pattern::write_stream:
            return write_many(link, t.size, t.count, 16, p_).count();
        default:
            return ping_many(link, t.size, t.count, p_).count();
        }
    }

    std::uint32_t warmup_;
    line_probe probe_;
    std::pair<forked_peer, channel> started_;
    patience p_;
    stacks s_;
};

std::vector<test> chosen_tests(const options &o)
{
    const std::uint32_t few = std::max(o.batches / 4, 4u);
    std::vector<test> tests;
    for (const std::string &name : o.tests) {
        if (name == "latency")
            tests.push_back(
                {"latency", pattern::ping_pong, o.size, o.iterations, o.batches, 1e6 / 2, "us"});
        else if (name == "rate")
            tests.push_back(
                {"rate", pattern::message_stream, o.size, o.iterations * 4, few, -1e-6, "M/s"});
        else
            for (const std::uint32_t size : {65536u, big})
                tests.push_back({"RDMA write", pattern::write_stream, size, (16 * big) / size, few,
                                 -1e-9 * size, "GB/s"});
    }
    return tests;
}

double in_unit(const test &t, double batch_s)
{
    return t.scale > 0 ? batch_s / t.count * t.scale : t.count / batch_s * -t.scale;
}

json_object report(const test &t, const char *placement, const std::vector<pair_sample> &samples)
{
    std::vector<double> dat, fi, ratio;
    for (const pair_sample &s : samples) {
        dat.push_back(in_unit(t, s.dat_s));
        fi.push_back(in_unit(t, s.fi_s));
        ratio.push_back(s.ratio());
    }
    std::printf("%-11s %8u B  %-5s %8.3f  %8.3f %-5s  %6.3f  (%.3f .. %.3f, %zu pairs)\n", t.name,
                t.size, placement, median(dat), median(fi), t.unit, median(ratio),
                quantile(ratio, 0.25), quantile(ratio, 0.75), samples.size());
    json_object result;
    return result.set("test", t.name)
        .set("size", t.size)
        .set("placement", placement)
        .set("unit", t.unit)
        .set("dat", median(dat))
        .set("libfabric", median(fi))
        .set("time_ratio", median(ratio))
        .set("ratio_quartile_1", quantile(ratio, 0.25))
        .set("ratio_quartile_3", quantile(ratio, 0.75))
        .set("pairs", static_cast<double>(samples.size()));
}

int run(const options &o)
{
    leader l(o);
    std::vector<json_object> results;
    double worst = 0;
    std::printf("%s (DAT) beside %s at %s (libfabric), interleaved, medians\n", o.adapter.c_str(),
                o.provider.c_str(), o.node.c_str());
    std::printf("%-11s %10s  %-5s %8s  %8s %-5s  %6s\n", "test", "size", "CPUs", "DAT", "libfabric",
                "", "time ratio");
    for (const test &t : chosen_tests(o)) {
        const auto all = l.run(t);
        std::map<std::string, std::vector<pair_sample>> by_placement;
        std::vector<double> ratios;
        for (const pair_sample &s : all) {
            by_placement[s.line_ns > 0 ? distance(s.line_ns) : "?"].push_back(s);
            ratios.push_back(s.ratio());
        }
        for (const auto &[placement, samples] : by_placement)
            results.push_back(report(t, placement.c_str(), samples));
        if (by_placement.size() > 1)
            results.push_back(report(t, "all", all));
        worst = std::max(worst, median(ratios));
    }
    l.finish();
    if (!o.json.empty())
        write_json(o.json, json_object().set("adapter", o.adapter).set("results", results));
    if (o.max_ratio > 0 && worst > o.max_ratio) {
        std::printf("the ratio %.3f is above the limit of %.3f\n", worst, o.max_ratio);
        return 1;
    }
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    options o;
    command_line line("overhead",
                      "What the DAPL layer costs on top of libfabric: both in one run, batch by "
                      "batch");
    line.positional("adapter", o.adapter, "adapter name in dat.conf");
    line.choices("--tests", o.tests, {"latency", "rate", "bandwidth"},
                 "some of latency, rate, bandwidth");
    line.size("--size", o.size, big, "size of a message of latency and rate");
    line.number("--batches", o.batches, 1u, 100'000u, "pairs of batches");
    line.number("--iterations", o.iterations, 1u, 1'000'000u, "round trips per batch");
    line.number("--warmup", o.warmup, 0u, 1'000'000u,
                "round trips before each batch that do not count");
    line.text("--fi-provider", "NAME", o.provider, "libfabric provider of the twin");
    line.text("--fi-node", "ADDRESS", o.node, "address of the twin");
    line.number("--limit", o.max_ratio, 0.0, 1e6, "exit with 1 when a median ratio is above this");
    line.negative_flag("--no-pin", o.pin, "leave the processes where the scheduler puts them");
    line.text("--json", "FILE", o.json, "write the results there (- is standard output)");
    if (const auto status = line.parse(argc, argv))
        return *status;
    try {
        return run(o);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "overhead: %s\n", e.what());
        return 1;
    }
}
