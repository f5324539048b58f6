// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// overhead: the cost of the DAPL layer on top of its transport, or one adapter compared with
// others. Two processes have a connection through DAT and a connection through each of the others,
// and alternate between them in short batches, so that disturbances of the machine affect all of
// them. The result is the median of the ratios of adjacent batches.
#include "cma_link.hpp"
#include "dat_link.hpp"
#include "fi_link.hpp"
#include "forked_peer.hpp"
#include "link_memory.hpp"
#include "placement.hpp"
#include "program/command_line.hpp"
#include "program/json.hpp"
#include "program/libdat2.hpp"
#include "statistics.hpp"
#include "traffic.hpp"
#include "udp_link.hpp"
#ifdef BENCH_VERBS
#include "verbs_link.hpp"
#endif
#ifdef BENCH_UCX
#include "ucx_link.hpp"
#endif

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string_view>

namespace {

using namespace bench;

constexpr seconds limit{20};
constexpr std::uint32_t big = 1 << 20;

/// The names of stacks that are no adapters.
constexpr std::string_view other_kinds[] = {
    "tcp",   "net", "sockets", "rxd", "rxm", "shm", "udp-socket", "cma",
#ifdef BENCH_VERBS
    "verbs",
#endif
#ifdef BENCH_UCX
    "ucx",
#endif
};

bool is_other_kind(std::string_view name)
{
    return std::ranges::find(other_kinds, name) != std::end(other_kinds);
}

struct options {
    std::vector<std::string> adapters; ///< the first is compared with all others
    std::string node = "127.0.0.1", json, api = "2.0";
    std::vector<std::string> tests = {"latency"}, others;
    std::uint32_t size = 64, batches = 100, iterations = 500, warmup = 50, pairs = 1;
    double max_ratio = 0;
    bool pin = true;

    bool wants(const char *test) const
    {
        return std::find(tests.begin(), tests.end(), test) != tests.end();
    }
    void settle()
    {
        if (adapters.empty())
            adapters = {"ofi-lo"};
        for (const std::string &each : others)
            if (!is_other_kind(each))
                adapters.push_back(each);
        std::erase_if(others, [](const std::string &each) { return !is_other_kind(each); });
        if (others.empty() && adapters.size() == 1)
            others = {"tcp"};
    }
};

/// One measured operation.
struct test {
    const char *name;
    pattern what;
    std::uint32_t size, count, batches;
    double scale; ///< factor from seconds per batch to the unit; negative: per second
    const char *unit;
};

/// One connection of this process; the other process has its other end.
class stack {
public:
    virtual ~stack() {}
    virtual void join(channel &peer, bool leads, patience &p) = 0;
    virtual bool can(pattern what) const = 0;
    virtual double lead(const test &t, patience &p) = 0;
    virtual void follow(const command &what, channel &leader, patience &p) = 0;
};

bool sleeps(pattern what)
{
    return what == pattern::blocking || what == pattern::notified;
}

/// Whether the pattern polls memory without calling the transport.
bool spins(pattern what)
{
    return what == pattern::write_spin || what == pattern::write_pong;
}

bool polls(pattern what)
{
    return !sleeps(what) && !spins(what) && what != pattern::connections;
}

template <class Link>
double drive(Link &link, const test &t, patience &p)
{
    switch (t.what) {
    case pattern::message_stream:
        return send_many(link, t.size, t.count, p).count();
    case pattern::write_stream:
        return write_many(link, t.size, t.count, 16, p).count();
    case pattern::read_stream:
        if constexpr (requires { link.post_read(1u); })
            return read_many(link, t.size, t.count, 16, p).count();
        return 0;
    case pattern::blocking:
    case pattern::notified:
        if constexpr (requires { link.wait_receive(p); })
            return ping_many_blocking(link, t.size, t.count, p).count();
        return 0;
    case pattern::write_spin:
        if constexpr (suppresses<Link>) {
            clear_mark(link, t.size);
            return spin_ping_many(link, t.size, t.count, p).count();
        }
        return 0;
    case pattern::write_pong:
        if constexpr (suppresses<Link>) {
            clear_mark(link, t.size);
            return write_ping_many(link, t.size, t.count, p).count();
        }
        return 0;
    default:
        return ping_many(link, t.size, t.count, p).count();
    }
}

/// So many round trips, or as many as move 32 MiB.
std::uint32_t few_of(std::uint32_t wanted, std::uint32_t size)
{
    return std::min(wanted, 32 * big / std::max(size, 1u));
}

class dat_stack : public stack {
public:
    dat_stack(const std::string &adapter, const options &o)
        : adapter_(adapter), link_(adapter_, big)
    {
        if (o.wants("cno"))
            notified_.emplace(adapter_, big, dat_link::evds::notifying);
    }

    void join(channel &peer, bool leads, patience &p) override
    {
        if (leads) {
            listener_at_ = peer.receive<place>(limit);
        } else {
            listener_.emplace(adapter_, 0);
            peer.send(place{adapter_.address(), listener_->qualifier()});
        }
        join(link_, peer, leads, p);
        if (notified_)
            join(*notified_, peer, leads, p);
    }
    bool can(pattern) const override { return true; }
    double lead(const test &t, patience &p) override
    {
        if (t.what != pattern::connections)
            return drive(link_for(t.what), t, p);
        const auto once = [&] {
            dat_endpoint end(adapter_);
            end.connect(listener_at_.address, listener_at_.qualifier, p);
            end.disconnect(p);
        };
        return time_of(t.count, once).count();
    }
    void follow(const command &what, channel &leader, patience &p) override
    {
        answer(link_for(what.what), what, leader, p);
        for (std::uint32_t i = 0; what.what == pattern::connections && i < what.count; ++i) {
            dat_endpoint end(adapter_);
            end.serve(listener_->next_request(p), p);
        }
    }

private:
    struct place {
        sockaddr_storage address;
        DAT_CONN_QUAL qualifier;
    };

    void join(dat_link &link, channel &peer, bool leads, patience &p)
    {
        if (leads)
            link.connect(listener_at_.address, listener_at_.qualifier, p);
        else
            link.accept(listener_->next_request(p), p);
        peer.send(link.memory());
        link.set_peer_memory(peer.receive<remote_memory>(limit));
    }
    dat_link &link_for(pattern what) { return what == pattern::notified ? *notified_ : link_; }

    dat_adapter adapter_;
    std::optional<dat_listener> listener_;
    place listener_at_{};
    dat_link link_;
    std::optional<dat_link> notified_;
};

/// A stack with one link, which is made of `arguments`.
template <class Link>
class link_stack : public stack {
public:
    template <class... Arguments>
    explicit link_stack(Arguments &&...arguments) : link_(std::forward<Arguments>(arguments)...)
    {}

    double lead(const test &t, patience &p) override { return drive(link_, t, p); }
    void follow(const command &what, channel &leader, patience &p) override
    {
        answer(link_, what, leader, p);
    }

protected:
    void exchange_memory(channel &peer)
    {
        const auto [address, key] = link_.memory();
        peer.send(remote_memory{address, key});
        const auto theirs = peer.receive<remote_memory>(limit);
        link_.set_peer_memory(theirs.address, theirs.key);
    }

    Link link_;
};

class fi_stack : public link_stack<fi_link> {
public:
    fi_stack(const std::string &provider, const options &o) : link_stack(provider, o.node, big) {}

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
        exchange_memory(peer);
    }
    bool can(pattern what) const override { return polls(what); }
};

class udp_stack : public stack {
public:
    explicit udp_stack(const options &o) : link_(o.node, big) {}

    void join(channel &peer, bool, patience &) override
    {
        peer.send(link_.address());
        link_.meet(peer.receive<sockaddr_storage>(limit));
    }
    bool can(pattern what) const override { return what == pattern::ping_pong; }
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

class cma_stack : public link_stack<cma_link> {
public:
    cma_stack() : link_stack(big) {}

    void join(channel &peer, bool, patience &) override
    {
        peer.send(link_.own());
        link_.meet(peer.receive<cma_link::place>(limit));
    }
    bool can(pattern what) const override { return polls(what) || spins(what); }
};

#ifdef BENCH_UCX
class ucx_stack : public link_stack<ucx_link> {
public:
    ucx_stack() : link_stack(big) {}

    void join(channel &peer, bool, patience &) override
    {
        peer.send(link_.own());
        link_.meet(peer.receive<ucx_link::place>(limit));
    }
    bool can(pattern what) const override
    {
        return what == pattern::ping_pong || what == pattern::message_stream;
    }
};
#endif

#ifdef BENCH_VERBS
/// Comes before the link, which needs it.
struct verbs_base {
    verbs_manager manager_;
};

class verbs_stack : private verbs_base, public link_stack<verbs_link> {
public:
    explicit verbs_stack(const options &o)
        : link_stack<verbs_link>(manager_, big), node_(any_port_of(o.node))
    {}

    void join(channel &peer, bool leads, patience &p) override
    {
        if (leads) {
            listener_at_ = peer.receive<sockaddr_storage>(limit);
            link_.connect(listener_at_, p);
        } else {
            manager_.listen(node_);
            peer.send(manager_.listens_on());
            link_.accept(p);
        }
        exchange_memory(peer);
    }
    bool can(pattern what) const override { return !spins(what); }
    double lead(const test &t, patience &p) override
    {
        if (t.what != pattern::connections)
            return link_stack::lead(t, p);
        const auto once = [&] {
            verbs_endpoint end(manager_);
            end.resolve(listener_at_, p);
            end.make_queue_pair(2, 2, 0);
            end.connect(p);
            end.disconnect(p);
        };
        return time_of(t.count, once).count();
    }
    void follow(const command &what, channel &leader, patience &p) override
    {
        link_stack::follow(what, leader, p);
        for (std::uint32_t i = 0; what.what == pattern::connections && i < what.count; ++i) {
            verbs_endpoint end(manager_);
            end.take(p);
            end.make_queue_pair(2, 2, 0);
            end.serve(p);
        }
    }

private:
    sockaddr_storage node_, listener_at_{};
};
#endif

std::string provider_of(const std::string &other)
{
    if (other == "rxm")
        return "tcp;ofi_rxm";
    return other == "rxd" ? "udp;ofi_rxd" : other;
}

std::string title_of(const std::string &other)
{
    if (other == "udp-socket")
        return "UDP sockets";
    if (other == "cma")
        return "process_vm_writev";
    if (other == "verbs")
        return "verbs alone";
    if (other == "ucx")
        return "UCX";
    return "libfabric " + provider_of(other);
}

std::unique_ptr<stack> open_other(const std::string &other, const options &o)
{
    if (other == "udp-socket")
        return std::make_unique<udp_stack>(o);
    if (other == "cma")
        return std::make_unique<cma_stack>();
#ifdef BENCH_VERBS
    if (other == "verbs")
        return std::make_unique<verbs_stack>(o);
#endif
#ifdef BENCH_UCX
    if (other == "ucx")
        return std::make_unique<ucx_stack>();
#endif
    return std::make_unique<fi_stack>(provider_of(other), o);
}

/// First the adapters in their order, then the others in theirs: command::stack counts so.
using stacks = std::vector<std::unique_ptr<stack>>;

stacks open_stacks(const options &o)
{
    stacks all;
    for (const std::string &adapter : o.adapters)
        all.push_back(std::make_unique<dat_stack>(adapter, o));
    for (const std::string &other : o.others)
        all.push_back(open_other(other, o));
    return all;
}

std::vector<std::string> titles(const options &o)
{
    std::vector<std::string> all = o.adapters;
    for (const std::string &other : o.others)
        all.push_back(title_of(other));
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

/// Neighbouring batches of all stacks that can; seconds, 0 for stacks that cannot.
struct sample {
    double line_ns;
    std::vector<double> time_s;
};

/// One pair of processes that measures; this one leads.
class pair_leader {
public:
    explicit pair_leader(const options &o)
        : warmup_(o.warmup),
          started_(forked_peer::start([&](channel &other) { follow(other, o, probe_); })),
          p_(started_.second, limit), stacks_(open_stacks(o))
    {
        for (const auto &each : stacks_)
            each->join(peer(), true, p_);
        if (const auto cpus = two_cpus(); o.pin && cpus)
            pin_to(cpus->first);
    }

    std::size_t count() const { return stacks_.size(); }
    bool can(const test &t, std::size_t at) const { return stacks_[at]->can(t.what); }

    double line()
    {
        announce(peer(), {pattern::line_probe, 0, 0, 0}, limit);
        return probe_.lead();
    }

    /// The connection rested while others were used: the first round trips do not count.
    double batch(const test &t, std::size_t at)
    {
        if (warmup_ > 0 && (sleeps(t.what) || spins(t.what)))
            timed(test{"", t.what, t.size, std::min(warmup_, t.count), 0, 0, ""}, at);
        else if (warmup_ > 0 && t.what != pattern::connections)
            timed(test{"", pattern::ping_pong, t.size, few_of(warmup_, t.size), 0, 0, ""}, at);
        return timed(t, at);
    }

    void finish()
    {
        peer().send(command{pattern::finish, 0, 0, 0});
        started_.first.ended_well(limit);
    }

private:
    channel &peer() { return started_.second; }

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

/// The first pair's order to the others: do this test at this time or, without a count, end.
struct order {
    test what;
    std::size_t stack;
};

void accompany(channel &first, const options &o)
{
    pair_leader l(o);
    first.send('r');
    for (;;) {
        const auto next = first.receive<order>(seconds(600));
        if (next.what.count == 0)
            return l.finish();
        first.send(l.batch(next.what, next.stack));
    }
}

/// All pairs, and their measurements. The others are processes of their own, forked before this one
/// opens anything.
class leader {
public:
    explicit leader(const options &o) : others_(start_others(o)), first_(o)
    {
        for (auto &[process, link] : others_)
            (void)link.receive<char>(limit);
    }

    std::vector<sample> run(const test &t)
    {
        std::vector<sample> samples;
        for (std::uint32_t i = 0; i < t.batches + 2; ++i) {
            sample taken{first_.line(), std::vector<double>(first_.count())};
            for (std::size_t n = 0; n < first_.count(); ++n) { // they take turns in going first
                const std::size_t at = (i + n) % first_.count();
                if (first_.can(t, at))
                    taken.time_s[at] = batch(t, at);
            }
            if (i >= 2) // leaves out the first samples, which warm up
                samples.push_back(taken);
        }
        return samples;
    }

    void finish()
    {
        for (auto &[process, link] : others_)
            link.send(order{});
        first_.finish();
        for (auto &[process, link] : others_)
            process.ended_well(limit);
    }

private:
    using others = std::vector<std::pair<forked_peer, channel>>;

    static others start_others(const options &o)
    {
        others started;
        for (std::uint32_t i = 1; i < o.pairs; ++i)
            started.push_back(forked_peer::start([&o](channel &first) { accompany(first, o); }));
        return started;
    }

    /// The mean over the pairs.
    double batch(const test &t, std::size_t at)
    {
        for (auto &[process, link] : others_)
            link.send(order{t, at});
        double sum = first_.batch(t, at);
        for (auto &[process, link] : others_)
            sum += link.receive<double>(seconds(600));
        return sum / static_cast<double>(1 + others_.size());
    }

    others others_;
    pair_leader first_;
};

std::vector<test> chosen_tests(const options &o)
{
    const std::uint32_t few = std::max(o.batches / 4, 4u);
    const std::uint32_t slow = std::max(o.iterations / 10, 1u);
    std::vector<test> tests;
    for (const std::string &name : o.tests) {
        if (name == "latency")
            tests.push_back(
                {"latency", pattern::ping_pong, o.size, o.iterations, o.batches, 1e6 / 2, "us"});
        else if (name == "write-spin")
            tests.push_back({"write-spin", pattern::write_spin, o.size, o.iterations, o.batches,
                             1e6 / 2, "us"});
        else if (name == "write-reap")
            tests.push_back({"write-reap", pattern::write_pong, o.size, o.iterations, o.batches,
                             1e6 / 2, "us"});
        else if (name == "waiting")
            tests.push_back({"waiting", pattern::blocking, o.size, slow, few, 1e6 / 2, "us"});
        else if (name == "cno")
            tests.push_back({"CNO", pattern::notified, o.size, slow, few, 1e6 / 2, "us"});
        else if (name == "connections")
            tests.push_back({"connections", pattern::connections, 0, slow, few, -1, "/s"});
        else if (name == "rate")
            tests.push_back(
                {"rate", pattern::message_stream, o.size, o.iterations * 4, few, -1e-6, "M/s"});
        else if (name == "sizes")
            for (std::uint32_t size = 256; size <= big; size *= 4)
                tests.push_back({"latency", pattern::ping_pong, size, few_of(o.iterations, size),
                                 few, 1e6 / 2, "us"});
        else
            for (const std::uint32_t size : {65536u, big})
                tests.push_back({name == "reads" ? "RDMA read" : "RDMA write",
                                 name == "reads" ? pattern::read_stream : pattern::write_stream,
                                 size, (64 * big) / size, few, -1e-9 * size, "GB/s"});
    }
    return tests;
}

double in_unit(const test &t, double batch_s)
{
    return t.scale > 0 ? batch_s / t.count * t.scale : t.count / batch_s * -t.scale;
}

program::json report(const test &t, const char *placement, const std::vector<sample> &samples,
                     const std::string &title, std::size_t other)
{
    std::vector<double> dat, beside, ratio;
    for (const sample &s : samples) {
        dat.push_back(in_unit(t, s.time_s[0]));
        beside.push_back(in_unit(t, s.time_s[other]));
        ratio.push_back(s.time_s[0] / s.time_s[other]);
    }
    std::printf("%-11s %8u B  %-5s %8.3f  %8.3f %-5s  %6.3f  (%.3f .. %.3f, %zu pairs)  %s\n",
                t.name, t.size, placement, median(dat), median(beside), t.unit, median(ratio),
                quantile(ratio, 0.25), quantile(ratio, 0.75), samples.size(), title.c_str());
    return {{"test", t.name},
            {"size", t.size},
            {"beside", title},
            {"placement", placement},
            {"unit", t.unit},
            {"dat", median(dat)},
            {"other", median(beside)},
            {"time_ratio", median(ratio)},
            {"ratio_quartile_1", quantile(ratio, 0.25)},
            {"ratio_quartile_3", quantile(ratio, 0.75)},
            {"pairs", samples.size()},
            {"ratios", ratio}};
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
    program::json results = program::json::array();
    double worst = 0;
    const std::vector<std::string> names = titles(o);
    std::printf("%s (DAT) compared with others at %s, interleaved, medians\n", names[0].c_str(),
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
        for (std::size_t other = 1; other < names.size(); ++other) {
            if (all.front().time_s[other] == 0)
                continue;
            for (const auto &[placement, samples] : by_placement)
                results.push_back(report(t, placement.c_str(), samples, names[other], other));
            worst = std::max(worst, median_ratio(all, other));
        }
    }
    l.finish();
    if (!o.json.empty())
        program::write_json(
            o.json,
            {{"adapter", names[0]}, {"origin", program::origin_json()}, {"results", results}});
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
    program::command_line line(
        "overhead", "Overhead of the DAPL layer over libfabric, or one adapter compared with "
                    "others, measured in interleaved batches");
    line.positionals("adapters", o.adapters,
                     "names in dat.conf; the first is compared with the others (default ofi-lo)");
    line.choices("--tests", o.tests,
                 {"latency", "sizes", "write-spin", "write-reap", "waiting", "cno", "rate",
                  "bandwidth", "reads", "connections"},
                 "tests to run: latency, sizes (latency from 256 B to 1 MiB), write-spin, "
                 "write-reap, waiting, cno, rate, bandwidth, reads, connections");
    line.size("--size", o.size, big, "message size of the latency and rate tests");
    line.number("--batches", o.batches, 1u, 100'000u, "batches per test and adapter");
    line.number("--iterations", o.iterations, 1u, 1'000'000u, "round trips per batch");
    line.number("--warmup", o.warmup, 0u, 1'000'000u, "warm-up round trips before each batch");
    line.number("--pairs", o.pairs, 1u, 64u, "pairs of processes that run each test concurrently");
    line.words("--beside", o.others,
               "also compare with these: further adapters; the libfabric providers tcp, net, "
               "sockets, rxd (udp;ofi_rxd), rxm (tcp;ofi_rxm), shm; verbs, ucx, udp-socket and cma "
               "(process_vm_writev) without any layer on top, ucx for latency and rate, udp-socket "
               "for latency only (default tcp, if one adapter is given)");
    line.text("--node", "ADDRESS", o.node, "local address for stacks without DAT");
    line.number("--limit", o.max_ratio, 0.0, 1e6,
                "exit with 1 if a median time ratio exceeds this");
    line.negative_flag("--no-pin", o.pin, "leave the processes where the scheduler puts them");
    line.text("--api", "VERSION", o.api,
              "2.0, or 1.2: measure adapters as a program of DAT 1.2, through libdat");
    line.text("--json", "FILE", o.json,
              "write the results as JSON to this file (- is standard output)");
    if (const auto status = line.parse(argc, argv))
        return *status;
    o.settle();
    try {
        program::use_api(o.api, argv);
        share_link_memory();
        return run(o);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "overhead: %s\n", e.what());
        return 1;
    }
}
