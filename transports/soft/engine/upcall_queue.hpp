// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Upcalls that are to be made: objects with pending events, in the order in which these came, but
// connections before completion queues before shared receive queues.
//
// Any thread posts events, under any lock but this one; the shard's thread delivers them without a
// lock. An object has one bit for each kind of event, so posting needs no memory.
#pragma once

#include "upcalls.hpp"

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
    // Under the lock of the queue.
    upcall_source *next_ = nullptr;
    std::uint32_t pending_ = 0; ///< one bit for each event; the lowest is delivered first
    bool queued_ = false;
};

class upcall_queue {
public:
    void open(const upcalls &table, sleeper &thread)
    {
        table_ = &table;
        thread_ = &thread;
    }
    /// Queues an upcall for an event of the object, and wakes the thread.
    void post(upcall_source &from, std::uint32_t event);
    /// Drops the pending events of the object.
    void cancel(upcall_source &from);
    /// The same, and waits for an upcall that is being made for it.
    void cancel_and_wait(upcall_source &from);
    bool any() const { return any_.load(); }
    /// Makes the upcalls. By the shard's thread. True when there were some.
    bool deliver();

private:
    struct list {
        upcall_source *first = nullptr;
        upcall_source *last = nullptr;
    };
    static constexpr std::size_t priorities = 3;

    list &list_of(const upcall_source &from) OSD_REQUIRES(lock_)
    {
        return lists_[static_cast<std::size_t>(from.priority_)];
    }
    void append(upcall_source &from) OSD_REQUIRES(lock_);
    upcall_source *pop() OSD_REQUIRES(lock_);
    void unlink(upcall_source &from) OSD_REQUIRES(lock_);
    void deliver_one(upcall_source &from) OSD_REQUIRES(lock_);

    const upcalls *table_ = nullptr;
    sleeper *thread_ = nullptr;
    osd::mutex lock_;
    osd::condition idle_; ///< an upcall has returned
    const upcall_source *busy_ OSD_GUARDED_BY(lock_) = nullptr;
    list lists_[priorities] OSD_GUARDED_BY(lock_);
    std::atomic<bool> any_{false};
};

} // namespace soft_hca
