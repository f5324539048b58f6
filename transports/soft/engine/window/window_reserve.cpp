// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "window_reserve.hpp"

#include <cstddef>
#include <new>
#include <utility>

namespace soft_hca {

window_reserve::~window_reserve()
{
    while (free_ != nullptr)
        delete std::exchange(free_, free_->next);
}

bool window_reserve::is_short()
{
    osd::lock_guard hold(lock_);
    return size_ < wanted(members_ + 1);
}

window_reserve::membership window_reserve::join()
{
    std::unique_ptr<window> more;
    if (is_short()) {
        more.reset(new (std::nothrow) window);
        if (more == nullptr)
            return {};
    }
    osd::lock_guard hold(lock_);
    ++members_;
    if (more != nullptr) {
        more->next = free_;
        free_ = more.release();
        ++size_;
    }
    return membership(this);
}

void window_reserve::remove_member()
{
    window *surplus;
    {
        osd::lock_guard hold(lock_);
        --members_;
        surplus = take_surplus();
    }
    delete surplus;
}

window_reserve::loan window_reserve::borrow()
{
    osd::lock_guard hold(lock_);
    if (free_ == nullptr)
        return {};
    return loan(std::exchange(free_, free_->next)->packets, give_back{this});
}

void window_reserve::take_back(sent_packet *packets)
{
    static_assert(offsetof(window, packets) == 0);
    auto *const returned = reinterpret_cast<window *>(packets);
    window *surplus;
    {
        osd::lock_guard hold(lock_);
        returned->next = std::exchange(free_, returned);
        surplus = take_surplus();
    }
    delete surplus;
}

/// Each member that leaves, and each window that comes back, makes at most one superfluous.
window_reserve::window *window_reserve::take_surplus()
{
    if (free_ == nullptr || size_ <= wanted(members_))
        return nullptr;
    --size_;
    return std::exchange(free_, free_->next);
}

std::uint32_t window_reserve::size()
{
    osd::lock_guard hold(lock_);
    return size_;
}

} // namespace soft_hca
