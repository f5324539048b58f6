// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How a shard's thread sleeps, how other threads wake it, and when it leaves the socket to
// consumers that poll or wait.
//
// Without consumers that wait, the thread sleeps on the socket itself: Linux then wakes it with the
// hint that the sender is about to sleep (WF_SYNC), which places it well, and drops that hint for
// sets. A first wait wakes the thread, and from then on it sleeps on a set, which the socket leaves
// while consumers sleep on it. The time when the thread wakes up by itself is in a timer that
// others change:
//   a timer of a queue pair is armed       not later than that
//   a consumer begins to wait              not before the next such timer
//   the last one has ended its wait        where consumers poll and the thread does not watch the
//                                          set: not later than a millisecond from now
// So none of these wakes the thread. Where the system has no such timers they do.
#pragma once

#include "net/net.hpp"
#include "net/ring_paths.hpp"
#include "thread_policy.hpp"

#include <atomic>

namespace soft_hca {

class sleeper {
public:
    /// What the thread sleeps on; a wake-up reports a bit for each that may be readable.
    enum source : std::uint32_t { kick_source, listener_source, socket_source, sources };
    static constexpr std::uint64_t all_sources = UINT64_MAX;
    static constexpr bool has(std::uint64_t ready, source which)
    {
        return (ready >> which & 1) != 0;
    }

    bool open(std::uint32_t spin_us, waitable socket, ring_paths &rings);
    void close()
    {
        signal_.close();
        alarm_.close();
        watched_.close();
    }

    // --- any thread

    /// Wakes the thread if it sleeps.
    void kick();
    /// A timer was armed: the thread does not sleep past it.
    void wake_by(std::int64_t due_ns)
    {
        if (due_ns < wakes_ns_.load())
            advance(due_ns);
    }
    /// A consumer polls. Counts without a locked instruction: of two that poll at once one may get
    /// lost.
    void note_poll()
    {
        polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    /// A consumer polls all the time, by what it finds out itself: peers may put packets into
    /// rings, though the thread sleeps until a datagram comes. Within a tick the thread looks
    /// whether the consumer has gone.
    void poll_for_thread(std::int64_t now) OSD_COLD;
    /// A consumer sleeps on the socket between these calls. `next_due` returns when the next timer
    /// is due, in nanoseconds.
    template <class NextDue>
    void begin_wait(NextDue &&next_due);
    void end_wait();
    /// Consumers poll or wait: a post that is deferred will be sent by one of them soon.
    bool attended() const { return attended_.load(std::memory_order_relaxed); }
    /// How often the thread has slept.
    std::uint64_t sleeps() const { return sleeps_.load(std::memory_order_relaxed); }

    // --- the thread

    /// Whether consumers poll or wait at present, and drive progress themselves.
    bool consumers_active();
    /// Whether to spin for more packets rather than to sleep, while no consumer is active.
    bool spins(bool received, std::int64_t now) { return spin_.looks_on(received, now); }
    /// Announces sleep: from here on, a thread that arms a timer kicks this thread.
    void prepare();
    /// The latest time to wake up. `worked`: responses to packets just sent may arm timers; waking
    /// up early on its own account saves their kicks.
    std::int64_t limit(std::int64_t due_ns, bool worked) const;
    /// Whether packets have come by a ring, and their senders may have thought that we would look.
    /// The thread asks between prepare() and sleep().
    bool overlooked() { return watches_ && waiters_.load() == 0 && rings_->has_packets(); }
    bool abandoned() const { return leaves_socket_.load() && !polled_ && waiters_.load() == 0; }
    /// Returns the sources that may be readable. While `poll_lock_is_taken`, a consumer is about to
    /// read the socket, so a wake-up for the socket is ignored a few times.
    template <class Predicate>
    std::uint64_t sleep(std::int64_t due_ns, waitable listeners, Predicate &&poll_lock_is_taken);
    /// Ends a sleep, or takes its place. Returns all sources when the reason to wake is unknown.
    std::uint64_t finish(std::uint64_t ready);
    /// Judges after finish(), by the events since the last time, whether consumers attend to the
    /// socket. `found`: the thread found packets itself.
    void judge(bool found, waitable socket);

private:
    void advance(std::int64_t due_ns) OSD_COLD;
    void leave_to_waiters();
    void tell_peers() OSD_REQUIRES(lock_);
    bool postpone(std::int64_t due_ns);
    void set_wake(std::int64_t due_ns);
    void aim(std::int64_t due_ns);
    waitable socket_or_set() const;
    std::uint64_t wait_once(std::int64_t due_ns, const waitable *descriptors);
    bool neglected(waitable socket) const;

    static constexpr int most_contended = 8; ///< ignored wake-ups in a row

    wake_signal signal_;
    waitable socket_ = -1;
    /// Guards the members down to sleeps_on_socket_, and changes to wakes_ns_ and waiters_.
    osd::mutex lock_;
    wake_timer alarm_;
    std::int64_t alarm_ns_ = INT64_MAX; ///< what alarm_ is set to
    descriptor_set watched_;            ///< the socket, or nothing
    bool sleeps_on_socket_ = false;     ///< the thread does, not on the set
    bool watches_ = false;              ///< the thread sleeps on the socket or the set
    ring_paths *rings_ = nullptr;
    std::atomic<bool> kicked_{false};
    /// The thread sleeps until then; INT64_MIN while it is awake, INT64_MAX while it looks for the
    /// time.
    std::atomic<std::int64_t> wakes_ns_{INT64_MIN};
    std::atomic<bool> leaves_socket_{false}; ///< sleeps, and watches neither the socket nor the set
    std::atomic<std::uint32_t> polls_{0};
    std::atomic<bool> attended_{false};
    std::atomic<std::uint64_t> sleeps_{0};
    std::atomic<bool> waited_{false};       ///< a consumer slept on the socket since judge()
    std::atomic<std::uint32_t> waiters_{0}; ///< consumers that sleep on the socket

    // The thread's own.
    spin_policy spin_;
    attendance attendance_;
    std::uint32_t polls_seen_ = 0;
    bool polled_ = false;     ///< consumers poll often enough
    bool contended_ = false;  ///< a consumer was polling when the thread woke
    bool waits_come_ = false; ///< a consumer slept on the socket before the last judge()
};

/// Timers that are armed while the thread's time is put off are found by the second look.
template <class NextDue>
void sleeper::begin_wait(NextDue &&next_due)
{
    leave_to_waiters();
    if (postpone(next_due()))
        wake_by(next_due());
}

template <class Predicate>
std::uint64_t sleeper::sleep(std::int64_t due_ns, waitable listeners,
                             Predicate &&poll_lock_is_taken)
{
    aim(due_ns);
    waitable descriptors[sources + 1];
    descriptors[kick_source] = signal_.descriptor();
    descriptors[listener_source] = listeners;
    descriptors[socket_source] = socket_or_set();
    descriptors[sources] = alarm_.descriptor();
    std::uint64_t ready = 0;
    int contended = 0;
    do
        ready = wait_once(due_ns, descriptors);
    while (ready == 1 << socket_source && poll_lock_is_taken() && ++contended < most_contended);
    contended_ = contended != 0;
    return ready;
}

} // namespace soft_hca
