// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// context-switches: how many voluntary context switches one wake-up of a blocked dat_evd_wait
// costs, in the waiting thread and in its whole process, and how long it takes; and the same of
// dat_cno_wait, and of a dat_evd_wait for several completions that come one by one. Adapters are
// measured in turn in one run: a port whose driver can wait (feature cq_wait) needs one switch, the
// same port without it needs a second one, in the thread that forwards the wake-up.
#include "dat_link.hpp"
#include "program/command_line.hpp"
#include "program/json.hpp"
#include "statistics.hpp"
#include "traffic.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sys/resource.h>

namespace {

using namespace bench;

constexpr seconds limit{20};

/// Long enough for the other side to give up spinning and fall asleep.
constexpr seconds pause_before_answer{0.003};

constexpr std::uint32_t several = 16;

/// How a consumer waits.
struct way {
    const char *name;
    dat_link::evds layout;
    const char *title;
    std::uint32_t threshold = 1;
};
constexpr way ways[] = {
    {"one", dat_link::evds::one, "one EVD"},
    {"two", dat_link::evds::separate, "two EVDs"},
    {"cno", dat_link::evds::notifying, "CNO"},
    {"threshold", dat_link::evds::separate, "threshold 16", several},
};

struct options {
    std::vector<std::string> adapters = {"ofi-lo", "ofi-lo-plain"};
    std::vector<std::string> ways = {"one", "two"};
    std::string json;
    std::uint32_t rounds = 5, wakeups = 200;
    double max_switches = 0;
};

struct invitation {
    sockaddr_storage address;
    DAT_CONN_QUAL qualifier;
};

long switches(int who)
{
    rusage usage{};
    getrusage(who, &usage);
    return usage.ru_nvcsw;
}

double now_s()
{
    return seconds(clock::now().time_since_epoch()).count();
}

// ------------------------------------------------------------------- the side that wakes the other

/// Lets the other side fall asleep, sends the time.
void send_time(dat_link &link)
{
    const double until = now_s() + pause_before_answer.count();
    double now;
    while ((now = now_s()) < until)
        link.poll_request(); // a consumer that polls keeps its transport going
    std::memcpy(link.send_buffer(), &now, sizeof now);
    link.post_send(sizeof now);
}

/// Takes a message and answers it with as many as are asked for.
void wake_other(dat_link &link, std::uint32_t answers, patience &p)
{
    await_receive(link, p);
    for (std::uint32_t i = 0; i < answers; ++i)
        send_time(link);
}

void follow(channel &leader, const std::string &adapter_name)
{
    dat_adapter adapter(adapter_name);
    dat_link link(adapter, 4096);
    dat_listener listener(adapter, 0);
    patience p(leader, limit);
    leader.send(invitation{adapter.address(), listener.qualifier()});
    link.accept(listener.next_request(p), p);
    for (;;) {
        const auto what = leader.receive<command>(seconds(120));
        leader.send('r');
        if (what.what == pattern::finish)
            return;
        for (std::uint32_t i = 0; i < what.count; ++i)
            wake_other(link, what.size, p);
    }
}

// ----------------------------------------------------------------------------- the side that waits

struct sums {
    std::vector<double> of_thread, of_process, latency_us; ///< one per round
};

/// One adapter, with the process that wakes us through it.
class sleeper {
public:
    sleeper(const std::string &name, const way &how, std::pair<forked_peer, channel> &&peer)
        : name_(name), how_(how), peer_(std::move(peer)), p_(peer_.second, limit), adapter_(name),
          link_(adapter_, 4096, how.layout)
    {
        const auto to = peer_.second.receive<invitation>(limit);
        link_.connect(to.address, to.qualifier, p_);
    }

    /// So many messages.
    void round(std::uint32_t messages, bool recorded)
    {
        const std::uint32_t wakeups = (messages + how_.threshold - 1) / how_.threshold;
        announce(peer_.second, {pattern::blocking, how_.threshold, wakeups, 0}, limit);
        std::vector<double> latency_us;
        const long thread_before = switches(RUSAGE_THREAD);
        const long process_before = switches(RUSAGE_SELF);
        for (std::uint32_t i = 0; i < wakeups; ++i)
            latency_us.push_back(wait_once() * 1e6);
        if (!recorded)
            return;
        sums_.of_process.push_back(double(switches(RUSAGE_SELF) - process_before) / wakeups);
        sums_.of_thread.push_back(double(switches(RUSAGE_THREAD) - thread_before) / wakeups);
        sums_.latency_us.push_back(median(latency_us));
    }

    void finish()
    {
        announce(peer_.second, {pattern::finish, 0, 0, 0}, limit);
        peer_.first.ended_well(limit);
    }

    const std::string &name() const { return name_; }
    const way &how() const { return how_; }
    const sums &result() const { return sums_; }

private:
    /// Seconds from the moment the other side answered until dat_evd_wait returned.
    double wait_once()
    {
        link_.post_send(8);
        await_request(link_, p_); // long before the answer: it is next, also in one EVD for both
        if (how_.threshold > 1)
            link_.wait_receives(static_cast<DAT_COUNT>(how_.threshold), p_);
        else
            link_.wait_receive(p_);
        const double woken = now_s();
        double sent;
        std::memcpy(&sent, const_cast<const std::byte *>(link_.receive_buffer()), sizeof sent);
        for (std::uint32_t i = 0; i < how_.threshold; ++i)
            link_.post_receive();
        return woken - sent;
    }

    std::string name_;
    way how_;
    std::pair<forked_peer, channel> peer_;
    patience p_;
    dat_adapter adapter_;
    dat_link link_;
    sums sums_;
};

int run(const options &o)
{
    std::vector<std::unique_ptr<sleeper>> sleepers;
    struct setting {
        std::string adapter;
        way how;
        std::pair<forked_peer, channel> peer;
    };
    std::vector<setting> settings; // all forks come before any adapter is open here
    for (const std::string &name : o.adapters)
        for (const way &how : ways)
            if (std::ranges::find(o.ways, how.name) != o.ways.end())
                settings.push_back({name, how, forked_peer::start([&](channel &leader) {
                                        follow(leader, name);
                                    })});
    for (setting &s : settings)
        sleepers.push_back(std::make_unique<sleeper>(s.adapter, s.how, std::move(s.peer)));
    for (auto &s : sleepers)
        s->round(20, false); // warms up
    for (std::uint32_t i = 0; i < o.rounds; ++i)
        for (auto &s : sleepers)
            s->round(o.wakeups, true);

    std::printf("voluntary context switches per wait (medians of %u rounds)\n", o.rounds);
    std::printf("%-36s %12s %14s %14s %14s\n", "adapter", "wait", "waiting thread", "whole process",
                "wake-up");
    program::json results = program::json::array();
    for (auto &s : sleepers) {
        const sums &r = s->result();
        std::printf("%-36s %12s %14.2f %14.2f %11.1f us\n", s->name().c_str(), s->how().title,
                    median(r.of_thread), median(r.of_process), median(r.latency_us));
        results.push_back({{"adapter", s->name()},
                           {"way", s->how().name},
                           {"thread_switches", median(r.of_thread)},
                           {"process_switches", median(r.of_process)},
                           {"wakeup_us", median(r.latency_us)}});
        s->finish();
    }
    if (!o.json.empty())
        program::write_json(o.json, {{"wakeups", o.wakeups}, {"results", results}});
    const double first = median(sleepers.front()->result().of_process);
    if (o.max_switches > 0 && first > o.max_switches) {
        std::printf("%s needs %.2f switches, the limit is %.2f\n", o.adapters.front().c_str(),
                    first, o.max_switches);
        return 1;
    }
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    options o;
    program::command_line line(
        "context-switches",
        "Context switches per wait of a thread in dat_evd_wait or dat_cno_wait");
    line.positionals("adapters", o.adapters, "adapter names in dat.conf");
    line.choices("--ways", o.ways, {"one", "two", "cno", "threshold"},
                 "how to wait: one EVD for both directions, two EVDs, cno, threshold of 16");
    line.number("--rounds", o.rounds, 1u, 10'000u, "rounds per adapter, interleaved");
    line.number("--wakeups", o.wakeups, 1u, 100'000u, "messages per round, each of which may wake");
    line.number("--limit", o.max_switches, 0.0, 1e6,
                "exit with 1 if the first adapter's process needs more switches than this");
    line.text("--json", "FILE", o.json,
              "write the results as JSON to this file (- is standard output)");
    if (const auto status = line.parse(argc, argv))
        return *status;
    try {
        return run(o);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "context-switches: %s\n", e.what());
        return 1;
    }
}
