// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/peer.hpp"

#include "program/system.hpp"

#include <cstdio>
#include <cstring>

namespace conformance {

// ----------------------------------------------------------------------------------------- link

namespace {

constexpr unsigned peer_seconds = 300;

int limit()
{
    return static_cast<int>(patience.count());
}

} // namespace

void peer_link::send_bytes(const void *bytes, std::size_t size)
{
    const auto *from = static_cast<const char *>(bytes);
    while (size != 0) {
        const std::ptrdiff_t done = socket_.send(from, size);
        if (done < 0)
            give_up_other();
        if (done == 0 && !socket_.becomes(program::socket::wanted::writable, limit()))
            GIVE_UP("the peer process takes no word");
        from += done;
        size -= static_cast<std::size_t>(done);
    }
}

void peer_link::receive_bytes(void *bytes, std::size_t size)
{
    auto *to = static_cast<char *>(bytes);
    while (size != 0) {
        if (!socket_.becomes(program::socket::wanted::readable, limit()))
            GIVE_UP("the peer process is silent");
        const std::ptrdiff_t done = socket_.receive(to, size);
        if (done < 0)
            give_up_other();
        to += done;
        size -= static_cast<std::size_t>(done);
    }
}

void peer_link::give_up_other()
{
    decline_with_peer(other_ != nullptr ? other_->await(patience) : -1);
    GIVE_UP("the peer process is gone");
}

offer offer_of(const adapter &ia, DAT_CONN_QUAL qualifier, const region *memory)
{
    offer made{};
    std::memcpy(&made.address, ia.address(),
                ia.address()->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    made.qualifier = qualifier;
    if (memory != nullptr)
        made.memory = memory->remote(0, memory->bytes.size());
    return made;
}

// ---------------------------------------------------------------------------------------- roles

int run_role(const std::string &name, program::socket::number end)
{
    this_is_a_peer();
    begin_role();
    program::set_alarm(peer_seconds);
    peer_link link{program::socket::inherited(end)};
    if (const role *const known = role::find(name))
        return known->work(link);
    std::fprintf(stderr, "unknown role %s\n", name.c_str());
    return 2;
}

// -------------------------------------------------------------------------------------- process

namespace {

std::vector<std::string> arguments_of(const char *role_name, const program::socket &end)
{
    const settings &mine = the_settings();
    std::vector<std::string> all{program::own_name(),
                                 "--peer",
                                 role_name,
                                 "--fd",
                                 std::to_string(end.get()),
                                 "--ia",
                                 mine.ia,
                                 "--patience",
                                 std::to_string(static_cast<double>(patience.count()) / 1000)};
    if (mine.thread_safe)
        all.emplace_back("--threadsafe");
    return all;
}

} // namespace

peer_process::peer_process(const char *role_name)
{
    auto [own, others] = program::socket::pair();
    if (!own.is_open() || !others.is_open())
        GIVE_UP("no socket pair");
    std::vector<std::string> arguments = arguments_of(role_name, others);
    const bool started = process_.start(std::move(arguments), std::move(others));
    link = std::make_unique<peer_link>(std::move(own), &process_);
    if (!started)
        GIVE_UP("no second process");
}

peer_process::~peer_process()
{
    link.reset(); // a peer that waits for a word sees the end
    go_on();
    if (process_.is_started() && process_.await(milliseconds(3000)) == -1)
        kill_hard();
}

void peer_process::kill_hard()
{
    process_.kill();
}

void peer_process::stop()
{
    if (!process_.stop())
        GIVE_UP("the peer process does not stop");
}

void peer_process::go_on()
{
    process_.go_on();
}

int peer_process::await_exit()
{
    const int status = process_.await(patience);
    decline_with_peer(status);
    return status;
}

} // namespace conformance
