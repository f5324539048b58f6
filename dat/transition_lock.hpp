// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Serializes loading and unloading of provider libraries.
#pragma once

#include "osd_annotations.hpp"
#include "osd_sync.hpp"

namespace dat {

/// Recursive: held across the dynamic loader and the provider's init and fini functions, which may
/// call the registry again.
class OSD_CAPABILITY("transition lock") transition_lock {
public:
    void lock() OSD_ACQUIRE();
    void unlock() OSD_RELEASE();
    /// Fails where lock() would wait. For exit handlers and forked children: the thread that holds
    /// the lock may not exist any more.
    bool try_lock() OSD_TRY_ACQUIRE(true);

private:
    bool take(long thread) OSD_REQUIRES(guard_);

    osd::mutex guard_;
    osd::condition released_;
    long owner_ OSD_GUARDED_BY(guard_) = 0;
    unsigned depth_ OSD_GUARDED_BY(guard_) = 0;
};

class OSD_SCOPED_CAPABILITY transition_guard {
public:
    explicit transition_guard(transition_lock &lock) OSD_ACQUIRE(lock) : lock_(lock)
    {
        lock_.lock();
    }
    transition_guard(const transition_guard &) = delete;
    transition_guard &operator=(const transition_guard &) = delete;
    ~transition_guard() OSD_RELEASE() { lock_.unlock(); }

private:
    transition_lock &lock_;
};

} // namespace dat
