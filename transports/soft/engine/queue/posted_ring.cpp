// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "posted_ring.hpp"

#include <bit>
#include <new>

namespace soft_hca {

bool posted_ring::open(std::uint32_t depth, bool concurrent)
{
    concurrent_ = concurrent;
    next_ = head_ = tail_ = mask_ = 0;
    slots_.reset();
    if (depth == 0)
        return true;
    const std::uint32_t size = std::bit_ceil(depth);
    slots_.reset(new (std::nothrow) std::atomic<request *>[size] {});
    mask_ = size - 1;
    return slots_ != nullptr;
}

} // namespace soft_hca
