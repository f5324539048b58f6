// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Queue pair: two queues of work requests and the reliable connection that they use.
//
// Locking. `lock` guards everything that is not atomic. A posting thread stores into a ring that
// has one writer and rings the doorbell: it takes the lock if that is free, and otherwise leaves a
// mark that the holder sees before it returns. A receiving thread takes the lock for each run of
// packets. No thread holds two queue pairs' locks.
#pragma once

#include "datagrams.hpp"
#include "pair_context.hpp"
#include "reliable_connection.hpp"

#include "osd_sync.hpp"

namespace soft_hca {

class queue_pair final : public pair_context, public receive_waiter, public upcall_source {
public:
    using counts = pair_counts;
    using start = reliable_connection::start;

    queue_pair() : upcall_source(priority::connection), connection_(*this) {}

    // --- the consumer's side; the device makes and frees queue pairs

    /// Returns false when the queue is full. One thread at a time each, or several at once as
    /// pair_params says; then it is not full.
    bool post_send(request &r);
    bool post_receive(request &r);
    /// As post_send(), to a queue pair of datagrams. It is sent before the last post in front of it
    /// returns.
    bool post_datagram(request &r);
    /// Where datagrams to it go, until it is reset.
    datagram_address address();
    [[nodiscard]] start connect(const net_address &to, std::uint64_t qualifier, const void *data,
                                std::size_t size);
    [[nodiscard]] start accept(inbound_request &from, const void *data, std::size_t size);
    void disconnect(bool graceful);
    /// Ends the connection or the attempt, without an event.
    void abandon();
    /// Why its connection ended, unless that was told.
    void tell_end();
    /// The host of the peer of an exchange.
    net_address peer();
    /// Sets the limits on receives held from the shared queue.
    void set_watermarks(const high_watermarks &limits);
    std::uint32_t receives_held() const { return receives.shared_held->count(); }

    // --- the shard's side

    /// Does the work that is pending, unless another thread holds the lock and will do it.
    void ring() { ring_for(nullptr); }
    void enter() OSD_ACQUIRE(lock)
    {
        if (!lock.try_lock())
            enter_behind_another();
    }
    void leave() OSD_RELEASE(lock) { leave(nullptr); }
    /// As above, by a thread whose completions are added in this turn. It ends its turn if it has
    /// to wait.
    void enter(completion_turn &turn) OSD_ACQUIRE(lock);
    void leave(completion_turn &turn) OSD_RELEASE(lock) { leave(&turn); }
    reliable_connection &connection() OSD_REQUIRES(lock) { return connection_; }
    void receive_datagram(const packet &p, const net_address &from) OSD_REQUIRES(lock)
    {
        soft_hca::receive_datagram(*this, connection_.path(), p, from);
    }

    // --- the device's side

    /// Makes the queues, which complete to these rings, or null. False when out of memory.
    bool open(device_context &its_device, shard_context &its_shard, const pair_params &its_params,
              completion_ring *send_completions,
              completion_ring *receive_completions) OSD_UNCHECKED;
    /// Sets slot and id, before the queue pair can be looked up by them.
    void identify(std::uint32_t slot, std::uint32_t id) OSD_UNCHECKED;

    osd::mutex lock;

private:
    void receive_posted() override;
    void make_upcall(const upcalls &table, std::uint32_t event) override;
    void tell_path(const upcalls &table);
    /// As ring(), by a thread that has posted this send; null: of which it copies nothing itself.
    void ring_for(request *send);
    void enter_behind_another() OSD_ACQUIRE(lock);
    void leave(completion_turn *turn) OSD_RELEASE(lock);
    void join(completion_turn *turn)
    {
        sends.completions.join(turn);
        receives.completions.join(turn);
    }
    /// Announces completions, and releases the lock.
    void release() OSD_RELEASE(lock);
    /// Fails if another thread is waiting for the lock.
    bool try_to_take() OSD_TRY_ACQUIRE(true, lock) OSD_UNCHECKED
    {
        return waiting_.load() == 0 && lock.try_lock();
    }

    std::atomic<std::uint32_t> waiting_{0}; ///< threads that will ring
    reliable_connection connection_ OSD_GUARDED_BY(lock);
};

} // namespace soft_hca
