// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How a shard's thread sleeps, how other threads wake it, and when it leaves the socket to
// consumers that poll or wait.
#pragma once

#include "net.hpp"
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

    bool open(std::uint32_t spin_us);
    void close() { signal_.close(); }

    // --- any thread

    /// Wakes the thread if it sleeps.
    void kick();
    /// A timer was armed: wakes the thread if it would sleep past it.
    void wake_by(std::int64_t due_ns)
    {
        if (due_ns < wakes_ns_.load())
            kick();
    }
    /// A consumer polls. Counts without a locked instruction: of two that poll at once one may get
    /// lost.
    void note_poll()
    {
        polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    /// Consumers sleep on the socket.
    void begin_wait() { waiters_.fetch_add(1); }
    void end_wait();
    /// Consumers poll or wait: a post that is deferred will be sent by one of them soon.
    bool attended() const { return attended_.load(std::memory_order_relaxed); }

    // --- the thread

    /// Whether consumers poll or wait at present, and drive progress themselves.
    bool consumers_active();
    /// Without them: whether to spin for more packets rather than to sleep.
    bool spins(bool received, std::int64_t now) { return spin_.looks_on(received, now); }
    /// Announces sleep: from here on, those who arm a timer kick the thread.
    void prepare(bool consumers_active);
    /// The latest time to wake up. `worked`: responses to what was just done may arm timers; waking
    /// up early on its own account saves their kicks.
    std::int64_t limit(std::int64_t due_ns, bool worked) const;
    /// Consumers that used to watch the socket have left it, and the thread has to watch it again.
    bool abandoned() const { return leaves_socket_.load() && waiters_.load() == 0; }
    /// Returns the sources that may be readable. While `poll_lock_is_taken`, a consumer is about to
    /// read the socket, so a wake-up for the socket is ignored a few times.
    template <class Predicate>
    std::uint64_t sleep(std::int64_t due_ns, waitable listeners, waitable socket,
                        Predicate &&poll_lock_is_taken);
    /// After sleep(), or instead of it. Returns all sources when the reason to wake is unknown.
    std::uint64_t finish(std::uint64_t ready);
    /// After finish(): judges by what happened since the last time whether consumers attend to the
    /// socket. `found`: the thread found packets itself.
    void judge(bool found, waitable socket);

private:
    std::uint64_t wait_once(std::int64_t due_ns, const waitable *descriptors);
    bool neglected(waitable socket) const;

    static constexpr int most_contended = 8; ///< ignored wake-ups in a row

    wake_signal signal_;
    std::atomic<bool> kicked_{false};
    /// The thread sleeps until then; INT64_MIN while it is awake.
    std::atomic<std::int64_t> wakes_ns_{INT64_MIN};
    std::atomic<bool> leaves_socket_{false}; ///< sleeps, and does not watch the socket
    std::atomic<std::uint32_t> polls_{0};
    std::atomic<bool> attended_{false};
    std::atomic<bool> waited_{false};       ///< a consumer slept on the socket since judge()
    std::atomic<std::uint32_t> waiters_{0}; ///< consumers that sleep on the socket

    // The thread's own.
    spin_policy spin_;
    attendance attendance_;
    std::uint32_t polls_seen_ = 0;
    bool polled_ = false;    ///< consumers poll often enough
    bool contended_ = false; ///< a consumer was polling when the thread woke
};

template <class Predicate>
std::uint64_t sleeper::sleep(std::int64_t due_ns, waitable listeners, waitable socket,
                             Predicate &&poll_lock_is_taken)
{
    if (!kicked_.load())
        wakes_ns_.store(due_ns);
    waitable descriptors[sources];
    descriptors[kick_source] = signal_.descriptor();
    descriptors[listener_source] = listeners;
    descriptors[socket_source] = socket;
    std::uint64_t ready = 0;
    int contended = 0;
    do
        ready = wait_once(due_ns, descriptors);
    while (ready == 1 << socket_source && poll_lock_is_taken() && ++contended < most_contended);
    contended_ = contended != 0;
    return ready;
}

} // namespace soft_hca
