// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// context-switches: how many voluntary context switches one wake-up of a blocked dat_evd_wait
// costs, in the waiting thread and in its whole process, and how long it takes; it counts
// dat_cno_wait, a dat_evd_wait for several completions that come one by one, and a wait for events
// that are no completions as well. Adapters are measured in turn in one run: a port whose driver
// can wait (feature cq_wait) needs one switch; without it the port needs a second one, in the
// thread that forwards the wake-up.
#include "dat_link.hpp"
#include "forked_peer.hpp"
#include "program/command_line.hpp"
#include "program/json.hpp"
#include "statistics.hpp"
#include "traffic.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

namespace {

using namespace bench;

constexpr seconds limit{20};

/// Long enough for the other side to give up spinning and fall asleep.
constexpr seconds pause_before_answer{0.003};

/// Long enough for other threads to fall asleep again after a wait, and too short for their work
/// after its end, as a look whether another wait has begun.
constexpr useconds_t nap_us = 400;

constexpr std::uint32_t several = 16;

/// What wakes a consumer.
enum class waker { message, software, connection };

/// How a consumer waits.
struct way {
    const char *name;
    dat_link::evds layout; ///< `one`: the EVD has a CQ, whatever wakes the waiter
    const char *title;
    std::uint32_t threshold = 1;
    waker by = waker::message;
};
constexpr way ways[] = {
    {"one", dat_link::evds::one, "one EVD"},
    {"two", dat_link::evds::separate, "two EVDs"},
    {"cno", dat_link::evds::notifying, "CNO"},
    {"threshold", dat_link::evds::separate, "threshold 16", several},
    {"software", dat_link::evds::separate, "software", 1, waker::software},
    {"software-dto", dat_link::evds::one, "with DTO", 1, waker::software},
    {"software-threshold", dat_link::evds::separate, "16 of them", several, waker::software},
    {"connection", dat_link::evds::separate, "connection", 1, waker::connection},
    {"connection-dto", dat_link::evds::one, "with DTO", 1, waker::connection},
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

/// Accepts when the other side has fallen asleep, and waits until it disconnects.
void accept_other(dat_adapter &adapter, dat_listener &listener, patience &p)
{
    dat_endpoint endpoint(adapter);
    DAT_CR_HANDLE request = listener.next_request(p);
    usleep(10'000);
    endpoint.serve(request, p);
}

void follow(channel &leader, const std::string &adapter_name, const way &how)
{
    dat_adapter adapter(adapter_name);
    dat_link link(adapter, 4096);
    dat_listener listener(adapter, 0);
    patience p(leader, limit);
    leader.send(invitation{adapter.address(), listener.qualifier()});
    if (how.by == waker::message)
        link.accept(listener.next_request(p), p);
    for (;;) {
        const auto what = leader.receive<command>(seconds(120));
        leader.send('r');
        if (what.what == pattern::finish)
            return;
        for (std::uint32_t i = 0; i < what.count; ++i)
            if (how.by == waker::message)
                wake_other(link, what.size, p);
            else if (how.by == waker::connection)
                accept_other(adapter, listener, p);
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
        : p(peer.second, limit), adapter(name), name_(name), how_(how), peer_(std::move(peer))
    {
        at_ = peer_.second.receive<invitation>(limit);
    }
    virtual ~sleeper() = default;

    /// Sends a number of messages.
    void round(std::uint32_t messages, bool recorded)
    {
        const std::uint32_t wakeups = (messages + how_.threshold - 1) / how_.threshold;
        announce(peer_.second, {pattern::blocking, how_.threshold, wakeups, 0}, limit);
        std::vector<double> latency_us;
        of_thread_.clear();
        of_process_.clear();
        for (std::uint32_t i = 0; i < wakeups; ++i)
            latency_us.push_back(wait_once() * 1e6);
        if (!recorded)
            return;
        sums_.of_process.push_back(each(of_process_));
        sums_.of_thread.push_back(each(of_thread_));
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

protected:
    /// Seconds from what woke until the wait returned. Counts switches.
    virtual double wait_once() = 0;

    template <class What>
    double count(What what)
    {
        const long thread_before = switches(RUSAGE_THREAD);
        const long process_before = switches(RUSAGE_SELF);
        const double seconds = what();
        of_thread_.push_back(double(switches(RUSAGE_THREAD) - thread_before));
        of_process_.push_back(double(switches(RUSAGE_SELF) - process_before));
        return seconds;
    }
    /// Counts the switches of a wait alone, with the work of other threads of the process for it.
    template <class Wait>
    double count_wait(Wait wait)
    {
        const double seconds = count([&] {
            const double woken = wait();
            usleep(nap_us);
            return woken;
        });
        --of_thread_.back(); // the nap
        --of_process_.back();
        return seconds;
    }
    const invitation &at() const { return at_; }

    patience p;
    dat_adapter adapter;

private:
    /// The switches of a wait. Other work, as a timer of a connection that is slow, is not part of
    /// one wait in two.
    double each(const std::vector<double> &counts) const
    {
        return how_.by == waker::message ? mean(counts) : median(counts); // 0 when empty
    }

    std::string name_;
    way how_;
    std::pair<forked_peer, channel> peer_;
    invitation at_{};
    std::vector<double> of_thread_, of_process_; ///< counts of each wait of a round
    sums sums_;
};

class message_sleeper : public sleeper {
public:
    template <class... Args>
    explicit message_sleeper(Args &&...args)
        : sleeper(std::forward<Args>(args)...), link_(adapter, 4096, how().layout)
    {
        link_.connect(at().address, at().qualifier, p);
    }

private:
    double wait_once() override
    {
        return count([this] {
            link_.post_send(8);
            await_request(link_, p); // long before the answer: it is next, also in one EVD for both
            if (how().threshold > 1)
                link_.wait_receives(static_cast<DAT_COUNT>(how().threshold), p);
            else
                link_.wait_receive(p);
            const double woken = now_s();
            double sent;
            std::memcpy(&sent, const_cast<const std::byte *>(link_.receive_buffer()), sizeof sent);
            for (std::uint32_t i = 0; i < how().threshold; ++i)
                link_.post_receive();
            return woken - sent;
        });
    }

    dat_link link_;
};

/// Woken by a thread of its own process, which never sleeps.
class software_sleeper : public sleeper {
public:
    template <class... Args>
    explicit software_sleeper(Args &&...args)
        : sleeper(std::forward<Args>(args)...),
          events_(adapter, how().layout == dat_link::evds::one)
    {}

private:
    double wait_once() override
    {
        std::atomic<double> posted{0};
        std::thread poster([&] { post(posted); });
        const double seconds = count_wait([&] {
                                   events_.wait(static_cast<DAT_COUNT>(how().threshold), p);
                                   return now_s();
                               }) -
                               posted.load();
        poster.join();
        return seconds;
    }
    void post(std::atomic<double> &last)
    {
        for (std::uint32_t i = 0; i < how().threshold; ++i) {
            const double until = now_s() + pause_before_answer.count() * (i == 0 ? 2 : 1);
            while (now_s() < until) {
            }
            last = now_s();
            events_.post();
        }
        const double until = now_s() + pause_before_answer.count(); // its end comes behind the nap
        while (now_s() < until) {
        }
    }

    software_events events_;
};

class connection_sleeper : public sleeper {
public:
    using sleeper::sleeper;

private:
    double wait_once() override
    {
        dat_endpoint endpoint(adapter, how().layout == dat_link::evds::one);
        endpoint.start_connecting(at().address, at().qualifier);
        const double began = now_s();
        double established = began;
        // A first wait may wake a thread, which leaves the rest to the waiter.
        if (!endpoint.is_established_soon())
            established = count_wait([&] {
                endpoint.await_established(p);
                return now_s();
            });
        endpoint.disconnect(p);
        return established - began;
    }
};

std::unique_ptr<sleeper> make_sleeper(const std::string &name, const way &how,
                                      std::pair<forked_peer, channel> &&peer)
{
    if (how.by == waker::software)
        return std::make_unique<software_sleeper>(name, how, std::move(peer));
    if (how.by == waker::connection)
        return std::make_unique<connection_sleeper>(name, how, std::move(peer));
    return std::make_unique<message_sleeper>(name, how, std::move(peer));
}

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
                                        follow(leader, name, how);
                                    })});
    for (setting &s : settings)
        sleepers.push_back(make_sleeper(s.adapter, s.how, std::move(s.peer)));
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
        program::write_json(
            o.json,
            {{"origin", program::origin_json()}, {"wakeups", o.wakeups}, {"results", results}});
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
    std::vector<std::string> names;
    for (const way &each : ways)
        names.push_back(each.name);
    line.choices("--ways", o.ways, names,
                 "how to wait: one EVD for both directions, two EVDs, cno, threshold of 16; for a "
                 "software event, 16 of them, or a connection event, in an EVD without a CQ or "
                 "(-dto) with one");
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
