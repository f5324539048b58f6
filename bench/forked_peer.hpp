// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The second process of a program of this folder that runs on Linux only.
#pragma once

#include "channel.hpp"

#include <string>
#include <sys/types.h>
#include <utility>

namespace bench {

/// The child of a program that plays both sides. Its main function runs `body` and exits.
class forked_peer {
public:
    forked_peer(forked_peer &&other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
    ~forked_peer();

    /// Forks; in the child runs body(channel) and never returns.
    template <class Body>
    static std::pair<forked_peer, channel> start(Body body);
    /// Returns true when the child ended by itself, and well.
    bool ended_well(seconds limit);

private:
    struct halves;
    explicit forked_peer(pid_t pid) : pid_(pid) {}
    static halves split();
    static void say(const char *message);
    [[noreturn]] static void leave(int status);
    template <class Body>
    [[noreturn]] static void run_child(channel link, Body &body);

    pid_t pid_;
};

struct forked_peer::halves {
    forked_peer peer;
    channel link;
    bool is_child;
};

template <class Body>
std::pair<forked_peer, channel> forked_peer::start(Body body)
{
    auto [peer, link, is_child] = split();
    if (is_child)
        run_child(std::move(link), body);
    return {std::move(peer), std::move(link)};
}

template <class Body>
void forked_peer::run_child(channel link, Body &body)
{
    int status = 0;
    try {
        body(link);
    } catch (const peer_ended &) {
        status = 1; // the parent tells the story
    } catch (const std::exception &e) {
        say(e.what());
        status = 1;
    }
    leave(status);
}

} // namespace bench
