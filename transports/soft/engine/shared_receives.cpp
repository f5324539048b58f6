// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "shared_receives.hpp"

#include "shard.hpp"

#include <bit>
#include <new>
#include <utility>

namespace soft_hca {

bool shared_receives::open(void *owner, protection_domain &domain, shard &home, std::uint32_t depth)
{
    osd::lock_guard hold(lock_);
    owner_ = owner;
    domain_ = &domain;
    home_ = &home;
    head_ = tail_ = limit_ = 0;
    depth_ = depth;
    const std::uint32_t size = std::bit_ceil(2 * depth); // what was taken may come back
    ring_.reset(new (std::nothrow) request *[size]);
    mask_ = size - 1;
    return ring_ != nullptr;
}

bool shared_receives::post(request &receive)
{
    receive.done = false;
    receive.status = work_status::success;
    osd::lock_guard hold(lock_);
    if (left() >= depth_)
        return false;
    ring_[tail_++ & mask_] = &receive;
    return true;
}

request *shared_receives::take()
{
    request *taken = nullptr;
    bool low = false;
    {
        osd::lock_guard hold(lock_);
        if (left() == 0)
            return nullptr;
        taken = ring_[head_++ & mask_];
        low = left() < limit_;
        if (low)
            limit_ = 0; // told once
    }
    if (low)
        home_->tell_limit(*this);
    return taken;
}

void shared_receives::give_back(request &untouched)
{
    osd::lock_guard hold(lock_);
    ring_[--head_ & mask_] = &untouched;
}

bool shared_receives::resize(std::uint32_t depth)
{
    const std::uint32_t size = std::bit_ceil(2 * depth); // what was taken may come back
    std::unique_ptr<request *[]> larger(new (std::nothrow) request *[size]);
    osd::lock_guard hold(lock_);
    if (larger == nullptr || left() > depth)
        return false;
    const std::uint32_t count = left();
    for (std::uint32_t i = 0; i < count; ++i)
        larger[i] = ring_[(head_ + i) & mask_];
    ring_ = std::move(larger);
    mask_ = size - 1;
    depth_ = depth;
    head_ = 0;
    tail_ = count;
    return true;
}

void shared_receives::set_limit(std::uint32_t limit)
{
    osd::lock_guard hold(lock_);
    limit_ = limit;
}

} // namespace soft_hca
