// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/peer.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace conformance {

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

[[noreturn]] void become(std::vector<std::string> arguments, int fd)
{
    if (const std::string &network = the_settings().peer_network; !network.empty())
        move_to(network);
    if (const std::string &user = the_settings().peer_user; !user.empty())
        run_as(user);
    ::fcntl(fd, F_SETFD, 0); // the program that is started has it
    std::vector<char *> words;
    for (std::string &each : arguments)
        words.push_back(each.data());
    words.push_back(nullptr);
    ::execv("/proc/self/exe", words.data());
    ::_exit(4);
}

pid_t pid_of(std::intptr_t process)
{
    return static_cast<pid_t>(process);
}

} // namespace

bool other_process::start(std::vector<std::string> arguments, program::socket end)
{
    const pid_t pid = ::fork();
    if (pid == 0)
        become(std::move(arguments), static_cast<int>(end.get()));
    process_ = pid;
    return is_started();
}

void other_process::kill()
{
    if (!is_started())
        return;
    ::kill(pid_of(process_), SIGKILL);
    ::waitpid(pid_of(process_), nullptr, 0);
    process_ = none;
}

bool other_process::stop()
{
    int status = 0;
    if (!is_started() || ::kill(pid_of(process_), SIGSTOP) != 0 ||
        ::waitpid(pid_of(process_), &status, WUNTRACED) != process_)
        return false;
    if (!WIFSTOPPED(status))
        process_ = none; // it had ended
    return is_started();
}

void other_process::go_on()
{
    if (is_started())
        ::kill(pid_of(process_), SIGCONT);
}

int other_process::await(milliseconds time)
{
    int status = 0;
    if (!is_started() ||
        !becomes_true([&] { return ::waitpid(pid_of(process_), &status, WNOHANG) != 0; }, time))
        return -1;
    process_ = none;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void begin_role()
{
    ::prctl(PR_SET_PDEATHSIG, SIGKILL); // keeps it from outliving its parent
}

namespace {

void (*last_words)() = nullptr;

ssize_t say_last_words(void *, const char *, std::size_t size)
{
    last_words();
    return static_cast<ssize_t>(size);
}

} // namespace

/// The C library flushes its streams when the destructors of all libraries have run.
void exit_with_last_words(void (*words)())
{
    last_words = words;
    std::FILE *stream = ::fopencookie(nullptr, "w", {nullptr, say_last_words, nullptr, nullptr});
    if (stream == nullptr || std::fputs("flushed at the end", stream) < 0)
        std::_Exit(1);
    std::exit(6);
}

} // namespace conformance
