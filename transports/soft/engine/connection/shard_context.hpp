// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The part of a shard that its objects use: its socket, its upcalls, and marks by which a queue
// pair asks for service.
#pragma once

#include "atomic_bitmap.hpp"
#include "handshake/time_wait.hpp"
#include "net/lent_areas.hpp"
#include "net/packet_io.hpp"
#include "net/ring_paths.hpp"
#include "seal/checked_sender.hpp"
#include "thread/sleeper.hpp"
#include "thread/upcall_queue.hpp"

#include <atomic>
#include <memory>
#include <utility>

namespace soft_hca {

/// Marks by which queue pairs, named by their slots, request service from the thread that makes
/// progress.
class service_marks {
public:
    bool open() { return batched_.open() && acks_.open() && timers_.open(); }

    /// Posts are held back so that more can be sent with them.
    void batch(std::uint32_t slot)
    {
        batched_.set(slot);
        any_batched_.store(true);
        batched_since_poll_.store(true, std::memory_order_relaxed);
    }
    /// An acknowledgement is held back so that more packets can share it.
    void owe_ack(std::uint32_t slot)
    {
        acks_.set(slot);
        any_acks_.store(true);
    }
    void arm_timer(std::uint32_t slot)
    {
        if (!timers_.test(slot))
            timers_.set(slot);
    }

    // --- the holder of the poll lock

    bool owes_acks() const { return any_acks_.load(std::memory_order_relaxed); }
    bool posts_came() const { return batched_since_poll_.load(std::memory_order_relaxed); }
    void forget_posts() { batched_since_poll_.store(false, std::memory_order_relaxed); }
    bool has_batches() const { return any_batched_.load(std::memory_order_relaxed); }
    template <class Each>
    void drain_batches(Each &&each)
    {
        if (any_batched_.exchange(false))
            batched_.drain(static_cast<Each &&>(each));
    }
    template <class Each>
    void drain_acks(Each &&each)
    {
        if (any_acks_.exchange(false))
            acks_.drain(static_cast<Each &&>(each));
    }
    atomic_bitmap &timers() { return timers_; }

private:
    atomic_bitmap batched_;
    atomic_bitmap acks_;
    atomic_bitmap timers_;
    std::atomic<bool> any_batched_{false};
    std::atomic<bool> any_acks_{false};
    std::atomic<bool> batched_since_poll_{false};
};

/// The packets of a large batch. One of a shard is lent to each thread that sends one.
struct large_batch {
    static constexpr std::uint32_t most = checked_sender::most;
    out_packet packets[most];
};
using large_batches = lent_areas<large_batch>;

struct shard_context {
    packet_io &io() { return *network; }
    bool attended() const { return sleep.attended(); }
    void kick() { sleep.kick(); }
    /// The timer of a queue pair was armed: sees to it that the thread wakes in time.
    void arm_timer(std::uint32_t slot, std::int64_t due_ns)
    {
        marks.arm_timer(slot);
        sleep.wake_by(due_ns);
    }
    /// Takes over a close that the peer has not acknowledged from a queue pair that goes.
    void keep_closing(closed_connection last)
    {
        const std::int64_t due_ns = last.due_ns;
        closing.add(std::move(last));
        sleep.wake_by(due_ns);
    }

    std::uint32_t index = 0;
    /// Set by the holder of the poll lock: it will poll again soon, and not sleep.
    bool polls_go_on = false;
    std::unique_ptr<packet_io> network;
    ring_paths rings;
    checked_sender checked;
    large_batches batches;
    sleeper sleep;
    service_marks marks;
    upcall_queue upcalls;
    time_wait closing;
};

} // namespace soft_hca
