// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "shared_receives.hpp"

#include <bit>
#include <new>
#include <utility>

namespace soft_hca {

bool shared_receives::open(void *owner, protection_domain &domain, upcall_queue &upcalls,
                           std::uint32_t depth)
{
    osd::lock_guard hold(lock_);
    owner_ = owner;
    domain_ = &domain;
    upcalls_ = &upcalls;
    head_ = tail_ = limit_ = claims_ = 0;
    first_waiting_ = last_waiting_ = nullptr;
    depth_ = depth;
    const std::uint32_t size = std::bit_ceil(2 * depth); // receives that were taken may come back
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
    if (first_waiting_ != nullptr) [[unlikely]]
        serve_waiting();
    return true;
}

void shared_receives::wait(receive_waiter &waiter)
{
    if (waiter.waiting_)
        return;
    waiter.waiting_ = true;
    waiter.next_ = nullptr;
    (first_waiting_ == nullptr ? first_waiting_ : last_waiting_->next_) = &waiter;
    last_waiting_ = &waiter;
}

void shared_receives::serve_waiting()
{
    receive_waiter &waiter = *first_waiting_;
    first_waiting_ = waiter.next_;
    waiter.waiting_ = false;
    waiter.has_claim_ = true;
    ++claims_;
    waiter.receive_posted(); // it cannot be freed before we release the lock
}

void shared_receives::wait_no_more(receive_waiter &waiter)
{
    osd::lock_guard hold(lock_);
    if (waiter.has_claim_) {
        waiter.has_claim_ = false;
        --claims_;
        if (first_waiting_ != nullptr)
            serve_waiting();
        return;
    }
    receive_waiter *before = nullptr;
    receive_waiter *each = first_waiting_;
    for (; each != nullptr && each != &waiter; each = each->next_)
        before = each;
    if (each == nullptr)
        return;
    (before == nullptr ? first_waiting_ : before->next_) = waiter.next_;
    if (last_waiting_ == &waiter)
        last_waiting_ = before;
    waiter.waiting_ = false;
}

request *shared_receives::take(receive_waiter &by)
{
    request *taken = nullptr;
    bool low = false;
    {
        osd::lock_guard hold(lock_);
        if (by.has_claim_) {
            by.has_claim_ = false;
            --claims_;
        } else if (left() == claims_) {
            wait(by);
            return nullptr;
        }
        taken = ring_[head_++ & mask_];
        low = left() < limit_;
        if (low)
            limit_ = 0; // one event
    }
    if (low)
        upcalls_->post(*this, 0);
    return taken;
}

void shared_receives::give_back(request &untouched)
{
    osd::lock_guard hold(lock_);
    ring_[--head_ & mask_] = &untouched;
    if (first_waiting_ != nullptr)
        serve_waiting();
}

void shared_receives::make_upcall(const upcalls &table, std::uint32_t)
{
    table.limit(owner_);
}

bool shared_receives::resize(std::uint32_t depth)
{
    const std::uint32_t size = std::bit_ceil(2 * depth); // receives that were taken may come back
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
