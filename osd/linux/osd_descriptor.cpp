// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_descriptor.hpp"

#include "osd_cancellation.hpp"
#include "osd_signals.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace osd {

/// Moves a descriptor above the standard ones by system calls: close() is a cancellation point.
int beyond_standard(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    const long beyond = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int error = errno == EINVAL ? EMFILE : errno; // the limit is not above
    (void)syscall(SYS_close, fd);
    errno = error;
    return static_cast<int>(beyond);
}

/// Opens the standard descriptors that are closed. Another thread may open or close descriptors
/// meanwhile: each open takes a free one, which is closed again if it is not a standard one.
void occupy_standard()
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
        if (fcntl(fd, F_GETFD) < 0) {
            const long opened =
                syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);
            if (opened > STDERR_FILENO)
                (void)syscall(SYS_close, opened);
        }
}

bool event_descriptor::open()
{
    fd_ = beyond_standard(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return is_open();
}

void event_descriptor::close()
{
    if (is_open())
        ::close(fd_);
    fd_ = -1;
}

void event_descriptor::raise()
{
    if (is_open())
        (void)::eventfd_write(fd_, 1);
}

void event_descriptor::lower()
{
    eventfd_t count = 0;
    if (is_open())
        (void)::eventfd_read(fd_, &count); // fails when it was not raised
}

namespace {

/// The signals that have to be told from others are blocked while it sleeps, and a descriptor
/// becomes readable with them: the system ends the sleep for that, and then runs the handler.
class descriptor_sleep {
public:
    explicit descriptor_sleep(std::span<const int> descriptors)
        : count_(std::min(descriptors.size(), most_readable))
    {
        for (std::size_t i = 0; i < count_; ++i) // skips negative descriptors, as ppoll does
            watched_[i] = {descriptors[i], POLLIN, 0};
        hold_back(signals_to_hold_back());
    }
    descriptor_sleep(const descriptor_sleep &) = delete;
    descriptor_sleep &operator=(const descriptor_sleep &) = delete;

    /// Returns what ppoll does. A signal ends the wait, with EINTR, only if its handler was
    /// installed without SA_RESTART.
    int until(deadline end)
    {
        for (;;) {
            const timespec left = end.remaining();
            const int found =
                ppoll(watched_, count_ + (holds_back() ? 1 : 0), end.is_never() ? nullptr : &left,
                      holds_back() ? &mask_ : nullptr);
            if (found < 0 && errno == EINTR && !handler_ends_wait(held_back_))
                continue;
            if (found != 1 || !holds_back() || watched_[count_].revents == 0)
                return found;
            if (held_back_ends_wait(held_back_)) {
                errno = EINTR;
                return -1;
            }
        }
    }
    void close()
    {
        if (holds_back())
            ::close(watched_[count_].fd);
    }

    bool holds_back() const { return held_back_ != 0; }
    std::uint64_t with(short what) const
    {
        std::uint64_t found = 0;
        for (std::size_t i = 0; i < count_; ++i)
            found |= std::uint64_t{(watched_[i].revents & what) != 0} << i;
        return found;
    }

private:
    void hold_back(signal_set signals)
    {
        if (signals == 0)
            return;
        const sigset_t set = of(signals);
        const int fd = beyond_standard(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
        if (fd < 0)
            return;
        watched_[count_] = {fd, POLLIN, 0};
        held_back_ = signals;
        signal_set blocked = 0;
        (void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &blocked, sizeof blocked);
        mask_ = of(blocked | signals);
    }
    /// sigaddset() refuses the signals of the C library.
    static sigset_t of(signal_set signals)
    {
        sigset_t set;
        sigemptyset(&set);
        std::memcpy(&set, &signals, sizeof signals);
        return set;
    }

    pollfd watched_[most_readable + 1];
    std::size_t count_;
    signal_set held_back_ = 0;
    sigset_t mask_;
};

void pause_a_millisecond()
{
    constexpr timespec pause{0, 1'000'000};
    (void)nanosleep(&pause, nullptr);
}

} // namespace

wait_result wait_readable(std::span<const int> descriptors, deadline until, std::uint64_t &ready)
{
    descriptor_sleep sleep(descriptors);
    int found = 0;
    if (sleep.holds_back())
        undo_if_cancelled([&] { found = sleep.until(until); }, [&sleep] { sleep.close(); });
    else
        found = sleep.until(until);
    const int error = errno;
    sleep.close();
    ready = found > 0 ? sleep.with(~short{}) : 0;
    if (found < 0 && error == EINTR)
        return wait_result::interrupted;
    // Closed by the program, or more than it may open by now: callers look again, now and then.
    if (found < 0 || (found > 0 && sleep.with(POLLNVAL) != 0))
        pause_a_millisecond();
    return found == 0 ? wait_result::timed_out : wait_result::woken;
}

} // namespace osd
