// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A part of the device with a socket and a thread of its own; each queue pair belongs to one.
//
// Packets are taken by whoever holds the token: a consumer that polls or waits takes it if it is
// free, and then nothing passes through the thread. When consumers do neither the thread watches
// the socket; when they stop, it takes over within a millisecond. Timers and upcalls are the
// thread's alone.
#pragma once

#include "atomic_bitmap.hpp"
#include "completion_queue.hpp"
#include "packet_io.hpp"
#include "queue_pair.hpp"
#include "settings.hpp"
#include "shared_receives.hpp"
#include "thread_policy.hpp"
#include "time_wait.hpp"
#include "upcalls.hpp"

#include "osd_thread.hpp"

#include <atomic>
#include <cstdlib>
#include <memory>

namespace soft_hca {

class device;

class shard {
public:
    static constexpr std::uint32_t max_pairs = atomic_bitmap::capacity;

    ~shard();
    /// Zero, or an error number of the system's.
    int open(device &of, const settings &how, std::uint32_t index);
    void close();

    // --- queue pairs

    /// Gives it an id; false when there are too many or no memory.
    bool add(queue_pair &pair);
    /// Nobody looks at it any more when this returns.
    void remove(queue_pair &pair);
    /// The pair with this id, or null. For the holder of the token.
    queue_pair *find(std::uint32_t id) const
    {
        queue_pair *pair = pairs_[id & (max_pairs - 1)].load(std::memory_order_acquire);
        return pair != nullptr && pair->id == id ? pair : nullptr;
    }
    /// The receiver of the pair with this id, or null when it is gone. Any thread.
    void *receiver_of(std::uint32_t id) const;
    /// Takes over a close that the peer has not acknowledged from a queue pair that goes.
    void keep_closing(const closed_connection &last);
    /// Whoever was inside a queue pair has left it.
    void pass_all();

    // --- work, from any thread

    /// Moves what there is to move, if nobody else is at it. True when packets came: there may be
    /// more, and their acknowledgements wait for a call that finds none: one a little later, or one
    /// of somebody who is about to sleep.
    bool progress(bool sleeps_next);
    /// There are posts that wait for company.
    void defer(const queue_pair &pair);
    /// A timer was set: see that the thread wakes in time.
    void timer_set(const queue_pair &pair, std::int64_t due_ns);
    void owe_ack(queue_pair &pair);
    /// Consumers poll or wait: a post that is deferred will be sent by one of them soon.
    bool attended() const { return attended_.load(std::memory_order_relaxed); }
    void begin_wait() { waiters_.fetch_add(1); }
    void end_wait();
    void kick();
    packet_io &io() { return *io_; }
    std::uint32_t index() const { return index_; }

    // --- upcalls, made later by the thread

    void tell_completion(completion_queue &queue);
    void tell_overflow(completion_queue &queue);
    void tell_established(queue_pair &pair);
    void tell_end(queue_pair &pair, connection_event event);
    void tell_limit(shared_receives &queue);
    /// Forgets what is to be told, and waits until no upcall for it is under way.
    void silence(completion_queue &queue);
    void silence(queue_pair &pair);
    void silence(shared_receives &queue);
    /// The same without waiting.
    void hush(queue_pair &pair);

private:
    void run();
    bool neglected();
    bool token_taken();
    void take_token() OSD_ACQUIRE(token_);
    bool receive_some(std::int64_t now) OSD_REQUIRES(token_);
    void take_group(const in_packets &group, std::int64_t now) OSD_REQUIRES(token_);
    void take_packet(const std::uint8_t *bytes, std::size_t size, const net_address &from,
                     std::int64_t now) OSD_REQUIRES(token_);
    void switch_to(queue_pair *pair, std::int64_t now) OSD_REQUIRES(token_) OSD_UNCHECKED;
    void answer_stranger(const packet &p, const net_address &from, std::int64_t now)
        OSD_REQUIRES(token_);
    bool came_after_pause(std::int64_t now) OSD_REQUIRES(token_);
    bool company_comes() OSD_REQUIRES(token_);
    void ring_deferred() OSD_REQUIRES(token_);
    void flush_acks(std::int64_t now) OSD_REQUIRES(token_);
    void take_bounces(std::int64_t now) OSD_REQUIRES(token_);
    void run_timers(std::int64_t now) OSD_REQUIRES(token_);
    void run_slow_timers(std::int64_t now) OSD_REQUIRES(token_);
    bool work_once(bool consumers_active, std::uint64_t ready);
    std::int64_t next_due() OSD_REQUIRES(token_);
    std::uint64_t sleep(bool active, bool polled, bool worked);
    bool deliver();
    void deliver(queue_pair &pair) OSD_REQUIRES(events_);
    void deliver(completion_queue &queue) OSD_REQUIRES(events_);
    void begin_upcall(const void *object) OSD_RELEASE(events_);
    void end_upcall() OSD_ACQUIRE(events_);
    void wait_quiet(const void *object) OSD_REQUIRES(events_);
    template <class T>
    struct notice_list {
        T *first = nullptr;
        T *last = nullptr;
    };
    template <class T>
    static void append(notice_list<T> &list, T &item)
    {
        item.next_noticed = nullptr;
        (list.first == nullptr ? list.first : list.last->next_noticed) = &item;
        list.last = &item;
    }
    template <class T>
    static T *take_first(notice_list<T> &list)
    {
        T *item = list.first;
        if (item != nullptr) {
            list.first = item->next_noticed;
            item->noticed = false;
        }
        return item;
    }
    template <class T>
    static void unlist(notice_list<T> &list, T &item)
    {
        notice_list<T> rest;
        while (T *each = take_first(list))
            if (each != &item) {
                each->noticed = true;
                append(rest, *each);
            }
        list = rest;
    }
    void notice(queue_pair &pair) OSD_REQUIRES(events_);
    void notice(completion_queue &queue) OSD_REQUIRES(events_);
    void told();

    device *of_ = nullptr;
    packet_io *io_ = nullptr;
    std::uint32_t index_ = 0;

    osd::mutex token_;
    std::atomic<std::uint32_t> wanted_{0};                 ///< who waits for the token
    queue_pair *current_ OSD_GUARDED_BY(token_) = nullptr; ///< whose lock is held for a run
    std::int64_t moved_ns_ OSD_GUARDED_BY(token_) = 0;     ///< when packets came last
    std::int64_t owing_ns_ OSD_GUARDED_BY(token_) = 0; ///< when packets came that are acknowledged
    std::int64_t next_reset_ns_ OSD_GUARDED_BY(token_) = 0;
    std::uint32_t polls_waited_ OSD_GUARDED_BY(token_) = 0;
    std::int64_t slow_due_ns_ OSD_GUARDED_BY(token_) = 0;

    struct named_receiver {
        std::atomic<std::uint32_t> id;
        std::atomic<void *> receiver;
    };
    // Large, and mostly never touched: from calloc, which then takes no memory for them.
    std::atomic<queue_pair *> *pairs_ = nullptr;
    named_receiver *receivers_ = nullptr;
    osd::mutex slots_lock_;
    std::atomic<std::uint32_t> slots_used_{0}; ///< all slots in use are before it
    std::atomic<std::uint32_t> alive_{0};

    time_wait closing_;

    atomic_bitmap deferred_;
    atomic_bitmap owing_;  ///< acks
    atomic_bitmap timing_; ///< have a due time
    std::atomic<bool> any_deferred_{false};
    std::atomic<bool> deferred_lately_{false}; ///< since the last poll
    std::atomic<bool> any_owing_{false};

    // The thread.
    osd::thread thread_;
    wake_signal signal_;
    spin_policy spin_;
    attendance attendance_;
    bool contended_ = false; ///< a consumer was polling when the thread woke
    std::atomic<bool> kicked_{false};
    std::atomic<bool> stopping_{false};
    std::atomic<std::uint32_t> activity_{0}; ///< changes while consumers make progress
    std::atomic<bool> attended_{false};
    std::atomic<bool> waited_{false};       ///< a consumer slept on our socket lately
    std::atomic<std::uint32_t> waiters_{0}; ///< consumers that sleep on our socket
    /// The thread sleeps until then; INT64_MIN while it is awake.
    std::atomic<std::int64_t> wakes_ns_{INT64_MIN};
    std::atomic<bool> leaves_socket_{false}; ///< and does not watch the socket meanwhile

    osd::mutex events_;
    osd::condition quiet_;
    const void *busy_ OSD_GUARDED_BY(events_) = nullptr;
    notice_list<queue_pair> noticed_pairs_ OSD_GUARDED_BY(events_);
    notice_list<completion_queue> noticed_queues_ OSD_GUARDED_BY(events_);
    notice_list<shared_receives> noticed_shared_ OSD_GUARDED_BY(events_);
    std::atomic<bool> anything_noticed_{false};
};

} // namespace soft_hca
