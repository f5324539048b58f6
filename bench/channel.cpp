// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "channel.hpp"

#include "osd_address.hpp"
#include "program/failure.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace bench {

namespace {

[[noreturn]] void fail_system(const std::string &what)
{
    throw program::failure(what + ": " + std::strerror(errno));
}

int milliseconds_until(clock::time_point end)
{
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now()).count();
    return left < 0 ? 0 : static_cast<int>(left);
}

clock::time_point end_of(seconds limit)
{
    return clock::now() + std::chrono::duration_cast<clock::duration>(limit);
}

/// Waits until `fd` is ready for `events`; false when the time is up.
bool ready(int fd, short events, clock::time_point end)
{
    for (;;) {
        pollfd p{fd, events, 0};
        const int n = poll(&p, 1, milliseconds_until(end));
        if (n > 0)
            return true;
        if (n == 0)
            return false;
        if (errno != EINTR)
            fail_system("poll");
    }
}

struct address_list {
    addrinfo *first = nullptr;
    address_list() = default;
    address_list(const address_list &) = delete;
    ~address_list()
    {
        if (first)
            freeaddrinfo(first);
    }
};

void be_prompt(int fd)
{
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/// One attempt at one address; -1 when it fails, with errno.
int call_once(const addrinfo &to, clock::time_point end)
{
    const int fd = socket(to.ai_family, to.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int error = 0;
    socklen_t size = sizeof error;
    if (connect(fd, to.ai_addr, to.ai_addrlen) == 0)
        return fd;
    if (errno == EINPROGRESS) {
        if (!ready(fd, POLLOUT, end))
            error = ETIMEDOUT;
        else
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error == 0)
            return fd;
        errno = error;
    }
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
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

channel::~channel()
{
    if (fd_ >= 0)
        close(fd_);
}

void channel::send_bytes(const void *bytes, std::size_t size, seconds limit)
{
    const auto end = end_of(limit);
    auto at = static_cast<const char *>(bytes);
    while (size > 0) {
        const ssize_t n = ::send(fd_, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            size -= static_cast<std::size_t>(n);
        } else if (errno == EAGAIN || errno == EINTR) {
            if (!ready(fd_, POLLOUT, end))
                throw program::failure("the peer has closed its connection");
        } else {
            throw peer_ended();
        }
    }
}

void channel::receive_bytes(void *bytes, std::size_t size, seconds limit)
{
    const auto end = end_of(limit);
    auto at = static_cast<char *>(bytes);
    while (size > 0) {
        if (!ready(fd_, POLLIN, end))
            throw program::failure("the peer did not respond for " +
                                   std::to_string(int(limit.count())) +
                                   " seconds; is it busy or stopped?");
        const ssize_t n = recv(fd_, at, size, MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            size -= static_cast<std::size_t>(n);
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            throw peer_ended();
        }
    }
}

bool channel::peer_is_gone() const
{
    pollfd p{fd_, POLLRDHUP, 0};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

bool channel::is_local() const
{
    sockaddr_storage theirs{}, ours{};
    socklen_t size = sizeof theirs, our_size = sizeof ours;
    if (getpeername(fd_, reinterpret_cast<sockaddr *>(&theirs), &size) != 0 ||
        getsockname(fd_, reinterpret_cast<sockaddr *>(&ours), &our_size) != 0)
        return false;
    return theirs.ss_family == AF_UNIX || osd::address::is_loopback(generic(theirs)) ||
           osd::address::is_same_host(generic(theirs), generic(ours));
}

forked_peer::halves forked_peer::split()
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        fail_system("socketpair");
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0)
        fail_system("fork");
    close(ends[pid == 0 ? 0 : 1]);
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL); // if the parent is killed, so is this process
    return {forked_peer(pid), channel(ends[pid == 0 ? 1 : 0]), pid == 0};
}

void forked_peer::say(const char *message)
{
    std::fprintf(stderr, "%s (peer process): %s\n", program_invocation_short_name, message);
}

void forked_peer::leave(int status)
{
    std::fflush(nullptr);
    _exit(status);
}

bool forked_peer::ended_well(seconds limit)
{
    const auto end = end_of(limit);
    int status = 0;
    while (pid_ > 0 && clock::now() < end) {
        const pid_t who = waitpid(pid_, &status, WNOHANG);
        if (who == pid_) {
            pid_ = 0;
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
        usleep(1000);
    }
    return false;
}

forked_peer::~forked_peer()
{
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
}

peer_listener::peer_listener(unsigned short port, const std::string &address) : socket_(-1)
{
    addrinfo hints{};
    hints.ai_flags = AI_PASSIVE;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_family = address.empty() ? AF_INET6 : AF_UNSPEC;
    const char *const host = address.empty() ? nullptr : address.c_str();
    const std::string number = std::to_string(port);
    address_list list;
    const int error = getaddrinfo(host, number.c_str(), &hints, &list.first);
    if (error != 0)
        throw program::failure(address + ": " + gai_strerror(error));
    int fd = socket(list.first->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 && address.empty()) { // a machine without IPv6
        address_list four;
        hints.ai_family = AF_INET;
        if (getaddrinfo(host, number.c_str(), &hints, &four.first) == 0) {
            std::swap(list.first, four.first);
            fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        }
    }
    if (fd < 0)
        fail_system("socket");
    socket_ = channel(fd);
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, list.first->ai_addr, list.first->ai_addrlen) != 0 || listen(fd, 64) != 0)
        fail_system("cannot listen on TCP port " + number +
                    (address.empty() ? "" : " of " + address) + " (--port chooses another)");
}

unsigned short peer_listener::port() const
{
    sockaddr_in6 name{}; // the port lies where IPv4 has it
    socklen_t size = sizeof name;
    if (getsockname(socket_.fd_, reinterpret_cast<sockaddr *>(&name), &size) != 0)
        fail_system("getsockname");
    return ntohs(name.sin6_port);
}

/// The callers that have not said enough yet.
class peer_listener::callers {
public:
    callers(std::size_t wanted, const judge &why_not) : wanted_(wanted), why_not_(why_not) {}

    /// Sleeps until somebody says something, calls, or has been silent for too long.
    void wait(const channel &listener, clock::time_point end);
    void admit(const channel &listener);
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

void peer_listener::callers::wait(const channel &listener, clock::time_point end)
{
    std::vector<pollfd> watched{{listener.fd_, POLLIN, 0}};
    for (const caller &each : all_) {
        watched.push_back({each.link.fd_, POLLIN, 0});
        end = std::min(end, each.silent_at);
    }
    if (poll(watched.data(), watched.size(), milliseconds_until(end)) < 0 && errno != EINTR)
        fail_system("poll");
}

void peer_listener::callers::admit(const channel &listener)
{
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const auto peer = reinterpret_cast<sockaddr *>(&from);
    const int fd = accept4(listener.fd_, peer, &size, SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
            return;
        fail_system("accept");
    }
    char host[NI_MAXHOST] = "an unknown address", port[NI_MAXSERV] = "?";
    (void)getnameinfo(peer, size, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV);
    be_prompt(fd);
    if (all_.size() == most) {
        name(all_.front(), "it had said nothing yet when many others called");
        all_.erase(all_.begin());
    }
    all_.push_back({channel(fd), std::string(host) + " port " + port, end_of(patience), {}});
}

/// Why it is not wanted, if so.
std::string peer_listener::callers::hear(caller &from) const
{
    std::vector<char> bytes(wanted_ - from.said.size());
    const ssize_t n = recv(from.link.fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return clock::now() < from.silent_at
                   ? ""
                   : "it said nothing that a client does for " +
                         std::to_string(int(patience.count())) + " seconds";
    if (n <= 0)
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
    if (++named_ <= most_named)
        std::fprintf(stderr, "%s: closed a connection from %s: %s\n", program_invocation_short_name,
                     who.name.c_str(), why.c_str());
    else if (named_ == most_named + 1)
        std::fprintf(stderr, "%s: closed more connections; they are not named\n",
                     program_invocation_short_name);
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
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    address_list list;
    const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list.first);
    if (error != 0)
        throw program::failure(host + ": " + gai_strerror(error));
    do {
        for (const addrinfo *to = list.first; to; to = to->ai_next) {
            const int fd = call_once(*to, end);
            if (fd >= 0) {
                be_prompt(fd);
                return channel(fd);
            }
        }
        const int why = errno;
        usleep(50'000); // the server may be starting
        errno = why;
    } while (clock::now() < end);
    throw program::failure("cannot connect to server " + host + " port " + std::to_string(port) +
                           ": " + std::strerror(errno) +
                           "\n  start it there first: dat-perf --server ADAPTER");
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
