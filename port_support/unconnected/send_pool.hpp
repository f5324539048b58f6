// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the device has in flight for the layer: buffers of datagrams, and accesses.
#pragma once

#include "fabric.hpp"

#include <cstdint>
#include <cstdlib>
#include <memory>

namespace dapl::DAPL_TRANSPORT::unconnected {

struct known_peer;

/// A cookie of the device. `Pair` is the queue pair's type, `Wr` the work request's and `Mr` the
/// memory region's.
template <class Pair>
struct in_flight {
    const bool is_access;
    Pair *of = nullptr;         ///< null: it is not in flight, or its connection has ended
    known_peer *peer = nullptr; ///< counts it; not for a datagram of a connection that is up
    in_flight *next = nullptr;
};

template <class Pair>
struct send_buffer : in_flight<Pair> {
    send_buffer() : in_flight<Pair>{false} {}

    std::uint8_t *bytes = nullptr;
};

/// An access, and what gives the peer's grants back if its connection ends before.
template <class Pair, class Wr, class Mr>
struct access_slot : in_flight<Pair> {
    access_slot() : in_flight<Pair>{true} {}

    bool in_use = false;
    Wr *w = nullptr;
    Mr *local = nullptr;
    std::uint32_t to = 0;
    std::uint64_t tag = 0;
};

/// A number of slots, which are taken and put back.
template <class Slot>
class slots {
public:
    [[nodiscard]] bool open(std::uint32_t count)
    {
        all_.reset(new (std::nothrow) Slot[count]);
        if (all_ == nullptr)
            return false;
        count_ = count;
        for (std::uint32_t i = 0; i < count; ++i)
            put(all_[i]);
        return true;
    }
    Slot *take()
    {
        auto *const slot = static_cast<Slot *>(free_);
        if (slot != nullptr) {
            free_ = slot->next;
            ++taken_;
        }
        return slot;
    }
    /// The slot that take() would take.
    Slot *first() const { return static_cast<Slot *>(free_); }
    void give(Slot &slot)
    {
        --taken_;
        put(slot);
    }
    std::uint32_t taken() const { return taken_; }
    std::uint32_t left() const { return count_ - taken_; }
    Slot *begin() { return all_.get(); }
    Slot *end() { return all_.get() + count_; }

private:
    void put(Slot &slot)
    {
        slot.next = free_;
        free_ = &slot;
    }

    std::unique_ptr<Slot[]> all_;
    std::uint32_t count_ = 0;
    std::uint32_t taken_ = 0;
    decltype(Slot::next) free_ = nullptr;
};

} // namespace dapl::DAPL_TRANSPORT::unconnected
