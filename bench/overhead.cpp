// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// overhead: what the DAPL layer costs on top of libfabric, or how an adapter does beside others.
// Two processes hold a connection through DAT and one of each of the others, and use them in turn
// for short batches, so that whatever disturbs the machine disturbs all. The answer is the median
// of the ratios of neighbouring batches.
#include "command_line.hpp"
#include "dat_link.hpp"
#include "fi_link.hpp"
#include "json.hpp"
#include "placement.hpp"
#include "statistics.hpp"
#include "traffic.hpp"
#include "udp_link.hpp"

#include <cstdio>
#include <map>
#include <optional>

namespace {

using namespace bench;

constexpr seconds limit{20};
constexpr std::uint32_t big = 1 << 20;

struct options {
    std::string adapter = "ofi-lo", node = "127.0.0.1", json;
    std::vector<std::string> tests = {"latency"}, others = {"tcp"};
    std::uint32_t size = 64, batches = 100, iterations = 500, warmup = 50;
    double max_ratio = 0;
    bool pin = true;
};

/// One measured operation.
struct test {
    const char *name;
    pattern what;
    std::uint32_t size, count, batches;
    double scale; ///< from seconds per batch to the unit; negative: per second
    const char *unit;
};

/// One connection of this process; the other process has its other end.
class stack {
public:
    virtual ~stack() {}
    virtual void join(channel &peer, bool leads, patience &p) = 0;
    virtual bool can(const test &) const { return true; }
    virtual double lead(const test &t, patience &p) = 0;
    virtual void follow(const command &what, channel &leader, patience &p) = 0;
};

template <class Link>
double drive(Link &link, const test &t, patience &p)
{
    switch (t.what) {
    case pattern::message_stream:
        return send_many(link, t.size, t.count, p).count();
    case pattern::write_stream:
        return write_many(link, t.size, t.count, 16, p).count();
    default:
        return ping_many(link, t.size, t.count, p).count();
    }
}

class dat_stack : public stack {
public:
    explicit dat_stack(const options &o) : adapter_(o.adapter), link_(adapter_, big) {}

    void join(channel &peer, bool leads, patience &p) override
    {
        if (leads) {
            const auto to = peer.receive<place>(limit);
            link_.connect(to.address, to.qualifier, p);
        } else {
            listener_.emplace(adapter_, 0);
            peer.send(place{adapter_.address(), listener_->qualifier()});
            link_.accept(listener_->next_request(p), p);
        }
        peer.send(link_.memory());
        link_.set_peer_memory(peer.receive<remote_memory>(limit));
    }
    double lead(const test &t, patience &p) override { return drive(link_, t, p); }
    void follow(const command &what, channel &leader, patience &p) override
    {
        answer(link_, what, leader, p);
    }

private:
    struct place {
        sockaddr_storage address;
        DAT_CONN_QUAL qualifier;
    };
    dat_adapter adapter_;
    std::optional<dat_listener> listener_;
    dat_link link_;
};

class fi_stack : public stack {
public:
    fi_stack(const std::string &provider, const options &o) : link_(provider, o.node, big) {}

    void join(channel &peer, bool leads, patience &p) override
    {
        if (!link_.connects()) {
            peer.send(link_.open());
            link_.meet(peer.receive<sockaddr_storage>(limit));
        } else if (leads) {
            link_.connect(peer.receive<sockaddr_storage>(limit), p);
        } else {
            peer.send(link_.listen());
            link_.accept(p);
        }
        const auto [address, key] = link_.memory();
        peer.send(remote_memory{address, key});
        const auto theirs = peer.receive<remote_memory>(limit);
        link_.set_peer_memory(theirs.address, theirs.key);
    }
    double lead(const test &t, patience &p) override { return drive(link_, t, p); }
    void follow(const command &what, channel &leader, patience &p) override
    {
        answer(link_, what, leader, p);
    }

private:
    fi_link link_;
};

class udp_stack : public stack {
public:
    explicit udp_stack(const options &o) : link_(o.node, big) {}

    void join(channel &peer, bool, patience &) override
    {
        peer.send(link_.address());
        link_.meet(peer.receive<sockaddr_storage>(limit));
    }
    bool can(const test &t) const override { return t.what == pattern::ping_pong; }
    double lead(const test &t, patience &p) override
    {
        return ping_many(link_, t.size, t.count, p).count();
    }
    void follow(const command &what, channel &leader, patience &p) override
    {
        leader.send('r');
        pong_many(link_, what.size, what.count, p);
    }

private:
    udp_link link_;
};

std::string provider_of(const std::string &other)
{
    return other == "rxd" ? "udp;ofi_rxd" : other;
}

std::string title_of(const std::string &other)
{
    return other == "udp-socket" ? "UDP sockets" : "libfabric " + provider_of(other);
}

/// The first is through DAT, then come the others in their order: command::stack counts so.
using stacks = std::vector<std::unique_ptr<stack>>;

stacks open_stacks(const options &o)
{
    stacks all;
    all.push_back(std::make_unique<dat_stack>(o));
    for (const std::string &other : o.others)
        if (other == "udp-socket")
            all.push_back(std::make_unique<udp_stack>(o));
        else
            all.push_back(std::make_unique<fi_stack>(provider_of(other), o));
    return all;
}

void follow(channel &leader, const options &o, line_probe &probe)
{
    patience p(leader, limit);
    const stacks all = open_stacks(o);
    for (const auto &each : all)
        each->join(leader, false, p);
    if (const auto cpus = two_cpus(); o.pin && cpus)
        pin_to(cpus->second);
    for (;;) {
        const auto what = leader.receive<command>(seconds(60));
        if (what.what == pattern::finish)
            return;
        if (what.what == pattern::line_probe) {
            leader.send('r');
            probe.follow();
        } else {
            all.at(what.stack)->follow(what, leader, p);
        }
    }
}

/// Neighbouring batches of all stacks that can; seconds, 0 for those that cannot.
struct sample {
    double line_ns;
    std::vector<double> time_s;
};

class leader {
public:
    explicit leader(const options &o)
        : warmup_(o.warmup),
          started_(forked_peer::start([&](channel &other) { follow(other, o, probe_); })),
          p_(started_.second, limit), stacks_(open_stacks(o))
    {
        for (const auto &each : stacks_)
            each->join(peer(), true, p_);
        if (const auto cpus = two_cpus(); o.pin && cpus)
            pin_to(cpus->first);
    }

    std::vector<sample> run(const test &t)
    {
        std::vector<sample> samples;
        for (std::uint32_t i = 0; i < t.batches + 2; ++i) {
            sample taken{line(), std::vector<double>(stacks_.size())};
            for (std::size_t n = 0; n < stacks_.size(); ++n) { // they take turns in going first
                const std::size_t at = (i + n) % stacks_.size();
                if (stacks_[at]->can(t))
                    taken.time_s[at] = batch(t, at);
            }
            if (i >= 2) // the first ones warm up
                samples.push_back(taken);
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

    /// The connection rested while others were used: the first round trips do not count.
    double batch(const test &t, std::size_t at)
    {
        if (warmup_ > 0)
            timed(test{"", pattern::ping_pong, t.size, warmup_, 0, 0, ""}, at);
        return timed(t, at);
    }

    double timed(const test &t, std::size_t at)
    {
        announce(peer(), {t.what, t.size, t.count, static_cast<std::uint32_t>(at)}, limit);
        return stacks_[at]->lead(t, p_);
    }

    std::uint32_t warmup_;
    line_probe probe_;
    std::pair<forked_peer, channel> started_;
    patience p_;
    stacks stacks_;
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

json_object report(const test &t, const char *placement, const std::vector<sample> &samples,
                   const options &o, std::size_t other)
{
    std::vector<double> dat, beside, ratio;
    for (const sample &s : samples) {
        dat.push_back(in_unit(t, s.time_s[0]));
        beside.push_back(in_unit(t, s.time_s[other]));
        ratio.push_back(s.time_s[0] / s.time_s[other]);
    }
    const std::string title = title_of(o.others[other - 1]);
    std::printf("%-11s %8u B  %-5s %8.3f  %8.3f %-5s  %6.3f  (%.3f .. %.3f, %zu pairs)  %s\n",
                t.name, t.size, placement, median(dat), median(beside), t.unit, median(ratio),
                quantile(ratio, 0.25), quantile(ratio, 0.75), samples.size(), title.c_str());
    json_object result;
    return result.set("test", t.name)
        .set("size", t.size)
        .set("beside", title)
        .set("placement", placement)
        .set("unit", t.unit)
        .set("dat", median(dat))
        .set("other", median(beside))
        .set("time_ratio", median(ratio))
        .set("ratio_quartile_1", quantile(ratio, 0.25))
        .set("ratio_quartile_3", quantile(ratio, 0.75))
        .set("pairs", static_cast<double>(samples.size()));
}

double median_ratio(const std::vector<sample> &samples, std::size_t other)
{
    std::vector<double> ratios;
    for (const sample &s : samples)
        ratios.push_back(s.time_s[0] / s.time_s[other]);
    return median(ratios);
}

int run(const options &o)
{
    leader l(o);
    std::vector<json_object> results;
    double worst = 0;
    std::printf("%s (DAT) beside others at %s, interleaved, medians\n", o.adapter.c_str(),
                o.node.c_str());
    std::printf("%-11s %10s  %-5s %8s  %8s %-5s  %6s\n", "test", "size", "CPUs", "DAT", "other", "",
                "time ratio");
    for (const test &t : chosen_tests(o)) {
        const auto all = l.run(t);
        std::map<std::string, std::vector<sample>> by_placement;
        for (const sample &s : all)
            by_placement[s.line_ns > 0 ? distance(s.line_ns) : "?"].push_back(s);
        if (by_placement.size() > 1)
            by_placement["all"] = all;
        for (std::size_t other = 1; other <= o.others.size(); ++other) {
            if (all.front().time_s[other] == 0)
                continue;
            for (const auto &[placement, samples] : by_placement)
                results.push_back(report(t, placement.c_str(), samples, o, other));
            worst = std::max(worst, median_ratio(all, other));
        }
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
    command_line line(
        "overhead", "What the DAPL layer costs on top of libfabric, or how an adapter does beside "
                    "others: all in one run, batch by batch");
    line.positional("adapter", o.adapter, "adapter name in dat.conf");
    line.choices("--tests", o.tests, {"latency", "rate", "bandwidth"},
                 "some of latency, rate, bandwidth");
    line.size("--size", o.size, big, "size of a message of latency and rate");
    line.number("--batches", o.batches, 1u, 100'000u, "batches of each");
    line.number("--iterations", o.iterations, 1u, 1'000'000u, "round trips per batch");
    line.number("--warmup", o.warmup, 0u, 1'000'000u,
                "round trips before each batch that do not count");
    line.choices("--beside", o.others, {"tcp", "net", "sockets", "rxd", "udp-socket"},
                 "the others: providers of libfabric (rxd is udp;ofi_rxd), or UDP sockets without "
                 "anything, which have a latency only");
    line.text("--node", "ADDRESS", o.node, "address of the others");
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
