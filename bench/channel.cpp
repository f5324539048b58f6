// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "channel.hpp"

#include "osd_address.hpp"
#include "program/failure.hpp"
#include "program/system.hpp"

#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace bench {

using wanted = program::socket::wanted;

namespace {

int milliseconds_until(clock::time_point end)
{
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now()).count();
    return left < 0 ? 0 : static_cast<int>(left);
}

clock::time_point end_of(seconds limit)
{
    return clock::now() + std::chrono::duration_cast<clock::duration>(limit);
}

/// The addresses of a host's port.
class address_list {
public:
    /// An empty host is every address of this one. Returns nothing, or why there are none.
    std::string find(const std::string &host, unsigned short port, int family)
    {
        program::start_sockets();
        addrinfo hints{};
        hints.ai_flags = host.empty() ? AI_PASSIVE : 0;
        hints.ai_socktype = SOCK_STREAM;
        hints.ai_family = family;
        const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                      std::to_string(port).c_str(), &hints, &first_);
        return error == 0 ? "" : host + ": " + gai_strerror(error);
    }
    address_list() = default;
    address_list(const address_list &) = delete;
    ~address_list()
    {
        if (first_ != nullptr)
            freeaddrinfo(first_);
    }
    const addrinfo *first() const { return first_; }

private:
    addrinfo *first_ = nullptr;
};

/// One attempt at one address: connected, or not open, and why.
program::socket call_once(const addrinfo &to, clock::time_point end, std::string &why)
{
    program::socket made = program::socket::open(to.ai_family, to.ai_socktype);
    if (!made.is_open() || !made.connect(to.ai_addr, to.ai_addrlen))
        why = program::socket_error();
    else if (!made.becomes(wanted::writable, milliseconds_until(end)))
        why = "no answer";
    else if (why = made.refusal(); why.empty())
        return made;
    return {};
}

const sockaddr *generic(const sockaddr_storage &address)
{
    return reinterpret_cast<const sockaddr *>(&address);
}

} // namespace

sockaddr_storage any_port_of(const std::string &node)
{
    sockaddr_storage result{};
    auto &address = reinterpret_cast<sockaddr_in &>(result);
    address.sin_family = AF_INET;
    if (inet_pton(AF_INET, node.c_str(), &address.sin_addr) != 1)
        throw program::failure(node + " is not an IPv4 address");
    return result;
}

void channel::send_bytes(const void *bytes, std::size_t size, seconds limit)
{
    const auto end = end_of(limit);
    auto at = static_cast<const char *>(bytes);
    while (size > 0) {
        const std::ptrdiff_t n = socket_.send(at, size);
        if (n < 0)
            throw peer_ended();
        if (n == 0 && !socket_.becomes(wanted::writable, milliseconds_until(end)))
            throw program::failure("the peer has closed its connection");
        at += n;
        size -= static_cast<std::size_t>(n);
    }
}

void channel::receive_bytes(void *bytes, std::size_t size, seconds limit)
{
    const auto end = end_of(limit);
    auto at = static_cast<char *>(bytes);
    while (size > 0) {
        if (!socket_.becomes(wanted::readable, milliseconds_until(end)))
            throw program::failure("the peer did not respond for " +
                                   std::to_string(int(limit.count())) +
                                   " seconds; is it busy or stopped?");
        const std::ptrdiff_t n = socket_.receive(at, size);
        if (n < 0)
            throw peer_ended();
        at += n;
        size -= static_cast<std::size_t>(n);
    }
}

bool channel::peer_is_gone() const
{
    return socket_.is_alone();
}

bool channel::is_local() const
{
    sockaddr_storage theirs{}, ours{};
    if (!socket_.peer_name(theirs) || !socket_.own_name(ours))
        return false;
    return theirs.ss_family == AF_UNIX || osd::address::is_loopback(generic(theirs)) ||
           osd::address::is_same_host(generic(theirs), generic(ours));
}

peer_listener::peer_listener(unsigned short port, const std::string &address)
{
    address_list list, four;
    if (const std::string why = list.find(address, port, address.empty() ? AF_INET6 : AF_UNSPEC);
        !why.empty())
        throw program::failure(why);
    const addrinfo *at = list.first();
    socket_ = program::socket::open(at->ai_family, SOCK_STREAM);
    // a machine without IPv6
    if (!socket_.is_open() && address.empty() && four.find(address, port, AF_INET).empty()) {
        at = four.first();
        socket_ = program::socket::open(AF_INET, SOCK_STREAM);
    }
    if (!socket_.is_open())
        throw program::failure("socket: " + program::socket_error());
    socket_.open_port();
    if (!socket_.bind(at->ai_addr, at->ai_addrlen) || !socket_.listen(64))
        throw program::failure("cannot listen on TCP port " + std::to_string(port) +
                               (address.empty() ? "" : " of " + address) +
                               " (--port chooses another): " + program::socket_error());
}

unsigned short peer_listener::port() const
{
    sockaddr_storage name{};
    if (!socket_.own_name(name))
        throw program::failure("getsockname: " + program::socket_error());
    // the port lies where IPv4 has it
    return ntohs(reinterpret_cast<const sockaddr_in6 &>(name).sin6_port);
}

/// The callers that have not said enough yet.
class peer_listener::callers {
public:
    callers(std::size_t wanted, const judge &why_not) : wanted_(wanted), why_not_(why_not) {}

    /// Sleeps until somebody says something, calls, or has been silent for too long.
    void wait(const program::socket &listener, clock::time_point end);
    void admit(const program::socket &listener);
    /// Moves the first caller that said enough out, and its words; null when there is none.
    std::unique_ptr<channel> served(void *words);

private:
    struct caller {
        channel link;
        std::string name;
        clock::time_point silent_at;
        std::vector<char> said;
    };
    static constexpr std::size_t most = 32;
    static constexpr seconds patience{5};
    static constexpr int most_named = 20;

    std::string hear(caller &) const;
    void name(const caller &, const std::string &why);

    std::size_t wanted_;
    const judge &why_not_;
    std::vector<caller> all_;
    int named_ = 0;
};

void peer_listener::callers::wait(const program::socket &listener, clock::time_point end)
{
    std::vector<const program::socket *> watched{&listener};
    for (const caller &each : all_) {
        watched.push_back(&each.link.end());
        end = std::min(end, each.silent_at);
    }
    program::socket::wait_for_any(watched, milliseconds_until(end));
}

void peer_listener::callers::admit(const program::socket &listener)
{
    sockaddr_storage from{};
    program::socket end = listener.accept(from);
    if (!end.is_open())
        return;
    char host[NI_MAXHOST] = "an unknown address", port[NI_MAXSERV] = "?";
    (void)getnameinfo(generic(from), sizeof from, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV);
    end.be_prompt();
    if (all_.size() == most) {
        name(all_.front(), "it had said nothing yet when many others called");
        all_.erase(all_.begin());
    }
    all_.push_back(
        {channel(std::move(end)), std::string(host) + " port " + port, end_of(patience), {}});
}

/// Why it is not wanted, if so.
std::string peer_listener::callers::hear(caller &from) const
{
    std::vector<char> bytes(wanted_ - from.said.size());
    const std::ptrdiff_t n = from.link.end().receive(bytes.data(), bytes.size());
    if (n == 0)
        return clock::now() < from.silent_at
                   ? ""
                   : "it said nothing that a client does for " +
                         std::to_string(int(patience.count())) + " seconds";
    if (n < 0)
        return "it ended without a word of a client";
    from.said.insert(from.said.end(), bytes.begin(), bytes.begin() + n);
    return why_not_(from.link, from.said);
}

std::unique_ptr<channel> peer_listener::callers::served(void *words)
{
    for (std::size_t i = 0; i < all_.size();) {
        const std::string why = hear(all_[i]);
        if (why.empty() && all_[i].said.size() == wanted_) {
            std::memcpy(words, all_[i].said.data(), wanted_);
            return std::make_unique<channel>(std::move(all_[i].link));
        }
        if (why.empty()) {
            ++i;
            continue;
        }
        name(all_[i], why);
        all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return nullptr;
}

void peer_listener::callers::name(const caller &who, const std::string &why)
{
    const std::string own = program::own_name();
    if (++named_ <= most_named)
        std::fprintf(stderr, "%s: closed a connection from %s: %s\n", own.c_str(), who.name.c_str(),
                     why.c_str());
    else if (named_ == most_named + 1)
        std::fprintf(stderr, "%s: closed more connections; they are not named\n", own.c_str());
}

channel peer_listener::accept(void *words, std::size_t wanted, const judge &why_not, seconds limit)
{
    callers waiting(wanted, why_not);
    const auto end = end_of(limit);
    while (clock::now() < end) {
        waiting.wait(socket_, end);
        waiting.admit(socket_);
        if (const std::unique_ptr<channel> client = waiting.served(words))
            return std::move(*client);
    }
    throw program::failure("no client connected within " + std::to_string(int(limit.count())) +
                           " seconds");
}

channel call_peer(const std::string &host, unsigned short port, seconds limit)
{
    const auto end = end_of(limit);
    address_list list;
    std::string why = list.find(host, port, AF_UNSPEC);
    if (!why.empty())
        throw program::failure(why);
    do {
        for (const addrinfo *to = list.first(); to != nullptr; to = to->ai_next) {
            program::socket made = call_once(*to, end, why);
            if (made.is_open()) {
                made.be_prompt();
                return channel(std::move(made));
            }
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50)); // the server may be starting
    } while (clock::now() < end);
    throw program::failure("cannot connect to server " + host + " port " + std::to_string(port) +
                           ": " + why + "\n  start it there first: dat-perf --server ADAPTER");
}

void patience::check()
{
    const auto now = clock::now();
    if (empty_polls_ <= 4096)
        since_ = now;
    if (peer_ && peer_->peer_is_gone())
        throw peer_ended();
    if (now - since_ > limit_)
        throw program::failure("no data arrived for " + std::to_string(int(limit_.count())) +
                               " seconds, though the other side lives"
                               "\n  set DAPL_DBG_TYPE=0xffff to see what the provider says");
}

} // namespace bench
