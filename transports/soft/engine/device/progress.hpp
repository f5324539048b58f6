// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Progress of a shard: receives packets and passes them to queue pairs, runs their timers, sends
// their batched posts.
//
// One thread at a time makes progress, under the poll lock: one of a consumer that polls or waits,
// or the shard's own. Polls only try the lock. Other threads count themselves as waiting for it,
// and polls back off while there are any: so they do not starve.
#pragma once

#include "connection/device_context.hpp"
#include "connection/heard_peers.hpp"
#include "connection/shard_context.hpp"
#include "pair_table.hpp"
#include "thread/thread_policy.hpp"

#include "osd_sync.hpp"

#include <atomic>

namespace soft_hca {

/// Packets that belong to no queue pair.
struct stray_counts {
    std::uint64_t malformed = 0; ///< invalid, or with a wrong checksum
    std::uint64_t unknown = 0;   ///< their connection does not exist
};

class progress_engine {
public:
    progress_engine(shard_context &context, pair_table &pairs) : context_(context), pairs_(pairs) {}
    /// `listening` is given to the shard that serves the listeners, and null to others. `seals`:
    /// null without a key.
    void open(connections *listening, const seal_device *seals)
    {
        listening_ = listening;
        seals_ = seals;
    }

    // --- consumers

    /// Makes progress, unless another thread does so. True if packets were received: there may be
    /// more, and their acknowledgements are held back until a later call receives none, or a call
    /// with `sleeps_next`, by a thread that is about to sleep.
    /// `polled`: the completion queue that the consumer polls, into whose receives it may copy
    /// itself.
    bool poll(bool sleeps_next, const completion_ring *polled = nullptr);
    /// Receives packets; waits while another thread makes progress. For a thread that is about to
    /// sleep and has shown that to peers: they put no further packets into the rings.
    void take_all();

    // --- the shard's thread

    /// With active consumers, does only what polls leave to this thread: timers, ICMP errors.
    /// `socket_ready`: the socket woke it, perhaps by an ICMP error. True if packets were received.
    bool run_once(bool consumers_active, bool socket_ready);
    /// Time at which the next timer expires.
    std::int64_t next_due();
    /// Ends all connections and attempts of the shard: the device has failed. Any thread.
    void lose_device();
    bool is_polled();
    /// Waits until each thread that is making progress at the call has left.
    void cycle_lock();
    stray_counts strays();

private:
    void lock() OSD_ACQUIRE(poll_lock_);
    bool receive(std::int64_t now, bool all) OSD_REQUIRES(poll_lock_);
    bool receive_by_rings(std::int64_t now) OSD_REQUIRES(poll_lock_);
    bool receive_datagrams(std::int64_t now) OSD_REQUIRES(poll_lock_);
    bool may_skip_socket(std::int64_t now) OSD_REQUIRES(poll_lock_);
    /// Whether a poll may return at once.
    bool may_skip_all(bool sleeps_next) OSD_REQUIRES(poll_lock_);
    void receive_group(const in_packets &group, std::int64_t now) OSD_REQUIRES(poll_lock_);
    void receive_packet(const std::uint8_t *bytes, std::size_t size, const net_address &from,
                        std::int64_t now, bool by_ring) OSD_REQUIRES(poll_lock_);
    void receive_any(const std::uint8_t *bytes, std::size_t size, const net_address &from,
                     std::int64_t now, bool by_ring) OSD_REQUIRES(poll_lock_) OSD_NOINLINE;
    void receive_datagram(queue_pair &pair, const packet &p, const net_address &from,
                          std::int64_t now) OSD_REQUIRES(poll_lock_) OSD_UNCHECKED;
    void receive_sealed(std::uint8_t *bytes, std::size_t size, const net_address &from,
                        std::int64_t now) OSD_REQUIRES(poll_lock_);
    void receive_opened(const std::uint8_t *bytes, std::size_t size, const net_address &from,
                        std::int64_t now) OSD_REQUIRES(poll_lock_);
    void not_ours(const std::uint8_t *bytes, std::size_t size, const net_address &from,
                  std::int64_t now) OSD_REQUIRES(poll_lock_) OSD_COLD;
    void drop(const std::uint8_t *bytes, std::size_t size, std::int64_t now)
        OSD_REQUIRES(poll_lock_) OSD_COLD;
    void switch_to(queue_pair *pair, std::int64_t now) OSD_REQUIRES(poll_lock_) OSD_UNCHECKED;
    /// Switches to a queue pair, and returns its connection.
    reliable_connection &enter_connection(queue_pair &pair, std::int64_t now)
        OSD_REQUIRES(poll_lock_) OSD_UNCHECKED;
    void send_reset(const packet &p, const net_address &from, std::int64_t now)
        OSD_REQUIRES(poll_lock_);
    bool came_after_pause(std::int64_t now) OSD_REQUIRES(poll_lock_);
    bool keep_batching() OSD_REQUIRES(poll_lock_);
    bool found_nothing_twice(bool received) OSD_REQUIRES(poll_lock_);
    void send_batched() OSD_REQUIRES(poll_lock_)
    {
        if (context_.marks.has_batches())
            drain_batches();
    }
    void flush_acks() OSD_REQUIRES(poll_lock_)
    {
        if (context_.marks.owes_acks())
            drain_acks();
    }
    void drain_batches() OSD_REQUIRES(poll_lock_);
    void drain_acks() OSD_REQUIRES(poll_lock_);
    bool receive_waiting(std::int64_t now) OSD_REQUIRES(poll_lock_) OSD_COLD;
    bool handle_icmp_errors(std::int64_t now) OSD_REQUIRES(poll_lock_);
    void run_timers(std::int64_t now) OSD_REQUIRES(poll_lock_);
    void run_timer(std::uint32_t slot, std::int64_t now, std::uint32_t &resends)
        OSD_REQUIRES(poll_lock_);
    template <class Visitor>
    void visit_connections(Visitor &&visitor) OSD_REQUIRES(poll_lock_);
    void run_slow_timers(std::int64_t now) OSD_REQUIRES(poll_lock_);

    shard_context &context_;
    pair_table &pairs_;
    connections *listening_ = nullptr;
    const seal_device *seals_ = nullptr;

    osd::mutex poll_lock_;
    std::atomic<std::uint32_t> waiting_{0}; ///< threads that wait for the poll lock
    heard_peers peers_ OSD_GUARDED_BY(poll_lock_);
    queue_pair *current_ OSD_GUARDED_BY(poll_lock_) = nullptr; ///< locked for a run of packets
    completion_turn turn_ OSD_GUARDED_BY(poll_lock_);          ///< of one receive()
    const completion_ring *polled_ OSD_GUARDED_BY(poll_lock_) = nullptr; ///< see poll()
    std::int64_t received_ns_ OSD_GUARDED_BY(poll_lock_) = 0; ///< time of the latest packets
    /// Polls that may yet look at the rings only, while packets come by rings.
    std::uint32_t short_polls_ OSD_GUARDED_BY(poll_lock_) = 0;
    socket_pause pause_ OSD_GUARDED_BY(poll_lock_);
    poll_run run_ OSD_GUARDED_BY(poll_lock_);              ///< of polls while peers send datagrams
    std::int64_t owing_ns_ OSD_GUARDED_BY(poll_lock_) = 0; ///< last receipt that needs an ack
    std::int64_t next_reset_ns_ OSD_GUARDED_BY(poll_lock_) = 0;
    stray_counts strays_ OSD_GUARDED_BY(poll_lock_);
    /// Result of the last poll before a sleep.
    bool found_nothing_ OSD_GUARDED_BY(poll_lock_) = false;
    std::uint32_t polls_batched_ OSD_GUARDED_BY(poll_lock_) = 0;
    std::int64_t slow_due_ns_ OSD_GUARDED_BY(poll_lock_) = 0;
};

} // namespace soft_hca
