// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/peer.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace conformance {

// ----------------------------------------------------------------------------------------- link

peer_link::~peer_link()
{
    ::close(fd_);
}

void peer_link::send_bytes(const void *bytes, std::size_t size)
{
    const auto *from = static_cast<const char *>(bytes);
    while (size != 0) {
        const ssize_t done = ::send(fd_, from, size, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            give_up_other();
        from += done;
        size -= static_cast<std::size_t>(done);
    }
}

void peer_link::receive_bytes(void *bytes, std::size_t size)
{
    auto *to = static_cast<char *>(bytes);
    while (size != 0) {
        pollfd ready{fd_, POLLIN, 0};
        const int found = ::poll(&ready, 1, static_cast<int>(patience.count()));
        if (found < 0 && errno == EINTR)
            continue;
        const ssize_t done = found <= 0 ? 0 : ::recv(fd_, to, size, 0);
        if (found == 0)
            GIVE_UP("the peer process is silent");
        if (done <= 0)
            give_up_other();
        to += done;
        size -= static_cast<std::size_t>(done);
    }
}

void peer_link::give_up_other()
{
    decline_with_peer(other_ > 0 ? await_child(other_) : -1);
    GIVE_UP("the peer process is gone");
}

bool peer_link::alive() const
{
    pollfd ready{fd_, POLLIN, 0};
    return ::poll(&ready, 1, 0) == 0 || (ready.revents & POLLHUP) == 0;
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

namespace {

role *&first_role()
{
    static role *first = nullptr;
    return first;
}

} // namespace

role::role(const char *name_, role_function work_) : name(name_), work(work_), next(first_role())
{
    first_role() = this;
}

int run_role(const std::string &name, int fd)
{
    this_is_a_peer();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL); // keeps it from outliving its parent
    ::alarm(300);
    peer_link link(fd);
    for (const role *known = first_role(); known != nullptr; known = known->next)
        if (name == known->name)
            return known->work(link);
    std::fprintf(stderr, "unknown role %s\n", name.c_str());
    return 2;
}

// -------------------------------------------------------------------------------------- process

peer_process::peer_process(const char *role_name)
{
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        GIVE_UP("no socket pair");
    pid_ = ::fork();
    if (pid_ == 0)
        become(role_name, fds[1]);
    ::close(fds[1]);
    link = std::make_unique<peer_link>(fds[0], pid_);
    if (pid_ < 0)
        GIVE_UP("no second process");
}

namespace {

void move_to(const std::string &network)
{
    const int fd = ::open(network.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ::setns(fd, CLONE_NEWNET) != 0) {
        std::fprintf(stderr, "cannot enter network namespace %s: %s\n", network.c_str(),
                     std::strerror(errno));
        ::_exit(5);
    }
    ::close(fd);
}

/// Gives up all rights of ours, root's among them.
void run_as(const std::string &user)
{
    char *end = nullptr;
    const uid_t number = static_cast<uid_t>(std::strtoul(user.c_str(), &end, 10));
    const passwd *known = *end == '\0' ? ::getpwuid(number) : ::getpwnam(user.c_str());
    if (known == nullptr || ::setgroups(0, nullptr) != 0 || ::setgid(known->pw_gid) != 0 ||
        ::setuid(known->pw_uid) != 0) {
        std::fprintf(stderr, "cannot run as user %s: %s\n", user.c_str(),
                     known == nullptr ? "there is none" : std::strerror(errno));
        ::_exit(5);
    }
}

} // namespace

void peer_process::become(const char *role_name, int fd)
{
    if (const std::string &network = the_settings().peer_network; !network.empty())
        move_to(network);
    if (const std::string &user = the_settings().peer_user; !user.empty())
        run_as(user);
    const int kept = ::dup(fd); // a copy without close-on-exec
    const std::string number = std::to_string(kept);
    const std::string seconds = std::to_string(static_cast<double>(patience.count()) / 1000);
    const settings &mine = the_settings();
    const char *arguments[] = {"dapl-conformance",
                               "--peer",
                               role_name,
                               "--fd",
                               number.c_str(),
                               "--ia",
                               mine.ia.c_str(),
                               "--patience",
                               seconds.c_str(),
                               mine.thread_safe ? "--threadsafe" : nullptr,
                               nullptr};
    ::execv("/proc/self/exe", const_cast<char **>(arguments));
    ::_exit(4);
}

peer_process::~peer_process()
{
    link.reset(); // a peer that waits for a word sees the end
    go_on();
    if (pid_ > 0 && await_child(pid_, milliseconds(3000)) == -1)
        kill_hard();
}

void peer_process::kill_hard()
{
    if (pid_ <= 0)
        return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
}

void peer_process::stop()
{
    int status = 0;
    if (::kill(pid_, SIGSTOP) != 0 || ::waitpid(pid_, &status, WUNTRACED) != pid_ ||
        !WIFSTOPPED(status))
        GIVE_UP("the peer process does not stop");
}

void peer_process::go_on()
{
    if (pid_ > 0)
        ::kill(pid_, SIGCONT);
}

int peer_process::await_exit()
{
    const int status = await_child(pid_);
    if (status != -1)
        pid_ = -1;
    decline_with_peer(status);
    return status;
}

int await_child(pid_t child, milliseconds time)
{
    int status = 0;
    const bool ended = becomes_true([&] { return ::waitpid(child, &status, WNOHANG) != 0; }, time);
    return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace conformance
