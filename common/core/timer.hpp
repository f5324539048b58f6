// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Timeouts of calls, and of connects: these have one thread per adapter, started with the first
// timer. The record is a part of the endpoint, so that a timeout needs no memory.
#pragma once

#include "osd_sync.hpp"
#include "osd_thread.hpp"
#include "osd_time.hpp"

#include <dat2/udat.h>

namespace dapl::DAPL_TRANSPORT::core {

inline osd::deadline deadline_of(DAT_TIMEOUT timeout_us)
{
    return timeout_us == DAT_TIMEOUT_INFINITE ? osd::deadline::never()
                                              : osd::deadline::after_us(timeout_us);
}

struct deferred_call {
    void make() const
    {
        if (run != nullptr)
            run(first, second);
    }

    void (*run)(void *, void *) = nullptr; ///< null: nothing to do
    void *first = nullptr;
    void *second = nullptr;
};

struct timer_record {
    timer_record *next = nullptr;
    timer_record *previous = nullptr;
    osd::deadline due = osd::deadline::never();
    bool queued = false;
    /// The expiry. The caller makes the returned call when the expiry is over: consumer code in it
    /// may free the object that the record is a part of.
    deferred_call (*expired)(timer_record &) = nullptr;
};

class timer_queue {
public:
    timer_queue() = default;
    ~timer_queue() { stop(); }

    /// Starts the thread, unless it runs. False when it cannot be started.
    [[nodiscard]] bool start() OSD_EXCLUDES(lock_);
    /// Returns false when no thread could be started. A record that is queued already is moved.
    [[nodiscard]] bool arm(timer_record &record, osd::deadline due) OSD_EXCLUDES(lock_);
    /// The record will not expire, unless its expiry runs at this moment.
    void disarm(timer_record &record) OSD_EXCLUDES(lock_);
    /// Disarms the record, and waits until no expiry of it is running. Shall not be called from an
    /// expiry.
    void cancel(timer_record &record) OSD_EXCLUDES(lock_);
    void stop() OSD_EXCLUDES(lock_);

private:
    void run() OSD_EXCLUDES(lock_);
    void insert(timer_record &record) OSD_REQUIRES(lock_);
    void remove(timer_record &record) OSD_REQUIRES(lock_);
    void expire_first() OSD_REQUIRES(lock_);

    osd::mutex lock_;
    osd::condition changed_; // tells that first_, stopping_ or running_ changed
    timer_record *first_ OSD_GUARDED_BY(lock_) = nullptr;
    timer_record *last_ OSD_GUARDED_BY(lock_) = nullptr;
    timer_record *running_ OSD_GUARDED_BY(lock_) = nullptr;
    bool stopping_ OSD_GUARDED_BY(lock_) = false;
    osd::thread thread_;
};

} // namespace dapl::DAPL_TRANSPORT::core
