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

window_reserve::membership window_reserve::join()
{
    osd::lock_guard hold(lock_);
    if (size_ < wanted(members_ + 1)) {
        auto *const more = new (std::nothrow) window;
        if (more == nullptr)
            return {};
        more->next = std::exchange(free_, more);
        ++size_;
    }
    ++members_;
    return membership(this);
}

void window_reserve::remove_member()
{
    osd::lock_guard hold(lock_);
    --members_;
    trim();
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
    osd::lock_guard hold(lock_);
    returned->next = std::exchange(free_, returned);
    trim();
}

void window_reserve::trim()
{
    for (; free_ != nullptr && size_ > wanted(members_); --size_)
        delete std::exchange(free_, free_->next);
}

std::uint32_t window_reserve::size()
{
    osd::lock_guard hold(lock_);
    return size_;
}

} // namespace soft_hca
