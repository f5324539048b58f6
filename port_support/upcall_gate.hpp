// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Upcalls that run without the port's lock, and fences that wait for them.
#pragma once

#include "osd_annotations.hpp"
#include "osd_sync.hpp"

namespace dapl::port_support {

/// Tracks which upcalls are running, on any number of threads. An operation that is a fence makes
/// sure, with the lock held, that its object gets no new upcall, and then calls wait_quiet().
///
/// All functions take one lock, which guards the lists in which upcalls find their objects.
class upcall_gate {
public:
    /// Runs `upcall` with the lock released. After it returns, `object` may have been freed.
    template <class Upcall>
    void run(osd::mutex &lock, const void *object, Upcall upcall) OSD_REQUIRES(lock)
    {
        running entry{object, nullptr};
        begin(lock, entry);
        upcall();
        end(lock, entry);
    }

    /// Returns once no upcall for `object` is running. Releases the lock while it waits. Must not
    /// be called from inside an upcall for this object.
    void wait_quiet(osd::mutex &lock, const void *object) OSD_REQUIRES(lock);

private:
    /// A running upcall, on the stack of the thread that makes it.
    struct running {
        const void *object;
        running *next;
    };

    void begin(osd::mutex &lock, running &entry) OSD_RELEASE(lock);
    void end(osd::mutex &lock, running &entry) OSD_ACQUIRE(lock);
    bool is_running(const void *object) const;

    // Guarded by the caller's lock.
    running *first_ = nullptr;
    osd::condition ended_;
};

} // namespace dapl::port_support
