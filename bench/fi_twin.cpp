// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// fi-twin: the performance of libfabric itself, with the calls that the libfabric port makes.
// `overhead` compares this code with DAT; this program runs it alone, for a profiler.
#include "fi_link.hpp"
#include "forked_peer.hpp"
#include "program/command_line.hpp"
#include "program/failure.hpp"
#include "program/json.hpp"
#include "statistics.hpp"
#include "traffic.hpp"

#include <cstdio>

namespace {

using namespace bench;

constexpr seconds limit{10};
constexpr std::uint32_t big = 1 << 20;

struct memory_message {
    std::uint64_t address, key;
};

void exchange_memory(fi_link &link, channel &peer)
{
    const auto [address, key] = link.memory();
    peer.send(memory_message{address, key});
    const auto theirs = peer.receive<memory_message>(limit);
    link.set_peer_memory(theirs.address, theirs.key);
}

/// Both sides learn the other's address; nothing connects them.
void meet(fi_link &link, channel &peer)
{
    peer.send(link.open());
    link.meet(peer.receive<sockaddr_storage>(limit));
}

void follow(channel &leader, const std::string &provider, const std::string &node)
{
    fi_link link(provider, node, big);
    patience p(leader, limit);
    if (link.connects()) {
        leader.send(link.listen());
        link.accept(p);
    } else {
        meet(link, leader);
    }
    exchange_memory(link, leader);
    for (;;) {
        const auto what = leader.receive<command>(seconds(60));
        if (what.what == pattern::finish)
            return;
        answer(link, what, leader, p);
    }
}

struct options {
    std::string provider = "tcp", node = "127.0.0.1", json;
    std::uint32_t size = 64, batches = 20, iterations = 2000;
};

void lead(const options &o)
{
    auto [child, peer] =
        forked_peer::start([&](channel &leader) { follow(leader, o.provider, o.node); });
    patience p(peer, limit);
    fi_link link(o.provider, o.node, big);
    if (link.connects())
        link.connect(peer.receive<sockaddr_storage>(limit), p);
    else
        meet(link, peer);
    exchange_memory(link, peer);

    std::vector<double> latency_us;
    for (std::uint32_t i = 0; i < o.batches; ++i) {
        announce(peer, {pattern::ping_pong, o.size, o.iterations, 0}, limit);
        const seconds t = ping_many(link, o.size, o.iterations, p);
        latency_us.push_back(t.count() * 1e6 / o.iterations / 2);
    }
    announce(peer, {pattern::message_stream, o.size, o.iterations * 10, 0}, limit);
    const double rate = o.iterations * 10 / send_many(link, o.size, o.iterations * 10, p).count();
    announce(peer, {pattern::write_stream, big, 500, 0}, limit);
    const double bandwidth = 500.0 * big / write_many(link, big, 500, 16, p).count();
    peer.send(command{pattern::finish, 0, 0, 0});
    child.ended_well(limit);

    std::printf("%s at %s, straight on libfabric\n", o.provider.c_str(), o.node.c_str());
    std::printf("  latency    %7u B  %8.2f us (half a round trip, median)\n", o.size,
                median(latency_us));
    std::printf("  rate       %7u B  %8.3f M messages/s\n", o.size, rate / 1e6);
    std::printf("  RDMA write %7u B  %8.2f GB/s\n", big, bandwidth / 1e9);
    if (!o.json.empty())
        program::write_json(o.json, {{"provider", o.provider},
                                     {"origin", program::origin_json()},
                                     {"size", o.size},
                                     {"latency_us", median(latency_us)},
                                     {"messages_per_s", rate},
                                     {"write_bytes_per_s", bandwidth}});
}

} // namespace

int main(int argc, char **argv)
{
    options o;
    program::command_line line(
        "fi-twin", "Performance of libfabric itself, with the calls that the libfabric port makes");
    line.text("--provider", "NAME", o.provider, "libfabric provider: tcp, tcp;ofi_rxm, shm");
    line.text("--node", "ADDRESS", o.node, "address on this host");
    line.size("--size", o.size, big, "message size");
    line.number("--batches", o.batches, 1u, 100'000u, "batches of round trips");
    line.number("--iterations", o.iterations, 1u, 10'000'000u, "round trips per batch");
    line.text("--json", "FILE", o.json,
              "write the results as JSON to this file (- is standard output)");
    if (const auto status = line.parse(argc, argv))
        return *status;
    try {
        lead(o);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "fi-twin: %s\n", e.what());
        return 1;
    }
}
