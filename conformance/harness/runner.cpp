// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/runner.hpp"

#include "harness/support.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace conformance {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t most_output = 256 * 1024;
constexpr int tick_ms = 100;
constexpr std::chrono::seconds stray_patience{5};
/// The first character of a line for the runner itself.
constexpr char allowance_mark = '\x01';

volatile std::sig_atomic_t stop_signal = 0;

void on_stop(int signal)
{
    stop_signal = signal;
}

// ------------------------------------------------------------------------------------ descriptors

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
    /// Reads the available bytes. False at end of file.
    bool read_into(std::string &text)
    {
        std::array<char, 16384> bytes;
        for (;;) {
            const ssize_t got = ::read(from.get(), bytes.data(), bytes.size());
            if (got == 0)
                return false;
            if (got < 0)
                return errno == EAGAIN || errno == EINTR;
            text.append(bytes.data(), static_cast<std::size_t>(got));
        }
    }
};

/// The pipe for a child's reports. Programs that the child starts do not inherit it.
int telling_fd = -1;

// ------------------------------------------------------------------------------------------ child

/// A pointer in shared memory: the last step of the child, readable after a crash.
class shared_step {
public:
    shared_step()
        : place_(::mmap(nullptr, sizeof(last_step), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0))
    {
        if (place_ != MAP_FAILED)
            new (place_) last_step(nullptr);
    }
    shared_step(const shared_step &) = delete;
    shared_step &operator=(const shared_step &) = delete;
    ~shared_step()
    {
        if (place_ != MAP_FAILED)
            ::munmap(place_, sizeof(last_step));
    }
    bool usable() const { return place_ != MAP_FAILED; }
    last_step *get() const { return static_cast<last_step *>(place_); }

    /// The text of a report; the parent has this program mapped at equal addresses.
    std::string text() const
    {
        const step *last = usable() ? get()->load() : nullptr;
        if (last == nullptr)
            return "";
        return std::string(last->call) + ", " +
               std::filesystem::path(last->file).filename().string() + ":" +
               std::to_string(last->line);
    }

private:
    void *place_;
};

class child {
public:
    explicit child(child_task task) : task_(std::move(task)), began_(clock::now())
    {
        end_.allowed = task_.seconds;
    }
    child(const child &) = delete;
    child &operator=(const child &) = delete;
    ~child() { kill_all(); }

    bool start();
    void add_to(std::vector<pollfd> &waiting) const;
    /// True once it has ended.
    bool look();
    void finish();
    const child_end &end() const { return end_; }
    const child_task &task() const { return task_; }

private:
    [[noreturn]] void become();
    void read();
    void take_lines();
    void kill_all();
    double age() const { return std::chrono::duration<double>(clock::now() - began_).count(); }
    bool fails(const char *what);

    child_task task_;
    clock::time_point began_;
    channel told_;
    channel written_;
    std::string unread_;
    shared_step step_;
    descriptor ended_;
    pid_t pid_ = -1;
    child_end end_;
};

bool child::fails(const char *what)
{
    end_.trouble = std::string(what) + ": " + std::strerror(errno);
    return false;
}

bool child::start()
{
    if (!told_.open() || !written_.open())
        return fails("pipe");
    if (!step_.usable())
        return fails("shared memory");
    std::fflush(nullptr); // keeps the child from writing it once more
    pid_ = ::fork();
    if (pid_ == 0)
        become();
    if (pid_ < 0)
        return fails("fork");
    ::setpgid(pid_, pid_); // parent and child both do it, to avoid a race
    told_.to.close();
    written_.to.close();
    ended_ = descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    return ended_.get() >= 0 || fails("pidfd_open");
}

void child::become()
{
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL); // keeps it from outliving its parent
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    for (int signal : {SIGINT, SIGTERM, SIGHUP})
        std::signal(signal, SIG_DFL);
    ::dup2(written_.to.get(), STDOUT_FILENO);
    ::dup2(written_.to.get(), STDERR_FILENO);
    written_.to.close();
    written_.from.close();
    told_.from.close();
    telling_fd = told_.to.get();
    note_steps_in(step_.get());
    task_.work();
    std::exit(0); // what libraries do at the end is part of the case
}

void child::add_to(std::vector<pollfd> &waiting) const
{
    for (int fd : {told_.from.get(), written_.from.get(), ended_.get()})
        if (fd >= 0)
            waiting.push_back({fd, POLLIN, 0});
}

void child::read()
{
    if (told_.from.get() >= 0 && !told_.read_into(unread_))
        told_.from.close();
    if (written_.from.get() >= 0 && !written_.read_into(end_.output))
        written_.from.close();
    if (end_.output.size() > most_output)
        end_.output.resize(most_output);
    take_lines();
}

void child::take_lines()
{
    for (auto at = unread_.find('\n'); at != std::string::npos; at = unread_.find('\n')) {
        if (unread_[0] == allowance_mark)
            end_.allowed = std::max(end_.allowed, std::atof(unread_.c_str() + 1));
        else
            end_.lines.push_back(unread_.substr(0, at));
        unread_.erase(0, at + 1);
    }
}

bool child::look()
{
    read();
    if (::waitpid(pid_, &end_.status, WNOHANG) == pid_) {
        end_.seconds = age();
        const pid_t group = std::exchange(pid_, -1);
        ::kill(-group, SIGKILL); // ends processes that it started and left behind
        read();
        end_.last_step = step_.text();
        return true;
    }
    if (age() > end_.allowed && !end_.late) {
        end_.late = true;
        end_.last_step = step_.text();
        ::kill(-pid_, SIGKILL);
        ::kill(pid_, SIGKILL);
    }
    return false;
}

void child::kill_all()
{
    if (pid_ <= 0)
        return;
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
}

void child::finish()
{
    task_.done(end_);
}

// ------------------------------------------------------------------------------------------- all

/// Returns false if there are none, neither running nor zombies.
bool kill_children()
{
    const std::string self = std::to_string(::getpid());
    std::ifstream children("/proc/self/task/" + self + "/children");
    for (pid_t pid = 0; children >> pid;)
        ::kill(pid, SIGKILL);
    return ::waitpid(-1, nullptr, WNOHANG) >= 0;
}

/// Descendants that left their process group were reparented to this process. A process that is
/// blocked in a driver may not end.
void kill_strays()
{
    const auto give_up = clock::now() + stray_patience;
    while (kill_children() && clock::now() < give_up)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

class pool {
public:
    pool(std::vector<child_task> tasks, unsigned jobs) : jobs_(jobs)
    {
        for (child_task &task : tasks)
            (task.alone ? lonely_ : waiting_).push_back(std::move(task));
    }

    bool busy() const { return !waiting_.empty() || !lonely_.empty() || !running_.empty(); }
    unsigned running() const { return static_cast<unsigned>(running_.size()); }
    void turn();

private:
    void start_some();
    void start(std::deque<child_task> &from);
    void wait_for_any() const;
    void take_ended();

    unsigned jobs_;
    std::deque<child_task> waiting_;
    std::deque<child_task> lonely_;
    std::vector<std::unique_ptr<child>> running_;
};

void pool::start(std::deque<child_task> &from)
{
    auto made = std::make_unique<child>(std::move(from.front()));
    from.pop_front();
    if (made->start())
        running_.push_back(std::move(made));
    else
        made->finish();
}

void pool::start_some()
{
    while (!waiting_.empty() && running_.size() < jobs_)
        start(waiting_);
    if (waiting_.empty() && running_.empty() && !lonely_.empty())
        start(lonely_);
}

void pool::wait_for_any() const
{
    std::vector<pollfd> waiting;
    for (const auto &each : running_)
        each->add_to(waiting);
    ::poll(waiting.data(), waiting.size(), tick_ms);
}

void pool::take_ended()
{
    for (auto each = running_.begin(); each != running_.end();) {
        if (!(*each)->look()) {
            ++each;
            continue;
        }
        (*each)->finish();
        each = running_.erase(each);
    }
}

void pool::turn()
{
    start_some();
    wait_for_any();
    take_ended();
    if (running_.empty())
        kill_strays();
}

} // namespace

int run_children(std::vector<child_task> tasks, unsigned jobs,
                 const std::function<void(unsigned running)> &tick)
{
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int signal : {SIGINT, SIGTERM, SIGHUP})
        std::signal(signal, on_stop);
    pool all(std::move(tasks), std::max(jobs, 1u));
    while (all.busy() && stop_signal == 0) {
        all.turn();
        tick(all.running());
    }
    return stop_signal;
}

std::string child_end::death() const
{
    if (WIFSIGNALED(status)) {
        const int signal = WTERMSIG(status);
        const char *name = ::sigabbrev_np(signal);
        return (name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(signal)) +
               " (" + ::strsignal(signal) + ")";
    }
    return WEXITSTATUS(status) == 0 ? "" : "exit status " + std::to_string(WEXITSTATUS(status));
}

void tell(const std::string &line)
{
    const std::string whole = line + "\n";
    std::size_t done = 0;
    while (done < whole.size()) {
        const ssize_t wrote = ::write(telling_fd, whole.data() + done, whole.size() - done);
        if (wrote < 0 && errno != EINTR)
            return; // the parent is gone, and so are we, soon
        done += wrote > 0 ? static_cast<std::size_t>(wrote) : 0;
    }
}

/// Names come from the command line and dat.conf, and need not be text.
void tell_json(const nlohmann::json &what)
{
    tell(what.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void tell_allowed(unsigned seconds)
{
    tell(allowance_mark + std::to_string(seconds));
}

namespace {

constexpr char scratch_name[] = "dapl-conformance-";

/// The folder, if it is ours and no process of the run that made it is left; the lock then.
int lock_scratch(const std::string &path)
{
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat now {};
    struct stat locked {};
    if (fd >= 0 && ::fstat(fd, &locked) == 0 && locked.st_uid == ::geteuid() &&
        ::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::stat(path.c_str(), &now) == 0 &&
        now.st_ino == locked.st_ino)
        return fd;
    if (fd >= 0)
        ::close(fd);
    return -1;
}

void remove_what_killed_runs_left(const std::filesystem::path &in)
{
    std::error_code ignored;
    for (const auto &entry : std::filesystem::directory_iterator(in, ignored)) {
        if (entry.path().filename().string().rfind(scratch_name, 0) != 0)
            continue;
        const descriptor lock(lock_scratch(entry.path().string()));
        if (lock.get() >= 0)
            std::filesystem::remove_all(entry.path(), ignored);
    }
}

} // namespace

scratch::scratch() : owner_(::getpid())
{
    std::error_code ignored;
    remove_what_killed_runs_left(std::filesystem::temp_directory_path(ignored));
    for (int i = 0; i < 3 && !make(); ++i)
        ;
    if (!path_.empty())
        ::setenv("TMPDIR", path_.c_str(), 1);
}

/// Another run may remove it before it is locked.
bool scratch::make()
{
    std::error_code ignored;
    const auto where =
        std::filesystem::temp_directory_path(ignored) / (std::string(scratch_name) + "XXXXXX");
    path_ = where.string();
    if (::mkdtemp(path_.data()) == nullptr)
        path_.clear();
    else if ((lock_ = lock_scratch(path_)) < 0)
        ::rmdir(std::exchange(path_, {}).c_str());
    return lock_ >= 0;
}

scratch::~scratch()
{
    std::error_code ignored;
    if (!path_.empty() && owner_ == ::getpid())
        std::filesystem::remove_all(path_, ignored);
    if (lock_ >= 0)
        ::close(lock_);
}

} // namespace conformance
