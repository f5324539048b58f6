// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A part of the device with a socket and a thread of its own; each queue pair belongs to one.
//
// Packets are received by a consumer that polls or waits, if there is one, and then do not pass
// through the thread. When there is none, the thread watches the socket; when consumers stop, it
// takes over within a millisecond. The thread always runs timers, and makes all upcalls that a
// callback waiter does not make.
#pragma once

#include "connection/device_context.hpp"
#include "connection/shard_context.hpp"
#include "pair_table.hpp"
#include "progress.hpp"

#include "osd_thread.hpp"

#include <atomic>

namespace soft_hca {

class shard {
public:
    ~shard() { close(); }
    /// Returns zero, or an error number of the system's.
    int open(device_context &device, std::uint32_t index);
    void close();

    shard_context &context() { return context_; }
    upcall_queue &upcalls() { return context_.upcalls; }
    packet_io &io() { return context_.io(); }
    std::uint32_t index() const { return context_.index; }
    void kick() { context_.kick(); }

    // --- queue pairs

    /// Gives it an id; false when there are too many or no random numbers.
    bool add(queue_pair &pair);
    /// Removes a queue pair: on return no thread refers to it any more.
    void remove(const queue_pair &pair);
    /// Waits until each thread that is inside a queue pair at the call has left.
    void cycle_locks() { pairs_.cycle_locks(); }
    pair_counts counts() { return pairs_.counts(); }
    stray_counts strays() { return progress_.strays(); }
    /// How often its thread has slept.
    std::uint64_t sleeps() const { return context_.sleep.sleeps(); }
    void lose_device() { progress_.lose_device(); }
    /// See pair_table. Any thread.
    void *end_receive(std::uint32_t id) { return pairs_.end_receive(id); }

    // --- consumers

    /// `polled`: see progress_engine::poll().
    bool progress(bool sleeps_next, const completion_ring *polled = nullptr)
    {
        return progress_.poll(sleeps_next, polled);
    }
    /// Makes progress for a consumer that is about to sleep, and makes the upcalls that result.
    bool progress_and_call_back()
    {
        context_.upcalls.begin_taking();
        const bool moved = progress_.poll(true);
        context_.upcalls.end_taking();
        return moved;
    }
    /// A consumer sleeps on the socket.
    void begin_wait();
    void end_wait() { context_.sleep.end_wait(); }

private:
    void run();
    void look_at_interface();
    std::uint64_t sleep(bool worked);
    bool serves_listeners() const { return context_.index == 0; }

    device_context *device_ = nullptr;
    shard_context context_;
    pair_table pairs_;
    progress_engine progress_{context_, pairs_};
    osd::thread thread_;
    std::atomic<bool> stopping_{false};
};

} // namespace soft_hca
