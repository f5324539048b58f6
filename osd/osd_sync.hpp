// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Locks and wait objects.
#pragma once

#include "native_mutex.hpp"
#include "osd_annotations.hpp"
#include "osd_time.hpp"

#include <atomic>
#include <cstdint>

namespace osd {

/// Mutual exclusion; not recursive. Uncontended lock and unlock make no system call.
class OSD_CAPABILITY("mutex") mutex {
public:
    mutex() = default;
    mutex(const mutex &) = delete;
    mutex &operator=(const mutex &) = delete;

    void lock() OSD_ACQUIRE() { native_.lock(); }
    void unlock() OSD_RELEASE() { native_.unlock(); }
    bool try_lock() OSD_TRY_ACQUIRE(true) OSD_UNCHECKED { return native_.try_lock(); }

private:
    native::mutex native_;
};

class OSD_SCOPED_CAPABILITY lock_guard {
public:
    explicit lock_guard(mutex &guarded) OSD_ACQUIRE(guarded) : guarded_(guarded)
    {
        guarded_.lock();
    }
    lock_guard(const lock_guard &) = delete;
    lock_guard &operator=(const lock_guard &) = delete;
    ~lock_guard() OSD_RELEASE() { guarded_.unlock(); }

private:
    mutex &guarded_;
};

enum class wait_result { woken, timed_out, interrupted };

/// A binary semaphore for one waiting thread. A wake before the wait is kept; several wakes
/// coalesce into one. wake() may be called by any thread, without a lock, and makes a system call
/// only if a thread sleeps.
class wait_object {
public:
    /// Returns `interrupted` when a signal handler without SA_RESTART ran in the waiting thread,
    /// where there are any.
    wait_result wait(deadline until);
    void wake();

private:
    enum : std::uint32_t { idle, signalled, sleeping };
    std::atomic<std::uint32_t> state_{idle};
};

/// Condition for several waiters, used together with one mutex. May wake spuriously.
class condition {
public:
    /// A thread cancelled in it reacquires the mutex before its cleanup handlers run.
    wait_result wait(mutex &held, deadline until) OSD_REQUIRES(held);
    /// Call with the mutex of the waiters held.
    void signal();
    void broadcast();

private:
    std::atomic<std::uint32_t> sequence_{0};
    std::uint32_t waiters_ = 0; // guarded by the mutex of the waiters
};

} // namespace osd
