// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Large windows of packets that the connections of a device borrow while they have many in flight.
//
// Each queue pair has a few places of its own. Sending does not allocate, so the reserve grows when
// a queue pair is made: up to a certain number there is a window for each, so that none has to go
// without; of more queue pairs only some are busy at a time.
#pragma once

#include "osd_sync.hpp"

#include <cstdint>
#include <memory>

namespace soft_hca {

struct sent_packet {
    enum class origin : std::uint8_t { none, request, response };
    void *source = nullptr; ///< a request or a response of the queue pair
    std::int64_t sent_ns = 0;
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
    origin from = origin::none;
    bool last = false; ///< the last packet of its source
    bool sacked = false;
    bool lost = false;
    bool again = false;    ///< was retransmitted, or is to be
    bool by_ring = false;  ///< went by a ring, not over the network
    bool referred = false; ///< a reference took its number; false once it is sent again
};

class window_reserve {
public:
    static constexpr std::uint32_t capacity = 256; ///< packets of a large window
    /// Number of queue pairs for which there is a window each.
    static constexpr std::uint32_t for_each = 64;
    /// Queue pairs above for_each that share a window.
    static constexpr std::uint32_t per_window = 64;

    struct give_back {
        window_reserve *reserve = nullptr;
        void operator()(sent_packet *window) const { reserve->take_back(window); }
    };
    using loan = std::unique_ptr<sent_packet[], give_back>;
    struct leave {
        void operator()(window_reserve *left) const { left->remove_member(); }
    };
    /// Membership of a queue pair. It ends after the loan of the queue pair, and before the
    /// reserve.
    using membership = std::unique_ptr<window_reserve, leave>;

    window_reserve() = default;
    window_reserve(const window_reserve &) = delete;
    window_reserve &operator=(const window_reserve &) = delete;
    ~window_reserve();

    /// Returns null when out of memory.
    membership join();
    /// Returns null when all are lent.
    loan borrow();

    /// The large windows, lent or not.
    std::uint32_t size();

private:
    struct window {
        sent_packet packets[capacity]; // first: a loan is its address
        window *next = nullptr;
    };
    static std::uint32_t wanted(std::uint32_t members)
    {
        return members <= for_each ? members : for_each + (members - for_each) / per_window;
    }
    void take_back(sent_packet *window);
    void remove_member();
    bool is_short() OSD_EXCLUDES(lock_);
    /// Takes a surplus window out, which the caller deletes without the lock; null if there is
    /// none.
    window *take_surplus() OSD_REQUIRES(lock_);

    osd::mutex lock_; ///< posts take it: held for a few instructions, and none that allocate
    window *free_ OSD_GUARDED_BY(lock_) = nullptr;
    std::uint32_t size_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t members_ OSD_GUARDED_BY(lock_) = 0;
};

} // namespace soft_hca
