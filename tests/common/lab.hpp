// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The test's hand in the programmable port: what each operation shall do, how often it was called,
// and which rules of the contract the common layer broke.
#pragma once

#include <dat2/udat.h>

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace lab {

/// A lock that is no pthread mutex, so that the port's own locks are not counted as the common
/// layer's.
class spin_lock {
public:
    void lock()
    {
        while (taken_.exchange(true, std::memory_order_acquire))
            std::this_thread::yield();
    }
    void unlock() { taken_.store(false, std::memory_order_release); }

private:
    std::atomic<bool> taken_{false};
};

/// Holds threads up until it is opened.
class latch {
public:
    void open() { open_.store(true); }
    void wait()
    {
        arrived_.fetch_add(1);
        while (!open_.load())
            std::this_thread::yield();
    }
    void await_arrival(unsigned count = 1) const
    {
        while (arrived_.load() < count)
            std::this_thread::yield();
    }

private:
    std::atomic<bool> open_{false};
    std::atomic<unsigned> arrived_{0};
};

enum class op {
    open_hca,
    close_hca,
    pd_alloc,
    pd_free,
    mr_register,
    mr_deregister,
    mw_alloc,
    cq_alloc,
    cq_free,
    cq_resize,
    qp_alloc,
    qp_free,
    qp_reset,
    srq_alloc,
    srq_resize,
    post_send,
    post_recv,
    listen,
    listening, ///< requests come in, and the qualifier is not told yet
    remove_listener,
    connect,
    accept,
    reject,
    disconnect,
    disconnect_clean,
    count
};

/// What one operation shall do.
struct plan {
    std::atomic<unsigned> calls{0};
    std::atomic<int> fail_after{-1}; ///< calls to let through first; negative: none fails
    std::atomic<DAT_RETURN> failure{DAT_SUCCESS};
    std::atomic<latch *> gate{nullptr}; ///< calls wait here
};

plan &plan_of(op which);

/// The next call after `skip` more fails, once.
void fail(op which, DAT_RETURN failure, int skip = 0);
/// Counts the call, waits at its gate, and returns the planned answer.
DAT_RETURN enter(op which);
inline unsigned calls(op which)
{
    return plan_of(which).calls.load();
}

/// Whether connections, sends and answers act at once, on the caller's thread. Otherwise the test
/// does everything by hand.
extern std::atomic<bool> loopback;

/// Where it is set, an empty CQ is `idle`, and completion_progress calls it.
extern std::function<void()> on_progress;

/// Where it is set, completion_poll waits here.
extern std::atomic<latch *> poll_gate;

/// A rule of the contract was broken.
void violation(const std::string &what);
std::string violations();

/// Objects of the port and requests that are alive.
extern std::atomic<int> live_objects;

/// Makes everything new. It says nothing about objects left: see live_objects.
void reset();

/// Set while this thread is inside an upcall.
class upcall {
public:
    upcall() { ++depth; }
    upcall(const upcall &) = delete;
    upcall &operator=(const upcall &) = delete;
    ~upcall() { --depth; }
    static thread_local int depth;
};

/// Counts the running upcalls for one object and ends them: what a fence needs.
class upcall_door {
public:
    bool enter()
    {
        std::uint32_t seen = state_.load();
        while ((seen & closed) == 0)
            if (state_.compare_exchange_weak(seen, seen + 1))
                return true;
        return false;
    }
    void leave() { state_.fetch_sub(1); }
    void open() { state_.fetch_and(~closed); }
    void close_and_wait()
    {
        state_.fetch_or(closed);
        if (upcall::depth != 0) {
            violation("a fence was called from inside an upcall");
            return;
        }
        while (state_.load() != closed)
            std::this_thread::yield();
    }

private:
    static constexpr std::uint32_t closed = 0x80000000;
    std::atomic<std::uint32_t> state_{closed};
};

/// Says that operations which shall not overlap do.
class exclusive {
public:
    exclusive(std::atomic<bool> &busy, const char *rule) : busy_(busy)
    {
        if (busy_.exchange(true))
            violation(rule);
    }
    exclusive(const exclusive &) = delete;
    exclusive &operator=(const exclusive &) = delete;
    ~exclusive() { busy_.store(false); }

private:
    std::atomic<bool> &busy_;
};

} // namespace lab
