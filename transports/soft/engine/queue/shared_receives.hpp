// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shared receive queue: receives for any queue pair that needs one.
//
// A queue pair that finds the SRQ empty is queued until a receive is posted or the queue pair is
// freed. A posted receive goes to the queue pair that has waited longest, and a queue pair that
// needs a receive meanwhile waits behind: so a peer that floods its connection takes turns with the
// others.
#pragma once

#include "interface/request.hpp"
#include "thread/upcall_queue.hpp"

#include "osd_sync.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace soft_hca {

struct protection_domain;

/// The number of receives of a shared queue that a queue pair holds: it holds a receive from the
/// time when it takes it for a message until the consumer takes the completion. Consumers may do
/// that when the queue pair is gone, and its place has another: so its id is in the same word.
class held_receives {
public:
    /// Starts the count, before the queue pair with this id takes its first receive.
    void start(std::uint32_t id) { word_.store(std::uint64_t{id} << 32); }
    /// Counts a receive that the queue pair has taken. Returns how many it holds then.
    std::uint32_t add() { return static_cast<std::uint32_t>(word_.fetch_add(1) + 1); }
    /// Counts a receive back: a consumer has taken its completion. Has no effect if the queue pair
    /// with this id is gone.
    void end_one(std::uint32_t id)
    {
        std::uint64_t seen = word_.load();
        while (seen >> 32 == id && static_cast<std::uint32_t>(seen) != 0 &&
               !word_.compare_exchange_weak(seen, seen - 1)) {
        }
    }
    std::uint32_t count() const { return static_cast<std::uint32_t>(word_.load()); }

private:
    std::atomic<std::uint64_t> word_;
};

/// Limits of what a queue pair holds.
struct high_watermarks {
    static constexpr std::uint32_t none = UINT32_MAX;
    std::uint32_t soft = none; ///< one event when it holds more
    std::uint32_t hard = none; ///< the connection ends before it holds more
};

/// Waits for a receive to be posted.
class receive_waiter {
protected:
    ~receive_waiter() = default;

private:
    friend class shared_receives;
    /// Called under the lock of the shared queue.
    virtual void receive_posted() = 0;

    // The lock of the shared queue guards the members below.
    receive_waiter *next_ = nullptr;
    bool waiting_ = false;
    bool has_claim_ = false; ///< one receive is kept for it
};

class shared_receives final : public upcall_source {
public:
    shared_receives() : upcall_source(priority::limit) {}

    bool open(void *owner, protection_domain &domain, upcall_queue &upcalls, std::uint32_t depth);
    /// Returns false when the queue is full.
    bool post(request &receive);
    /// Takes the oldest receive; null when the receives left are kept for others, and then `by`
    /// waits. Posts the limit event when fewer are left than the limit.
    request *take(receive_waiter &by);
    /// Removes it from the waiters. A receive that is kept for it goes to the next waiter.
    void wait_no_more(receive_waiter &waiter);
    /// Returns a receive that was taken and not completed: it is the oldest again.
    void give_back(request &untouched);
    bool resize(std::uint32_t depth);
    void set_limit(std::uint32_t limit);

    void *owner() const { return owner_; }
    protection_domain &domain() const { return *domain_; }

private:
    void make_upcall(const upcalls &table, std::uint32_t event) override;
    std::uint32_t left() const OSD_REQUIRES(lock_) { return tail_ - head_; }
    void wait(receive_waiter &waiter) OSD_REQUIRES(lock_);
    void serve_waiting() OSD_REQUIRES(lock_);

    osd::mutex lock_; ///< taken by all queue pairs that share it
    std::unique_ptr<request *[]> ring_ OSD_GUARDED_BY(lock_);
    std::uint32_t mask_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t depth_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t head_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t tail_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t limit_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t claims_ OSD_GUARDED_BY(lock_) = 0; ///< receives that are kept for somebody
    receive_waiter *first_waiting_ OSD_GUARDED_BY(lock_) = nullptr; ///< waits for the longest time
    receive_waiter *last_waiting_ OSD_GUARDED_BY(lock_) = nullptr;
    void *owner_ = nullptr;
    protection_domain *domain_ = nullptr;
    upcall_queue *upcalls_ = nullptr;
};

} // namespace soft_hca
