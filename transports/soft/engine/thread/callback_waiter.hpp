// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A consumer that sleeps until any armed completion queue of the device has a completion, and makes
// the completion upcalls itself: the shards' threads sleep on.
//
// A thread that queues such an upcall looks for the waiter afterwards; the waiter announces itself
// before it looks at the queues. When it leaves, the shards' threads make the upcalls that are
// still queued.
#pragma once

#include "net/net.hpp"

#include <atomic>

namespace soft_hca {

class callback_waiter {
public:
    bool open() { return signal_.open(); }
    void close() { signal_.close(); }

    // --- any thread

    /// Whether a waiter makes the completion upcalls.
    bool present() const { return present_.load(); }
    /// A completion upcall was queued: true when a waiter makes it, which is awake then.
    bool takes_over();
    /// Makes the present or the next wait return.
    void wake();

    // --- the waiter

    void begin() { present_.store(true); }
    void end();
    bool take_wake() { return woken_.exchange(false); }
    waitable descriptor() const { return signal_.descriptor(); }
    /// Sleeps on the descriptors, the last of which is its own, unless `has_upcalls` or wake() was
    /// called.
    template <class Predicate>
    osd::wait_result sleep(const waitable *descriptors, std::uint32_t count, osd::deadline until,
                           Predicate &&has_upcalls);

private:
    void rouse();
    osd::wait_result wait(const waitable *descriptors, std::uint32_t count, osd::deadline until);

    std::atomic<bool> present_{false};
    std::atomic<bool> asleep_{false};
    std::atomic<bool> woken_{false};
    wake_signal signal_;
};

template <class Predicate>
osd::wait_result callback_waiter::sleep(const waitable *descriptors, std::uint32_t count,
                                        osd::deadline until, Predicate &&has_upcalls)
{
    asleep_.store(true); // stored before the look for reasons not to sleep
    osd::wait_result result = osd::wait_result::woken;
    if (!has_upcalls() && !woken_.load())
        result = wait(descriptors, count, until);
    asleep_.store(false);
    return result;
}

} // namespace soft_hca
