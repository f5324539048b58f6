// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "child.hpp"

#include "descriptor.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace dat_info {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t most_output = 256 * 1024; ///< that is kept of a child
constexpr std::chrono::milliseconds pause{5};   ///< time between two looks

[[noreturn]] void fail(const char *what)
{
    throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

std::string contents_of(int fd)
{
    std::string text;
    char part[4096];
    ::lseek(fd, 0, SEEK_SET);
    for (ssize_t got; (got = ::read(fd, part, sizeof part)) > 0;)
        text.append(part, static_cast<std::size_t>(got));
    return text;
}

/// A record that the child did not finish is left out.
std::vector<record> records_of(const std::string &text)
{
    std::vector<record> records;
    record next;
    std::size_t field = 0, at = 0;
    for (std::size_t end; (end = text.find('\0', at)) != std::string::npos; at = end + 1) {
        next[field] = text.substr(at, end - at);
        if (++field == next.size()) {
            records.push_back(next);
            field = 0;
        }
    }
    return records;
}

std::vector<std::string> lines_of(const std::string &text)
{
    std::vector<std::string> lines;
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        if (end > at)
            lines.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return lines;
}

class child {
public:
    child(task what, double seconds);
    child(const child &) = delete;
    ~child() { finish(); }

    /// Takes what there is of output; true when the child has ended.
    bool look();
    void report();

private:
    [[noreturn]] void run(int output);
    void drain();
    void finish();

    task what_;
    descriptor told_, output_;
    pid_t pid_ = -1;
    clock::time_point deadline_;
    std::string text_;
    child_end end_;
};

child::child(task what, double seconds)
    : what_(std::move(what)), told_(::memfd_create("dat-info", MFD_CLOEXEC)),
      deadline_(clock::now() +
                std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds)))
{
    int ends[2];
    if (told_.get() < 0 || ::pipe2(ends, O_CLOEXEC) != 0)
        fail("pipe");
    output_ = descriptor(ends[0]);
    const descriptor write_end(ends[1]);
    ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ < 0)
        fail("fork");
    if (pid_ == 0)
        run(write_end.get());
    ::setpgid(pid_, pid_); // parent and child both do it, to avoid a race
}

void child::run(int output)
{
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const rlimit no_core{0, 0}; // a crash is a finding, not a file
    ::setrlimit(RLIMIT_CORE, &no_core);
    const descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ::dup2(nothing.get(), STDIN_FILENO);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    std::setvbuf(stdout, nullptr, _IOLBF, 0); // lets text before a crash be heard
    what_.work(teller(told_.get()));
    std::fflush(nullptr);
    ::_exit(0);
}

void child::drain()
{
    char part[4096];
    for (ssize_t got; (got = ::read(output_.get(), part, sizeof part)) > 0;)
        if (text_.size() < most_output)
            text_.append(part, static_cast<std::size_t>(got));
}

bool child::look()
{
    drain();
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == 0) {
        if (clock::now() < deadline_)
            return false;
        end_.late = true;
        finish();
    } else {
        end_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        end_.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
        ::kill(-pid_, SIGKILL); // ends processes that it started
        pid_ = -1;
    }
    drain();
    return true;
}

void child::finish()
{
    if (pid_ < 0)
        return;
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
}

void child::report()
{
    end_.told = records_of(contents_of(told_.get()));
    end_.output = lines_of(text_);
    what_.done(std::move(end_));
}

} // namespace

void teller::tell(std::string_view what, std::string_view a, std::string_view b, std::string_view c,
                  std::string_view d) const
{
    std::string text;
    for (const std::string_view each : {what, a, b, c, d}) {
        text += each.substr(0, each.find('\0'));
        text += '\0';
    }
    (void)!::write(fd_, text.data(), text.size());
}

void run_children(std::vector<task> tasks, double seconds)
{
    const std::size_t most = 2 * std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::unique_ptr<child>> running;
    std::size_t next = 0;
    while (next < tasks.size() || !running.empty()) {
        while (next < tasks.size() && running.size() < most)
            running.push_back(std::make_unique<child>(std::move(tasks[next++]), seconds));
        std::this_thread::sleep_for(pause);
        std::erase_if(running, [](const std::unique_ptr<child> &each) {
            if (!each->look())
                return false;
            each->report();
            return true;
        });
    }
}

} // namespace dat_info
