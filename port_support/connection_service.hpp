// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connection management of an adapter: phases of its queue pairs, their timers, and the upcalls
// that they owe.
#pragma once

#include "connect_attempt.hpp"
#include "dapls_ib.hpp"
#include "deadline_list.hpp"
#include "event_thread.hpp"
#include "upcall_gate.hpp"

#include <atomic>
#include <memory>

namespace dapl::DAPL_TRANSPORT {

enum class connection_phase : std::uint8_t {
    idle,       ///< initial phase: takes receives
    connecting, ///< has an attempt
    accepting,
    live,
    closing, ///< graceful disconnect: requests posted before it complete first
    dead,    ///< posted operations are flushed
};

/// Base of a port's qp. All members are written with connection_service::lock held.
struct connection_state : deadline_link {
    endpoint *owner = nullptr;                ///< endpoint to name in upcalls
    std::unique_ptr<connect_attempt> attempt; ///< attempt in phase connecting
    DAT_EVENT_NUMBER pending_event{};         ///< still to be delivered by the service thread
    std::int64_t close_by_ns = 0;             ///< time, in phase closing, at which to give up
                                              ///< waiting

    /// The present phase. Any thread.
    connection_phase phase() const { return phase_.load(); }
    bool is_established() const
    {
        const connection_phase now = phase();
        return now == connection_phase::live || now == connection_phase::closing;
    }
    void enter(connection_phase next) { phase_.store(next); }
    /// Neither an attempt, nor an event to deliver, nor a timer is left.
    void forget_attempt()
    {
        attempt.reset();
        pending_event = {};
        cancel();
    }

private:
    std::atomic<connection_phase> phase_{connection_phase::idle};
};

/// Base of a port's hca. A port's loop takes elements that are due out of `timers`.
class connection_service {
public:
    char name[64] = {}; ///< name of the device, for logs
    long process = 0;   ///< that opened it

    /// Whether this process is a forked child, where everything is left alone: it has our memory,
    /// but no threads.
    bool foreign() const { return process != osd::process_id(); }

    osd::mutex lock; ///< none of a port's locks is taken before it; never held during an upcall
    port_support::event_thread events;
    deadline_list<connection_state> timers OSD_GUARDED_BY(lock);

    /// The service thread looks at `state` at this time; 0: now.
    void schedule(connection_state &state, std::int64_t due_ns) OSD_REQUIRES(lock);

    // Upcalls run with the lock released; their object may be gone afterwards. A queue pair is
    // known by its connection_state, other objects by the address that run_upcall() was given.

    template <class Upcall>
    void run_upcall(const void *object, Upcall upcall) OSD_REQUIRES(lock)
    {
        upcalls_.run(lock, object, upcall);
    }
    template <class Upcall>
    void run_upcall(const connection_state *state, Upcall upcall) OSD_REQUIRES(lock)
    {
        upcalls_.run(lock, state, upcall);
    }
    /// The end of a fence: the object, which gets no new upcall, has none running.
    void wait_quiet(const void *object) OSD_REQUIRES(lock) { upcalls_.wait_quiet(lock, object); }
    void wait_quiet(const connection_state *state) OSD_REQUIRES(lock)
    {
        upcalls_.wait_quiet(lock, state);
    }

    // Connection events. Each may free the queue pair.

    /// Makes the upcall of a connection event; called on the service thread.
    void deliver(connection_state &state, DAT_EVENT_NUMBER event, const private_data &data = {})
        OSD_REQUIRES(lock);
    /// Lets the service thread make the upcall. Any thread.
    void deliver_later(connection_state &state, DAT_EVENT_NUMBER event) OSD_REQUIRES(lock);
    /// Makes the upcall at once on the service thread; from another thread later, and without data.
    void deliver_soon(connection_state &state, DAT_EVENT_NUMBER event,
                      const private_data &data = {}) OSD_REQUIRES(lock);
    /// Makes the upcall that deliver_later() queued. False when there is none.
    bool deliver_pending(connection_state &state) OSD_REQUIRES(lock);

private:
    port_support::upcall_gate upcalls_ OSD_GUARDED_BY(lock);
};

} // namespace dapl::DAPL_TRANSPORT
