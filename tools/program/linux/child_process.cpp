// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/child_process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace program {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::seconds stray_patience{5};

/// The pipe for a child's reports. Programs that the child starts do not inherit it.
int report_fd = -1;
void *shared_place = nullptr;

} // namespace

struct child_process::parts {
    class descriptor {
    public:
        explicit descriptor(int fd = -1) : fd_(fd) {}
        descriptor(descriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
        descriptor &operator=(descriptor &&other) noexcept
        {
            std::swap(fd_, other.fd_);
            return *this;
        }
        ~descriptor() { close(); }

        int get() const { return fd_; }
        void close()
        {
            if (fd_ >= 0)
                ::close(fd_);
            fd_ = -1;
        }

    private:
        int fd_;
    };

    struct channel {
        descriptor from;
        descriptor to;

        bool open()
        {
            int fds[2];
            if (::pipe2(fds, O_CLOEXEC) != 0)
                return false;
            from = descriptor(fds[0]);
            to = descriptor(fds[1]);
            ::fcntl(from.get(), F_SETFL, O_NONBLOCK);
            return true;
        }
        /// Reads the available bytes, and closes the channel at their end.
        void read_into(std::string &text)
        {
            std::array<char, 16384> bytes;
            while (from.get() >= 0) {
                const ssize_t got = ::read(from.get(), bytes.data(), bytes.size());
                if (got == 0)
                    from.close();
                if (got < 0 && (errno == EAGAIN || errno == EINTR))
                    return;
                if (got < 0)
                    from.close();
                else
                    text.append(bytes.data(), static_cast<std::size_t>(got));
            }
        }
    };

    channel reported;
    channel written;
    descriptor ended;
    void *shared = nullptr;
    pid_t pid = -1;

    [[noreturn]] void become(const job &what, const std::string &argument);
};

child_process::child_process() : parts_(std::make_unique<parts>())
{
    void *const place =
        ::mmap(nullptr, shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place != MAP_FAILED)
        parts_->shared = place;
}

child_process::~child_process()
{
    kill();
    if (parts_->shared != nullptr)
        ::munmap(parts_->shared, shared_bytes);
}

std::string child_process::start(const job &what, const std::string &argument)
{
    const auto fails = [](const char *call) {
        return std::string(call) + ": " + std::strerror(errno);
    };
    if (parts_->shared == nullptr)
        return fails("mmap");
    if (!parts_->reported.open() || !parts_->written.open())
        return fails("pipe");
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::fflush(nullptr); // keeps the child from writing it once more
    parts_->pid = ::fork();
    if (parts_->pid == 0)
        parts_->become(what, argument);
    if (parts_->pid < 0)
        return fails("fork");
    ::setpgid(parts_->pid, parts_->pid); // parent and child both do it, to avoid a race
    parts_->reported.to.close();
    parts_->written.to.close();
    parts_->ended = parts::descriptor(static_cast<int>(::syscall(SYS_pidfd_open, parts_->pid, 0)));
    return parts_->ended.get() >= 0 ? "" : fails("pidfd_open");
}

void child_process::parts::become(const job &what, const std::string &argument)
{
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL); // keeps it from outliving its parent
    const rlimit none{0, 0};            // a crash is a finding, not a file
    ::setrlimit(RLIMIT_CORE, &none);
    for (int signal : {SIGINT, SIGTERM, SIGHUP})
        std::signal(signal, SIG_DFL);
    const descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ::dup2(nothing.get(), STDIN_FILENO);
    ::dup2(written.to.get(), STDOUT_FILENO);
    ::dup2(written.to.get(), STDERR_FILENO);
    written.to.close();
    written.from.close();
    reported.from.close();
    std::setvbuf(stdout, nullptr, _IOLBF, 0); // lets text before a crash be heard
    report_fd = reported.to.get();
    shared_place = shared;
    what.work(argument);
    std::exit(0); // what libraries do at the end is part of the work
}

/// A copy of its parent is in its work already.
void become_child() {}

void child_process::read(std::string &reports, std::string &output)
{
    parts_->reported.read_into(reports);
    parts_->written.read_into(output);
}

namespace {

process_end end_of(int status)
{
    process_end how;
    if (WIFSIGNALED(status)) {
        how.signal = WTERMSIG(status);
        const char *const name = ::sigabbrev_np(how.signal);
        how.name =
            name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(how.signal);
        how.death = how.name + " (" + ::strsignal(how.signal) + ")";
    } else if (how.exit_status = WEXITSTATUS(status); how.exit_status != 0) {
        how.death = "exit status " + std::to_string(how.exit_status);
    }
    return how;
}

} // namespace

bool child_process::has_ended(process_end &how)
{
    int status = 0;
    if (parts_->pid <= 0 || ::waitpid(parts_->pid, &status, WNOHANG) != parts_->pid)
        return false;
    ::kill(-std::exchange(parts_->pid, -1), SIGKILL); // ends processes that it has left behind
    how = end_of(status);
    return true;
}

void child_process::kill()
{
    const pid_t pid = std::exchange(parts_->pid, -1);
    if (pid <= 0)
        return;
    ::kill(-pid, SIGKILL);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
}

void *child_process::shared() const
{
    return parts_->shared;
}

void child_process::wait_for_any(std::span<child_process *const> children,
                                 std::chrono::milliseconds limit)
{
    std::vector<pollfd> waiting;
    for (const child_process *each : children)
        for (int fd : {each->parts_->reported.from.get(), each->parts_->written.from.get(),
                       each->parts_->ended.get()})
            if (fd >= 0)
                waiting.push_back({fd, POLLIN, 0});
    ::poll(waiting.data(), waiting.size(), static_cast<int>(limit.count()));
}

namespace {

/// Returns false if there are none, neither running nor zombies.
bool kill_children()
{
    const std::string self = std::to_string(::getpid());
    std::ifstream children("/proc/self/task/" + self + "/children");
    for (pid_t pid = 0; children >> pid;)
        ::kill(pid, SIGKILL);
    return ::waitpid(-1, nullptr, WNOHANG) >= 0;
}

} // namespace

/// Descendants that left their process group were reparented to this process.
void end_strays()
{
    const auto give_up = clock::now() + stray_patience;
    while (kill_children() && clock::now() < give_up)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void report(const std::string &bytes)
{
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t wrote = ::write(report_fd, bytes.data() + done, bytes.size() - done);
        if (wrote < 0 && errno != EINTR)
            return; // the parent is gone, and so are we, soon
        done += wrote > 0 ? static_cast<std::size_t>(wrote) : 0;
    }
}

void *shared_with_parent()
{
    return shared_place;
}

} // namespace program
