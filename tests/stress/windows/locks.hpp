// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Locks of the stress program. The C++ library's locks keep up to three handles each for ever, once
// two threads have met at them: each world would leave thousands behind.
#pragma once

#include <mutex>
#include <shared_mutex>

#include <winsock2.h>

#include <windows.h>

namespace stress {

class shared_mutex {
public:
    shared_mutex() = default;
    shared_mutex(const shared_mutex &) = delete;
    shared_mutex &operator=(const shared_mutex &) = delete;

    void lock() { AcquireSRWLockExclusive(&lock_); }
    bool try_lock() { return TryAcquireSRWLockExclusive(&lock_) != 0; }
    void unlock() { ReleaseSRWLockExclusive(&lock_); }
    void lock_shared() { AcquireSRWLockShared(&lock_); }
    bool try_lock_shared() { return TryAcquireSRWLockShared(&lock_) != 0; }
    void unlock_shared() { ReleaseSRWLockShared(&lock_); }

private:
    SRWLOCK lock_ = SRWLOCK_INIT;
};

using mutex = shared_mutex;

} // namespace stress
