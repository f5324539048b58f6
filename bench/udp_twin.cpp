// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// udp-twin: how long datagrams take between two polled sockets of two processes. It is what the
// system itself does for a message of soft-udp, on Linux and on Windows.
#include "peer_process.hpp"
#include "program/command_line.hpp"
#include "program/json.hpp"
#include "statistics.hpp"
#include "traffic.hpp"
#include "udp_link.hpp"

#include <cstdio>

namespace {

using namespace bench;

constexpr seconds limit{10};

struct options {
    std::string node = "127.0.0.1", json;
    std::uint32_t size = 64, batches = 20, iterations = 2000;
    double duration = 0; ///< in seconds; 0: by the number of batches
};

void follow(channel &leader, const std::string &node)
{
    udp_link link(node, udp_link::largest);
    leader.send(link.address());
    link.meet(leader.receive<sockaddr_storage>(limit));
    patience p(leader, limit);
    for (;;) {
        const auto what = leader.receive<command>(seconds(60));
        if (what.what == pattern::finish)
            return;
        leader.send('r');
        pong_many(link, what.size, what.count, p);
    }
}
const peer_role following{"follow", follow};

double batch_us(udp_link &link, channel &peer, const options &o, patience &p)
{
    announce(peer, {pattern::ping_pong, o.size, o.iterations, 0}, limit);
    return ping_many(link, o.size, o.iterations, p).count() * 1e6 / o.iterations / 2;
}

void lead(const options &o)
{
    auto [child, peer] = peer_process::start(following, o.node);
    udp_link link(o.node, udp_link::largest);
    peer.send(link.address());
    link.meet(peer.receive<sockaddr_storage>(limit));
    patience p(peer, limit);
    std::vector<double> latency_us;
    if (o.duration != 0)
        (void)batch_us(link, peer, o, p); // warms up
    const auto end =
        clock::now() + std::chrono::duration_cast<clock::duration>(seconds(o.duration));
    do {
        latency_us.push_back(batch_us(link, peer, o, p));
    } while (o.duration != 0 ? clock::now() < end : latency_us.size() < o.batches);
    peer.send(command{pattern::finish, 0, 0, 0});
    if (!child.ended_well(limit))
        throw program::failure("the peer process exited abnormally");
    std::printf("latency    %u B  %.2f us (half a round trip, median; best %.2f)\n", o.size,
                median(latency_us), quantile(latency_us, 0));
    if (!o.json.empty())
        program::write_json(o.json, {{"origin", program::origin_json()},
                                     {"size", o.size},
                                     {"latency_us", median(latency_us)},
                                     {"mean_us", mean(latency_us)},
                                     {"best_us", quantile(latency_us, 0)}});
}

} // namespace

int main(int argc, char **argv)
{
    become_peer();
    options o;
    program::command_line line("udp-twin", "Latency of datagrams between two polled sockets");
    line.text("--node", "ADDRESS", o.node, "IPv4 address on this host");
    line.size("--size", o.size, udp_link::largest, "bytes of a datagram");
    line.number("--batches", o.batches, 1u, 100'000u, "batches of round trips");
    line.number("--iterations", o.iterations, 1u, 10'000'000u, "round trips per batch");
    line.number("--duration", o.duration, 0.0, 3600.0,
                "run batches for so many seconds, in place of a number of them");
    line.text("--json", "FILE", o.json,
              "write the results as JSON to this file (- is standard output)");
    if (const auto status = line.parse(argc, argv))
        return *status;
    try {
        lead(o);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "udp-twin: %s\n", e.what());
        return 1;
    }
}
