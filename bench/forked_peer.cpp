// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "forked_peer.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace bench {

forked_peer::halves forked_peer::split()
{
    auto [ours, theirs] = program::socket::pair();
    if (!ours.is_open())
        throw program::failure("socketpair: " + program::socket_error());
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0)
        throw program::failure(std::string("fork: ") + std::strerror(errno));
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL); // if the parent is killed, so is this process
    return {forked_peer(pid), channel(std::move(pid == 0 ? theirs : ours)), pid == 0};
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
    const auto end = clock::now() + std::chrono::duration_cast<clock::duration>(limit);
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

} // namespace bench
