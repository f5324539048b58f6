// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The service thread of an adapter: sleeps until a descriptor is ready, a deadline passes, or
// another thread kicks it. And the sets of descriptors on which it, or another thread, sleeps.
#pragma once

#include "osd_annotations.hpp"
#include "osd_descriptor.hpp"
#include "osd_sync.hpp"
#include "osd_thread.hpp"

#include <atomic>
#include <cstdint>
#include <span>
#include <sys/epoll.h>

namespace dapl::port_support {

/// Descriptors, with a tag for each that comes back when it is ready. All functions but open() and
/// close() may be called by any thread. A bool is false, with errno, when the kernel refuses.
class epoll_set {
public:
    static constexpr int batch = 32;
    static constexpr std::uint32_t once = EPOLLIN | EPOLLONESHOT; ///< disarmed when it was reported

    epoll_set() = default;
    epoll_set(const epoll_set &) = delete;
    epoll_set &operator=(const epoll_set &) = delete;
    ~epoll_set() { close(); }

    [[nodiscard]] bool open();
    void close();
    bool is_open() const { return fd_ >= 0; }
    /// Readable while a descriptor in it is ready.
    int get() const { return fd_; }

    bool add(int fd, std::uint32_t events, void *tag)
    {
        return control(EPOLL_CTL_ADD, fd, events, tag);
    }
    bool modify(int fd, std::uint32_t events, void *tag)
    {
        return control(EPOLL_CTL_MOD, fd, events, tag);
    }
    void remove(int fd) { (void)control(EPOLL_CTL_DEL, fd, 0, nullptr); }
    /// Stores the tags of the descriptors that are ready now; returns how many there are.
    std::size_t collect(void *(&tags)[batch]) const;

private:
    bool control(int operation, int fd, std::uint32_t events, void *tag) const;

    int fd_ = -1;
};

/// The body of the thread is the port's own loop:
///
///     osd::lock_guard hold(device.lock);
///     while (!device.events.is_stopping(device.lock)) {
///         const std::int64_t due_ns = …;                        // what has to be done by now
///         for (void *tag : device.events.wait(device.lock, due_ns))
///             …;                                                // this descriptor is ready
///     }
///
/// All functions that take a lock take one and the same lock. If it is held while a descriptor is
/// removed, no later wait() reports it.
class event_thread : public epoll_set {
public:
    static constexpr std::int64_t never = INT64_MAX;

    event_thread() = default;
    event_thread(const event_thread &) = delete;
    event_thread &operator=(const event_thread &) = delete;
    ~event_thread() { close(); }

    /// Opens the descriptors, before any other call; false and errno when there are none left.
    [[nodiscard]] bool open();
    /// Starts the thread; tools show the first 15 characters of its name.
    [[nodiscard]] bool start(const char *name, void (*body)(void *), void *argument);
    /// Ends the thread, if there is one, and closes what open() opened.
    void stop(osd::mutex &lock) OSD_EXCLUDES(lock);
    bool is_stopping(osd::mutex &lock) const OSD_REQUIRES(lock)
    {
        (void)lock;
        return stopping_;
    }
    bool is_current() const { return thread_.is_current(); }

    /// Makes the present or the next wait() return. Any thread, any lock; several kicks coalesce.
    void kick();

    /// Sleeps with the lock released until a descriptor is ready, kick() is called, or `due_ns` of
    /// osd::now_ns() has passed. Then collects the tags of ready descriptors with the lock held, so
    /// that the tagged objects exist until the lock is released.
    std::span<void *const> wait(osd::mutex &lock, std::int64_t due_ns) OSD_REQUIRES(lock);

private:
    void sleep(osd::mutex &lock, std::int64_t due_ns) const OSD_REQUIRES(lock);
    void clear_kick();
    void close();

    osd::thread thread_;
    osd::event_descriptor kick_;
    std::atomic<bool> kicked_{false}; ///< kick_ is readable
    bool stopping_ = false;           ///< guarded by the caller's lock
    void *ready_[epoll_set::batch];
};

} // namespace dapl::port_support
