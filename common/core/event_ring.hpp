// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Storage of the EVD: completions taken from the CQ, and ends of connections that wait for them.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace dapl::DAPL_TRANSPORT::core {

/// One producer and one consumer at a time, without a lock between the two.
template <class T>
class event_ring {
public:
    [[nodiscard]] bool allocate(DAT_COUNT length)
    {
        slots_.reset(new (std::nothrow) T[std::bit_ceil(static_cast<std::uint32_t>(length))]);
        length_ = static_cast<std::uint32_t>(length);
        return slots_ != nullptr;
    }

    std::uint32_t length() const { return length_; }
    /// Position of the oldest element. Positions count up for ever; elements are from head() to
    /// before tail().
    std::uint32_t head() const { return head_.load(std::memory_order_acquire); }
    std::uint32_t tail() const { return tail_.load(std::memory_order_acquire); }
    std::uint32_t size() const { return tail() - head(); }
    bool empty() const { return size() == 0; }
    std::uint32_t room() const { return length_ - size(); }

    /// Returns false when full.
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

    // --- for the consumer

    /// The element at this position.
    const T &at(std::uint32_t position) const { return slots_[position & mask()]; }
    T &at(std::uint32_t position) { return slots_[position & mask()]; }
    /// The next, or null.
    const T *front() const { return empty() ? nullptr : &at(head()); }
    /// Takes an element from the middle. Elements before it stay, and move up by one position.
    void take(std::uint32_t position, T &event)
    {
        event = at(position);
        for (; position != head(); --position)
            slots_[position & mask()] = at(position - 1);
        head_.store(position + 1, std::memory_order_release);
    }

    /// Takes the storage of another ring, which is empty and has room for all elements here; their
    /// positions stay. Neither a producer nor a consumer is at work.
    void take_storage_of(event_ring &other)
    {
        other.head_.store(head());
        other.tail_.store(head());
        for (T event{}; pop(event);)
            (void)other.push(event);
        std::swap(slots_, other.slots_);
        std::swap(length_, other.length_);
        head_.store(other.head());
        other.head_.store(other.tail());
    }

private:
    std::uint32_t mask() const { return std::bit_ceil(length_) - 1; }

    std::unique_ptr<T[]> slots_;
    std::uint32_t length_ = 0;
    std::atomic<std::uint32_t> head_{0}; // next to be taken
    std::atomic<std::uint32_t> tail_{0}; // next to be filled
};

} // namespace dapl::DAPL_TRANSPORT::core
