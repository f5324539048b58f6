// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shared receive queue: receives for whichever queue pair needs one first.
//
// A queue pair that finds none waits: it is linked here until a receive is posted for it or it
// goes. One that was posted may be taken by another before; then it waits again.
#pragma once

#include "osd_sync.hpp"
#include "request.hpp"

#include <memory>

namespace soft_hca {

class shard;
struct protection_domain;
struct queue_pair;

class shared_receives {
public:
    bool open(void *owner, protection_domain &domain, shard &home, std::uint32_t depth);
    /// False when the queue is full.
    bool post(request &receive);
    /// The oldest; or null, and then `by` waits. Tells the owner when fewer are left than the
    /// limit.
    request *take(queue_pair &by);
    /// By who may have waited and goes.
    void wait_no_more(queue_pair &pair);
    /// By who took it and goes without having finished it: it is the oldest again.
    void give_back(request &untouched);
    bool resize(std::uint32_t depth);
    void set_limit(std::uint32_t limit);

    void *owner() const { return owner_; }
    protection_domain &domain() const { return *domain_; }
    shard &home() const { return *home_; }

    // Of the shard that makes the upcalls, under its lock for events.
    shared_receives *next_noticed = nullptr;
    bool noticed = false;

private:
    std::uint32_t left() const OSD_REQUIRES(lock_) { return tail_ - head_; }
    void wait(queue_pair &pair) OSD_REQUIRES(lock_);
    void serve_waiting() OSD_REQUIRES(lock_);

    osd::mutex lock_; ///< what is shared by queue pairs is locked
    std::unique_ptr<request *[]> ring_ OSD_GUARDED_BY(lock_);
    std::uint32_t mask_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t depth_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t head_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t tail_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t limit_ OSD_GUARDED_BY(lock_) = 0;
    queue_pair *first_waiting_ OSD_GUARDED_BY(lock_) = nullptr; ///< for the longest time
    queue_pair *last_waiting_ OSD_GUARDED_BY(lock_) = nullptr;
    void *owner_ = nullptr;
    protection_domain *domain_ = nullptr;
    shard *home_ = nullptr;
};

} // namespace soft_hca
