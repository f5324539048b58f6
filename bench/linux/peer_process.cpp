// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "peer_process.hpp"

#include "forked_peer.hpp"

namespace bench {

struct peer_process::parts {
    forked_peer child;
};

peer_process::peer_process(std::unique_ptr<parts> made) : parts_(std::move(made)) {}
peer_process::peer_process(peer_process &&) noexcept = default;
peer_process::~peer_process() = default;

/// A copy of the first process is in its role already.
void become_peer() {}

std::pair<peer_process, channel> peer_process::start(const peer_role &what,
                                                     const std::string &argument)
{
    auto [child, link] = forked_peer::start([&](channel &first) { what.work(first, argument); });
    return {peer_process(std::make_unique<parts>(parts{std::move(child)})), std::move(link)};
}

peer_process peer_process::start(const peer_role &what, const std::string &argument, channel its)
{
    auto [child, link] = forked_peer::start([&](channel &) { what.work(its, argument); });
    return peer_process(std::make_unique<parts>(parts{std::move(child)}));
}

bool peer_process::ended_well(seconds limit)
{
    return parts_->child.ended_well(limit);
}

} // namespace bench
