// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// many-endpoints: what one more endpoint costs. For each number of connections, all of them between
// this process and one other: memory per endpoint, and the time of a message when all take turns
// and when one is busy and the others are idle. Endpoints share their event dispatchers.
#include "crowd.hpp"
#include "forked_peer.hpp"
#include "program/command_line.hpp"
#include "program/json.hpp"
#include "statistics.hpp"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <malloc.h>
#include <unistd.h>
#include <vector>

namespace {

using namespace bench;

constexpr seconds limit{60};
constexpr int window = crowd::window;

struct options {
    std::string adapter;
    std::string json;
    std::vector<std::uint32_t> counts = {1, 10, 100, 1000, 2000};
    std::uint32_t messages = 20'000, rounds = 5;
};

/// Resident bytes that this process does not share with others.
double private_bytes()
{
    std::ifstream statm("/proc/self/statm");
    double size = 0, resident = 0, shared = 0;
    statm >> size >> resident >> shared;
    return (resident - shared) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// The passive side: returns every message until the control connection says to stop.
void echo(channel &leader, const options &o)
{
    dat_adapter adapter(o.adapter);
    patience p(leader, limit);
    for (const std::uint32_t count : o.counts) {
        dat_listener listener(adapter, 0);
        crowd all(adapter, count);
        leader.send(invitation{adapter.address(), listener.qualifier()});
        for (std::size_t i = 0; i < count; ++i)
            all.accept(i, listener.next_request(p), p);
        auto left = leader.receive<std::uint64_t>(limit);
        leader.send('r');
        p.progress();
        while (left != 0) {
            while (all.take_sent()) {
            }
            if (DAT_EP_HANDLE ep = all.take_message()) {
                all.send(ep);
                --left;
                p.progress();
            } else {
                p.spin();
            }
        }
        (void)leader.receive<char>(limit); // it has all that we sent
    }
}

struct row {
    std::uint32_t count;
    double bytes, all_us, one_us;
};

/// Microseconds per message, there and back being two.
double exchange(crowd &all, std::size_t used, std::uint32_t messages, patience &p)
{
    std::uint32_t sent = 0, answered = 0;
    const auto in_flight = static_cast<std::uint32_t>(std::min<std::size_t>(used, window));
    const auto start = clock::now();
    p.progress();
    while (answered < messages) {
        while (sent < messages && sent - answered < in_flight)
            all.send(all.endpoint(sent++ % used));
        while (all.take_sent()) {
        }
        if (all.take_message() != DAT_HANDLE_NULL) {
            ++answered;
            p.progress();
        } else {
            p.spin();
        }
    }
    return seconds(clock::now() - start).count() * 1e6 / (2.0 * messages);
}

row measure(channel &peer, dat_adapter &adapter, std::uint32_t count, const options &o)
{
    patience p(peer, limit);
    const auto to = peer.receive<invitation>(limit);
    malloc_trim(0); // what the crowd before has freed is not ours
    const double before = private_bytes();
    crowd all(adapter, count);
    for (std::size_t i = 0; i < count; ++i)
        all.connect(i, to.address, to.qualifier, p);
    const std::uint32_t messages = std::max(o.messages, 2 * count);
    const std::uint32_t warm_up = 2 * count;
    peer.send(std::uint64_t{warm_up} + std::uint64_t{2 * o.rounds} * messages);
    (void)peer.receive<char>(limit);
    exchange(all, count, warm_up, p);
    const double bytes = (private_bytes() - before) / count;
    std::vector<double> turns, one;
    for (std::uint32_t i = 0; i < o.rounds; ++i) {
        turns.push_back(exchange(all, count, messages, p));
        one.push_back(exchange(all, 1, messages, p));
    }
    peer.send('d');
    return {count, bytes, median(turns), median(one)};
}

int run(const options &o)
{
    auto [child, peer] = forked_peer::start([&](channel &leader) { echo(leader, o); });
    dat_adapter adapter(o.adapter);
    std::printf("%11s %16s %22s %22s\n", "connections", "memory of each", "message, all in turn",
                "message, others idle");
    program::json rows = program::json::array();
    for (const std::uint32_t count : o.counts) {
        const row r = measure(peer, adapter, count, o);
        std::printf("%11u %12.1f KiB %19.2f us %19.2f us\n", r.count, r.bytes / 1024, r.all_us,
                    r.one_us);
        std::fflush(stdout);
        rows.push_back({{"connections", r.count},
                        {"bytes_each", r.bytes},
                        {"message_all_us", r.all_us},
                        {"message_one_us", r.one_us}});
    }
    child.ended_well(limit);
    if (!o.json.empty())
        program::write_json(
            o.json,
            {{"adapter", o.adapter}, {"origin", program::origin_json()}, {"results", rows}});
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    options o;
    program::command_line line("many-endpoints",
                               "Cost of additional endpoints, in memory and in time");
    line.positional("adapter", o.adapter, "adapter name in dat.conf",
                    program::command_line::presence::required);
    line.sizes("--connections", o.counts, 20'000, "numbers of connections to measure with");
    line.number("--messages", o.messages, 100u, 10'000'000u, "messages per measurement");
    line.number("--rounds", o.rounds, 1u, 1000u, "measurements; the median is reported");
    line.text("--json", "FILE", o.json,
              "write the results as JSON to this file (- is standard output)");
    if (const auto status = line.parse(argc, argv))
        return *status;
    try {
        return run(o);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "many-endpoints: %s\n", e.what());
        return 1;
    }
}
