// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shared receive queue: receives for whichever queue pair needs one first.
#pragma once

#include "osd_sync.hpp"
#include "request.hpp"

#include <memory>

namespace soft_hca {

class shard;
struct protection_domain;

class shared_receives {
public:
    bool open(void *owner, protection_domain &domain, shard &home, std::uint32_t depth);
    /// False when the queue is full.
    bool post(request &receive);
    /// The oldest, or null. Tells the owner when fewer are left than the limit.
    request *take();
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

    osd::mutex lock_; ///< what is shared by queue pairs is locked
    std::unique_ptr<request *[]> ring_ OSD_GUARDED_BY(lock_);
    std::uint32_t mask_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t depth_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t head_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t tail_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t limit_ OSD_GUARDED_BY(lock_) = 0;
    void *owner_ = nullptr;
    protection_domain *domain_ = nullptr;
    shard *home_ = nullptr;
};

} // namespace soft_hca
