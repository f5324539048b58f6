// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the parts of a queue pair share: its parameters, its device and shard, and its counters.
#pragma once

#include "connection_end.hpp"
#include "device_context.hpp"
#include "queue/completion_ring.hpp"
#include "queue/posted_ring.hpp"
#include "queue/shared_receives.hpp"
#include "shard_context.hpp"

#include <atomic>

namespace soft_hca {

class completion_queue;

struct pair_params {
    void *owner = nullptr;
    protection_domain *domain = nullptr;
    completion_queue *send_queue = nullptr;
    completion_queue *receive_queue = nullptr;
    shared_receives *shared = nullptr;
    void *receiver = nullptr; ///< identifies it in completions of shared receives
    std::uint32_t max_sends = 0;
    std::uint32_t max_receives = 0;
    bool concurrent_posts = false; ///< several threads post at once: see posted_ring
    std::uint16_t reads_in = 0;
    std::uint16_t reads_out = 0;
};

struct pair_context {
    grant access(std::uint32_t key, std::uint32_t rights, std::uint64_t address,
                 std::uint64_t size) const
    {
        return of->memory.check_access(key, with.domain, rights, address, size, serial);
    }
    /// Whether the local segments of a request may be used.
    bool may_use(const request &r, std::uint32_t rights) const;
    /// Stores received bytes at an offset of the local memory of a request.
    work_status scatter(const request &r, std::uint32_t offset, const std::uint8_t *from,
                        std::uint32_t size) const;
    /// The same where a key that opens memory to peers names it.
    work_status scatter_to_window(const request &r, std::uint32_t offset, const std::uint8_t *from,
                                  std::uint32_t size) const;
    /// Completes a request, unless it is silent and succeeded.
    void complete(request &r, work_status status, std::uint32_t length, completion_ring *to) const;
    /// Before the end of a connection is reported, and before the queue pair is reset or freed. The
    /// lock is held, and the queue pair is one of its shard's.
    void settle_completions() const;

    device_context *of = nullptr;
    shard_context *home = nullptr;
    pair_params with;
    completion_ring *send_completions = nullptr;
    completion_ring *receive_completions = nullptr;
    receive_waiter *waiter = nullptr; ///< the queue pair, where it waits for a shared receive
    upcall_source *events = nullptr;  ///< the queue pair, where events come from
    held_receives *held = nullptr;    ///< with a shared queue
    high_watermarks watermarks;       ///< of these
    std::uint32_t id = 0;             ///< of the present connection
    std::uint64_t serial = 0;         ///< the same, and no other ever had it
    std::uint32_t slot = 0;
    direct_link *direct = nullptr; ///< to the peer's memory, if that can be accessed
    pair_counts counted;

    // Used without the lock, too.
    send_queue sends;
    receive_queue receives;
    std::atomic<bool> doorbell{false};
    std::atomic<std::int64_t> due_ns{INT64_MAX}; ///< of the timer; written under the lock

    end_record ending; ///< of the present connection; far from what is hot

private:
    template <std::uint32_t right>
    work_status scatter_with(const request &r, std::uint32_t offset, const std::uint8_t *from,
                             std::uint32_t size) const;
};

/// Its success makes no completion.
inline bool is_silent(const request &r)
{
    return (r.flags & request_silent) != 0;
}

inline std::uint8_t *pointer_to(std::uint64_t address)
{
    return reinterpret_cast<std::uint8_t *>(static_cast<std::uintptr_t>(address));
}

} // namespace soft_hca
