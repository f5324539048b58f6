// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The parts of a queue pair, in one piece of memory. Each user takes the parts that it needs: the
// requester the send queue, the receiver the receive queue, the responder the memory alone.
#pragma once

#include "connection_end.hpp"
#include "device_context.hpp"
#include "memory/local_memory.hpp"
#include "queue/completion_target.hpp"
#include "queue/posted_ring.hpp"
#include "queue/shared_receives.hpp"
#include "shard_context.hpp"

#include <atomic>

namespace soft_hca {

class completion_queue;

enum class pair_use : std::uint8_t {
    connection,
    datagrams, ///< is never connected: see datagrams.hpp
    exchange,  ///< its connection brings private data both ways, and has ended then
};

struct pair_params {
    pair_use use = pair_use::connection;
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

/// The names of a queue pair.
struct pair_identity {
    std::uint32_t id = 0;   ///< names the present connection in packets of the peer
    std::uint32_t slot = 0; ///< names the queue pair in its shard
};

/// Largest message that the processor copies out of the posting thread's segments, or into a
/// receive for the thread that polls for it. The system copies longer ones: it takes little longer
/// then, and does not fault where memory was unmapped.
inline constexpr std::uint32_t most_copied = 4096;

/// The send queue. Posting threads, which do not hold the lock, see the ring and the hints.
struct send_queue {
    completion_target completions;
    direct_link *direct = nullptr;           ///< to the peer's memory, if that can be accessed
    [[no_unique_address]] posted_ring ring;  // the others fit behind what the lock's holder writes
    std::atomic<std::uint32_t> in_flight{0}; ///< packets
    std::atomic<std::uint32_t> started{0};   ///< position of the first request that was not
    /// A send that the lock's holder is posting, whose segments it may read itself, or null.
    const request *posting = nullptr;
};

/// The receive queue: it has receives of its own, or takes receives of a shared queue.
struct receive_queue {
    completion_target completions;
    shared_receives *shared = nullptr;    ///< replaces the ring
    receive_waiter *waiter = nullptr;     ///< the queue pair, where it waits for a shared receive
    held_receives *shared_held = nullptr; ///< counts the shared receives that it holds
    high_watermarks watermarks;           ///< limits the shared receives that it holds
    [[no_unique_address]] posted_ring ring;
    /// The lock's holder is a consumer that polls the completion queue of these receives: it may
    /// copy into them itself.
    bool polled = false;
    /// A post has to ring: the peer has no credit, a packet waits for a receive, or receives are to
    /// be flushed.
    std::atomic<bool> wanted{false};
};

/// The events of a queue pair, which the shard's thread delivers.
class pair_events {
public:
    pair_events() = default;
    pair_events(upcall_source &source, upcall_queue &queue) : source_(&source), queue_(&queue) {}

    void post(std::uint32_t event) const { queue_->post(*source_, event); }
    void post(connection_event event) const { post(static_cast<std::uint32_t>(event)); }
    void cancel() const { queue_->cancel(*source_); }
    upcall_queue *queue() const { return queue_; }
    upcall_source *source() const { return source_; }

private:
    upcall_source *source_ = nullptr;
    upcall_queue *queue_ = nullptr;
};

/// Reads and atomics that may be outstanding at once: what both sides let and want.
struct agreed_reads {
    std::uint16_t in = 0;
    std::uint16_t out = 0;
};

/// What a queue pair notes down, for its owner and for the log.
struct pair_record {
    pair_counts counts;
    end_record ending;  ///< why the present connection ended
    agreed_reads reads; ///< of the present connection
};

/// The order of members follows cache lines: sending a packet uses the first line, the send queue
/// and the counts; receiving a packet uses the first line, the receive queue and the counts.
struct pair_context {
    device_context *device = nullptr;
    shard_context *shard = nullptr;
    local_memory memory;
    pair_identity identity;
    send_queue sends;
    receive_queue receives;
    std::atomic<bool> doorbell{false};           ///< used without the lock, too
    std::atomic<std::int64_t> due_ns{INT64_MAX}; ///< time of the timer; written under the lock
    pair_events events;
    pair_params params;
    pair_record record;
};

} // namespace soft_hca
