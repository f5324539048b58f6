// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "work_queue.hpp"

#include "binding.hpp"

#include <bit>

namespace dapl::DAPL_TRANSPORT::core {

work_queue *work_queue::create(endpoint *owner, DAT_COUNT limit, bool concurrent)
{
    std::size_t length = std::size_t{static_cast<std::uint32_t>(limit)} + 1;
    if (concurrent)
        length = std::bit_ceil(length);
    std::unique_ptr<wr[]> slots(new (std::nothrow) wr[length]());
    auto *queue = slots == nullptr ? nullptr : new (std::nothrow) work_queue(owner);
    if (queue == nullptr)
        return nullptr;
    wr *last = &slots[length - 1];
    queue->next = slots.get();
    queue->retired = queue->known_end = last;
    for (std::size_t i = 0; i < length; ++i) {
        slots[i].queue = queue;
        slots[i].ring_place = static_cast<DAT_UINT32>(i);
        slots[i].operation = never_posted;
        slots[i].before = last;
        last->after = &slots[i];
        last = &slots[i];
    }
    queue->slots_ = std::move(slots);
    queue->length_ = static_cast<DAT_COUNT>(length);
    queue->limit_ = limit;
    return queue;
}

void work_queue::use(concurrent_posts &posts, bool from_zero)
{
    const auto length = static_cast<std::uint32_t>(length_);
    if (from_zero)
        posts.begin_at_zero(length);
    retired.store(&slots_[(posts.next_place() - 1) & (length - 1)]);
    posts.use(slots_.get(), length, limit_, retired);
    posts_.store(&posts);
}

void work_queue::leave_posts()
{
    if (is_concurrent())
        next.store(const_cast<wr *>(upcoming()));
    posts_.store(nullptr);
}

work_queue::~work_queue()
{
    for (DAT_COUNT i = 0; bindings != nullptr && i < length_; ++i)
        forget_binding(slots_[static_cast<std::size_t>(i)]);
    delete[] bindings;
    if (draws_from != nullptr)
        draws_from->release();
}

void work_queue::release()
{
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) != 1)
        return;
    if (shared)
        delete static_cast<shared_work_queue *>(this);
    else
        delete this;
}

/// Room is known as far as the next place with a binding.
transport::wr *work_queue::take_slowly()
{
    if (is_concurrent()) {
        wr *taken = posts_.load(std::memory_order_relaxed)->take();
        if (taken != nullptr && bindings != nullptr)
            forget_binding(*taken);
        return taken;
    }
    wr *request = next.load(std::memory_order_relaxed);
    if (request == known_end) {
        if (!find_room(request))
            return nullptr;
        if (bindings != nullptr) {
            forget_binding(*request); // it has completed, its success suppressed
            auto *clear = static_cast<wr *>(request->after);
            while (clear != known_end && binding_at(*clear) == nullptr)
                clear = static_cast<wr *>(clear->after);
            known_end = clear;
        }
    }
    advance(request);
    return request;
}

void work_queue::forget_binding(const wr &request)
{
    if (binding *before = take_binding(request); before != nullptr)
        before->release();
}

bool work_queue::make_room_for_bindings()
{
    if (bindings == nullptr)
        bindings = new (std::nothrow) std::atomic<binding *>[static_cast<std::size_t>(length_)]();
    if (bindings == nullptr)
        return false;
    looks_slowly |= binds;
    if (is_concurrent())
        posts_.load(std::memory_order_relaxed)->set(concurrent_posts::binding_there);
    return true;
}

} // namespace dapl::DAPL_TRANSPORT::core
