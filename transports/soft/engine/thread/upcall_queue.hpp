// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Upcalls that are to be made: objects with pending events, in the order in which the events came,
// but connections before completion queues before shared receive queues.
//
// Any thread posts events, under any lock but this one; the shard's thread delivers them without a
// lock, in its place a callback waiter makes the upcalls of completion queues, and a consumer that
// waits for events makes the upcalls of the progress that it makes. An object has one bit for each
// kind of event, so posting needs no memory.
#pragma once

#include "callback_waiter.hpp"
#include "interface/upcalls.hpp"

#include "osd_sync.hpp"

#include <atomic>

namespace soft_hca {

class sleeper;

/// What an object derives from whose events are delivered by upcalls.
class upcall_source {
public:
    upcall_source(const upcall_source &) = delete;
    upcall_source &operator=(const upcall_source &) = delete;

protected:
    enum class priority : std::uint8_t { connection, completion, limit };
    explicit upcall_source(priority of) : priority_(of) {}
    ~upcall_source() = default;

private:
    friend class upcall_queue;
    /// Makes the upcall for one event. Called without a lock; the object stays until it returns.
    virtual void make_upcall(const upcalls &table, std::uint32_t event) = 0;

    const priority priority_;
    // The lock of the queue guards the members below.
    upcall_source *next_ = nullptr;
    std::uint32_t pending_ = 0; ///< one bit for each event; the lowest is delivered first
    bool queued_ = false;
};

class upcall_queue {
public:
    void open(const upcalls &table, sleeper &thread, callback_waiter &waiter)
    {
        table_ = &table;
        thread_ = &thread;
        waiter_ = &waiter;
    }
    /// Queues an upcall for an event of the object, and wakes who will make it.
    void post(upcall_source &from, std::uint32_t event);
    /// Drops the pending events of the object.
    void cancel(upcall_source &from);
    /// Drops the pending events of the object, and waits for an upcall that is being made for it.
    void cancel_and_wait(upcall_source &from);
    bool any() const { return any_.load(); }
    /// Makes the upcalls that no callback waiter makes, unless another thread does. True when there
    /// were some.
    bool deliver();

    // --- a consumer that makes progress and is about to sleep

    /// Begins to take upcalls: an event that is posted from now on need not wake the shard's
    /// thread.
    void begin_taking() { takers_.fetch_add(1); }
    /// Makes the upcalls that are due; the thread makes the rest.
    void end_taking();

    // --- the callback waiter

    bool has_callbacks();
    /// Makes upcalls of completion queues; true when there were some.
    bool deliver_callbacks();
    /// Returns the upcalls that are left to the thread: the waiter leaves.
    void return_callbacks();

private:
    struct list {
        upcall_source *first = nullptr;
        upcall_source *last = nullptr;
    };
    static constexpr std::size_t priorities = 3;
    enum deliverer : std::uint8_t { thread, waiter, deliverers };

    list &list_of(upcall_source::priority of) OSD_REQUIRES(lock_)
    {
        return lists_[static_cast<std::size_t>(of)];
    }
    void append(upcall_source &from) OSD_REQUIRES(lock_);
    static upcall_source *pop_from(list &each);
    upcall_source *pop(bool with_callbacks) OSD_REQUIRES(lock_);
    void unlink(upcall_source &from) OSD_REQUIRES(lock_);
    bool is_busy(const upcall_source &with) const OSD_REQUIRES(lock_);
    void deliver_one(upcall_source &from, deliverer by) OSD_REQUIRES(lock_);
    bool deliver_up_to(unsigned most);

    const upcalls *table_ = nullptr;
    sleeper *thread_ = nullptr;
    callback_waiter *waiter_ = nullptr;
    osd::mutex lock_;
    osd::condition idle_; ///< an upcall has returned
    const upcall_source *busy_[deliverers] OSD_GUARDED_BY(lock_) = {};
    list lists_[priorities] OSD_GUARDED_BY(lock_);
    bool delivering_ OSD_GUARDED_BY(lock_) = false; ///< a thread is in deliver()
    std::atomic<bool> any_{false};
    /// Counts threads between begin_taking() and end_taking().
    std::atomic<std::uint32_t> takers_{0};
};

} // namespace soft_hca
