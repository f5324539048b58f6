// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completions that a port took from the device before the consumer polled for them.
#pragma once

#include "dapl_chain.hpp"
#include "dapls_ib.hpp"
#include "osd_annotations.hpp"
#include "osd_fence.hpp"
#include "osd_sync.hpp"

#include <atomic>
#include <cstdint>

namespace dapl::DAPL_TRANSPORT {

/// The consumer polls without a lock. It passes a door, and inside looks whether is_slow(): then it
/// leaves, takes the lock and polls there. Other threads hold the lock; a thread that touches the
/// consumer's members excludes the consumer first.
class consumer_gate {
public:
    osd::door consumer;

    /// Whether completions may be deferred, or the consumer is excluded; asked inside the door.
    bool is_slow() const { return slow_.load(std::memory_order_acquire) != 0; }

    osd::mutex lock;

protected:
    /// The consumer is outside the door, and stays out until readmit().
    void exclude() OSD_REQUIRES(lock);
    void readmit() OSD_REQUIRES(lock) { slow_.store(0, std::memory_order_release); }
    /// Sends the consumer to the list; ordered before a look whether it sleeps.
    void set_slow() OSD_REQUIRES(lock)
    {
        if (slow_.load(std::memory_order_relaxed) == 0)
            slow_.store(1);
    }

private:
    std::atomic<std::uint32_t> slow_{0};
};

/// Base of a port's cq. Wr is the port's wr, with members
///
///     wr *next;
///     completion done;
///
/// that this uses while the operation is deferred: finished but not polled.
template <class Wr>
class deferred_completions : public consumer_gate {
public:
    /// The consumer may sleep, and completions were deferred for it. Without the lock.
    virtual void wake_sleepers() OSD_EXCLUDES(lock) = 0;

    void exclude_consumer() OSD_REQUIRES(lock) { exclude(); }
    /// Onto the fast path again, if nothing is deferred.
    void readmit_consumer() OSD_REQUIRES(lock)
    {
        if (list_.empty())
            readmit();
    }

    bool has_deferred() const OSD_REQUIRES(lock) { return !list_.empty(); }
    /// Defers a completion; `w.done` is set.
    void defer(Wr &w) OSD_REQUIRES(lock)
    {
        list_.push(w);
        set_slow();
    }
    Wr *pop_deferred() OSD_REQUIRES(lock) { return list_.pop(); }

    /// Completes operations as flushed that the device does not have, or no longer.
    void flush(fifo<Wr> &operations) OSD_EXCLUDES(lock)
    {
        if (operations.empty())
            return;
        {
            osd::lock_guard hold(lock);
            while (Wr *w = operations.pop()) {
                w->done = completion_of(*w, 0, DAT_DTO_ERR_FLUSHED);
                defer(*w);
            }
        }
        wake_sleepers();
    }
    void flush(Wr &w) OSD_EXCLUDES(lock)
    {
        fifo<Wr> one;
        one.push(w);
        flush(one);
    }

    /// Leaves deferred receives of this receiver without a receiver.
    void forget_receiver(const work_queue *gone) OSD_EXCLUDES(lock)
    {
        osd::lock_guard hold(lock);
        fifo<Wr> kept;
        while (Wr *w = list_.pop()) {
            if (w->done.receiver == gone)
                w->done.receiver = nullptr;
            kept.push(*w);
        }
        list_ = kept;
    }

protected:
    ~deferred_completions() = default;

private:
    fifo<Wr> list_ OSD_GUARDED_BY(lock); ///< older than all that the device still has
};

} // namespace dapl::DAPL_TRANSPORT
