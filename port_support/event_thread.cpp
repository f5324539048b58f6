// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "event_thread.hpp"

#include "osd_descriptor.hpp"

#include <algorithm>
#include <unistd.h>
#include <utility>

namespace dapl::port_support {

namespace {

/// A program that closes all descriptors, as a daemon does at its start, closes ours too. A sleep
/// that has begun on them keeps them open, and no kick can end it.
constexpr std::int64_t longest_sleep_ns = 2'000'000'000;

} // namespace

bool epoll_set::open()
{
    fd_ = osd::beyond_standard(epoll_create1(EPOLL_CLOEXEC));
    return fd_ >= 0;
}

void epoll_set::close()
{
    if (const int open = std::exchange(fd_, -1); open >= 0)
        (void)::close(open);
}

bool epoll_set::control(int operation, int fd, std::uint32_t events, void *tag) const
{
    epoll_event event{};
    event.events = events;
    event.data.ptr = tag;
    return epoll_ctl(fd_, operation, fd, &event) == 0;
}

std::size_t epoll_set::collect(void *(&tags)[batch]) const
{
    epoll_event events[batch];
    const int count = epoll_wait(fd_, events, batch, 0);
    for (int i = 0; i < count; ++i)
        tags[i] = events[i].data.ptr;
    return static_cast<std::size_t>(std::max(count, 0));
}

bool event_thread::open()
{
    return epoll_set::open() && kick_.open() && add(kick_.get(), EPOLLIN, &kick_);
}

void event_thread::close()
{
    epoll_set::close();
    kick_.close();
    kicked_.store(false);
}

bool event_thread::start(const char *name, void (*body)(void *), void *argument)
{
    return thread_.start(name, body, argument);
}

void event_thread::stop(osd::mutex &lock)
{
    if (thread_.running()) {
        {
            osd::lock_guard hold(lock);
            stopping_ = true;
        }
        kick();
        thread_.join();
        stopping_ = false;
    }
    close();
}

void event_thread::kick()
{
    if (!kicked_.exchange(true))
        kick_.raise();
}

void event_thread::clear_kick()
{
    kick_.lower();
    (void)kicked_.exchange(false); // sees all stores before the kicks that coalesced
}

void event_thread::sleep(osd::mutex &lock, std::int64_t due_ns) const
{
    const std::int64_t left = std::min(due_ns - osd::now_ns(), longest_sleep_ns);
    if (left <= 0)
        return;
    const int all = get();
    std::uint64_t ready = 0;
    lock.unlock();
    // epoll_wait has milliseconds
    (void)osd::wait_readable({&all, 1}, osd::deadline::after_ns(static_cast<std::uint64_t>(left)),
                             ready);
    lock.lock();
}

std::span<void *const> event_thread::wait(osd::mutex &lock, std::int64_t due_ns)
{
    sleep(lock, due_ns);
    std::size_t ready = 0;
    const std::size_t count = collect(ready_);
    for (std::size_t i = 0; i < count; ++i) {
        if (ready_[i] == &kick_)
            clear_kick();
        else
            ready_[ready++] = ready_[i];
    }
    return {ready_, ready};
}

} // namespace dapl::port_support
