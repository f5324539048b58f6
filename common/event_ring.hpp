// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Storage of the EVD: events of callbacks and software, and completions taken from the CQ.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>

namespace dapl::DAPL_TRANSPORT {

/// One producer and one consumer at a time, without a lock between the two. Several producers
/// share a lock of their own.
template <class T>
class event_ring {
public:
    [[nodiscard]] bool allocate(DAT_COUNT length)
    {
        slots_.reset(new (std::nothrow) T[std::bit_ceil(static_cast<std::uint32_t>(length))]);
        length_ = static_cast<std::uint32_t>(length);
        return slots_ != nullptr;
    }

    std::uint32_t size() const
    {
        return tail_.load(std::memory_order_acquire) - head_.load(std::memory_order_acquire);
    }
    bool empty() const { return size() == 0; }
    std::uint32_t room() const { return length_ - size(); }

    /// False when full.
    bool push(const T &event)
    {
        if (room() == 0)
            return false;
        const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
        slots_[tail & mask()] = event;
        tail_.store(tail + 1, std::memory_order_release);
        return true;
    }

    bool pop(T &event)
    {
        if (empty())
            return false;
        const std::uint32_t head = head_.load(std::memory_order_relaxed);
        event = slots_[head & mask()];
        head_.store(head + 1, std::memory_order_release);
        return true;
    }

private:
    std::uint32_t mask() const { return std::bit_ceil(length_) - 1; }

    std::unique_ptr<T[]> slots_;
    std::uint32_t length_ = 0;
    std::atomic<std::uint32_t> head_{0}; // next to be taken
    std::atomic<std::uint32_t> tail_{0}; // next to be filled
};

} // namespace dapl::DAPL_TRANSPORT
