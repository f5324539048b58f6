// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Another rank of the job: its segment, its place, and the connection to it.
#pragma once

#include "osd_sync.hpp"
#include "proof.hpp"

#include <dat2/udat.h>

#include <atomic>
#include <cstdint>
#include <netinet/in.h>

namespace am {

struct job_context;

enum class link_state : std::uint8_t { none, connecting, up };

/// The memory of a rank that others may write and read.
struct segment {
    std::uint64_t base = 0;
    std::uint64_t size = 0; ///< bytes; the page of the barriers that follows does not count
    DAT_RMR_CONTEXT context = 0;
    std::uint32_t unused = 0;

    bool holds(std::uint64_t address, std::uint64_t length) const
    {
        return length <= size && address >= base && address - base <= size - length;
    }
};

/// The place where a rank listens.
struct location {
    sockaddr_in6 address{}; ///< IPv4 or IPv6
    DAT_CONN_QUAL qualifier = 0;
};

struct peer {
    osd::mutex lock;
    std::atomic<link_state> state{link_state::none};
    std::atomic<bool> lost{false};
    std::atomic<int> outstanding{0}; ///< requests whose completion has not been taken
    DAT_EP_HANDLE ep OSD_GUARDED_BY(lock) = DAT_HANDLE_NULL;
    int rank = 0;
    int credits OSD_GUARDED_BY(lock) = 0; ///< requests that may be sent now
    /// Receives that are posted and have no reply to wait for, since its credit came otherwise.
    int spare_receives OSD_GUARDED_BY(lock) = 0;
    int bank OSD_GUARDED_BY(lock) = 0;              ///< credits to give back with the next message
    bool granted OSD_GUARDED_BY(lock) = false;      ///< receives for its credits are shared already
    std::int64_t deadline OSD_GUARDED_BY(lock) = 0; ///< connecting is given up then
    std::int64_t pause OSD_GUARDED_BY(lock) = 0;    ///< lies before the next attempt
    bool doubted OSD_GUARDED_BY(lock) = false; ///< an impostor has accepted, which was reported
    segment memory;
    location place;
    DAT_EP_HANDLE knock OSD_GUARDED_BY(lock) = DAT_HANDLE_NULL; ///< asks the peer to connect
    /// The number of the request of `ep` or `knock`.
    std::uint64_t connect_number OSD_GUARDED_BY(lock) = 0;
    std::atomic<std::uint64_t> requests{0}; ///< the number of the last request to it
    job_context *job = nullptr;
    // The service thread alone uses these:
    std::int64_t retry_at = 0; ///< 0: no attempt is due
    number_window heard;
    // The thread that ends the job alone uses these:
    DAT_EP_HANDLE ending_ep = DAT_HANDLE_NULL; ///< has sent a request that is not answered yet
    std::uint64_t ending_number = 0;
    bool left = false; ///< has answered the request to end

    bool is_up() const { return state.load(std::memory_order_acquire) == link_state::up; }
};

} // namespace am
