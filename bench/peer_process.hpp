// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The second process of a program that plays both sides. On Linux it is a copy of the first; on
// Windows it is a second start of the program.
#pragma once

#include "channel.hpp"
#include "program/named.hpp"

#include <memory>
#include <string>
#include <utility>

namespace bench {

/// What a second process does. On Windows it finds this by the name, and knows no more of the first
/// one than the argument.
struct peer_role : program::named<peer_role> {
    using function = void (*)(channel &first, const std::string &argument);

    peer_role(const char *given, function what) : named(given), work(what) {}

    const function work;
};

/// Plays the role that this process was started for, and ends the process; returns at once in a
/// first process. Programs call it before they read their options.
void become_peer();

/// It ends with this object, if not by itself.
class peer_process {
public:
    peer_process(peer_process &&) noexcept;
    ~peer_process();

    /// Starts one, with a channel between the two.
    static std::pair<peer_process, channel> start(const peer_role &what,
                                                  const std::string &argument);
    /// Starts one that has this channel to somebody else.
    static peer_process start(const peer_role &what, const std::string &argument, channel its);
    /// Returns true when it ended by itself, and well.
    bool ended_well(seconds limit);
    struct parts; ///< the system's

private:
    explicit peer_process(std::unique_ptr<parts> made);

    std::unique_ptr<parts> parts_;
};

} // namespace bench
