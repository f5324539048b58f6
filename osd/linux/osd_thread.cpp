// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_thread.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace osd {

namespace {

/// What the program's threads have by default is enough, unless it has made that small. The stack
/// holds what libraries have per thread, too, and agents of the program run on it.
void give_stack(pthread_attr_t &how)
{
    constexpr std::size_t least = 512 * 1024;
    std::size_t size = 0;
    if (pthread_attr_getstacksize(&how, &size) == 0 && size < least)
        (void)pthread_attr_setstacksize(&how, least);
}

} // namespace

bool thread::start(const char *name, void (*body)(void *), void *argument)
{
    std::snprintf(name_, sizeof name_, "%s", name);
    body_ = body;
    argument_ = argument;

    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // inherited by the new thread
    pthread_attr_t how;
    pthread_attr_init(&how);
    give_stack(how);
    const int error = pthread_create(&native_, &how, enter, this);
    running_ = error == 0;
    pthread_attr_destroy(&how);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error != 0)
        errno = error;
    return running_;
}

native::thread_result thread::enter(void *self)
{
    auto *me = static_cast<thread *>(self);
    me->self_.store(pthread_self());
    pthread_setname_np(pthread_self(), me->name_);
    me->body_(me->argument_);
    return nullptr;
}

void thread::join()
{
    if (running_)
        pthread_join(native_, nullptr);
    self_.store(native::thread_id{});
    running_ = false;
}

void thread::leave()
{
    if (running_)
        pthread_detach(native_);
    running_ = false;
}

long process_id()
{
    return getpid();
}

bool call_in_forked_children(void (*what)())
{
    return pthread_atfork(nullptr, nullptr, what) == 0;
}

long thread_id()
{
    return syscall(SYS_gettid);
}

void yield()
{
    sched_yield();
}

/// The system call, since the function of the C library is a cancellation point.
void backoff::pause()
{
    if (yields_ < most_yields) {
        ++yields_;
        return yield();
    }
    const timespec time{0, static_cast<long>(sleep_us_) * 1000};
    (void)syscall(SYS_nanosleep, &time, nullptr);
    sleep_us_ = std::min(2 * sleep_us_, longest_sleep_us);
}

/// Needs CAP_SYS_NICE or RLIMIT_NICE. A program that has chosen another policy is left with it.
bool raise_priority(unsigned steps)
{
    constexpr int highest = -20;
    const auto self = static_cast<id_t>(thread_id());
    const int policy = sched_getscheduler(0);
    errno = 0;
    const int now = getpriority(PRIO_PROCESS, self);
    if (policy != SCHED_OTHER || errno != 0)
        return false;
    if (setpriority(PRIO_PROCESS, self, std::max(now - static_cast<int>(steps), highest)) != 0)
        return false;
    constexpr sched_param unused{};
    (void)sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &unused);
    return true;
}

} // namespace osd
