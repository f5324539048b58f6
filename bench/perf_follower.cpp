// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "perf_follower.hpp"

#include "perf_links.hpp"
#include "perf_options.hpp"
#include "plot.hpp"
#include "traffic.hpp"

#include <cstring>
#include <span>

namespace bench::perf {

namespace {

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
    if (hello.max_size == 0 || hello.threads == 0 || hello.threads > most_threads ||
        !(hello.limit_s > 0 && hello.limit_s <= longest_limit_s))
        return "it is no dat-perf --client";
    if (wanted_bytes(hello) <= max_size)
        return "";
    peer.send(invitation{{}, 0, max_size});
    return "it asks for messages of " + std::to_string(hello.max_size) + " bytes" +
           over_connections(hello) + "; --max-size is " + std::to_string(max_size);
}

} // namespace

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
    dat_adapter adapter(adapter_name, hello.threads > 1);
    const links all = make_links(adapter, hello.threads, hello.max_size);
    dat_listener listener(adapter, 0);
    leader.send(invitation{adapter.address(), listener.qualifier(), wanted_bytes(hello)});
    for (const auto &link : all) {
        link->accept(listener.next_request(p), p);
        leader.send(link->memory());
        link->set_peer_memory(leader.receive<remote_memory>(seconds(hello.limit_s)));
    }
    for (;;) {
        const auto what = leader.receive<command>(seconds(leader_timeout));
        if (what.what == pattern::finish)
            return;
        if (what.size == 0 || what.size > hello.max_size)
            throw program::failure("the client requested a message size larger than it announced");
        if (what.what == pattern::connections) {
            leader.send('r');
            take_connections(adapter, listener, what.count, p);
        } else if (is_stream(what.what)) {
            leader.send('r');
            for_all(all, leader, seconds(hello.limit_s),
                    [&](dat_link &link, patience &own) { take_part(link, what, own); });
        } else {
            answer(*all.front(), what, leader, p);
        }
    }
}

} // namespace bench::perf
