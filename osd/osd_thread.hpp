// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Threads and process identity.
#pragma once

#include "native_thread.hpp"
#include "osd_annotations.hpp"

#include <atomic>
#include <cstdint>

namespace osd {

/// A service thread. The consumer's signal handlers never run on it. join() or leave()
/// before destruction.
class thread {
public:
    thread() = default;
    thread(const thread &) = delete;
    thread &operator=(const thread &) = delete;

    /// `name` (at most 15 characters) shows in debuggers. False and errno when the system
    /// has no thread left.
    [[nodiscard]] bool start(const char *name, void (*body)(void *), void *argument);
    bool running() const { return running_; }
    void join();
    /// Instead of join(): the thread goes on, and uses this object until its body returns.
    void leave();
    bool is_current() const { return self_.load() == native::current_thread(); }

private:
    static native::thread_result enter(void *self);

    native::thread native_{};               ///< handle for join
    std::atomic<native::thread_id> self_{}; ///< set by the thread, before the body runs
    void (*body_)(void *) = nullptr;
    void *argument_ = nullptr;
    char name_[16] = {};
    bool running_ = false;
};

long process_id();
/// Registers a call that each fork() makes in the child, as long as the library that registers it
/// is loaded; the child's only thread then is the forking thread. True also on systems without
/// fork().
[[nodiscard]] bool call_in_forked_children(void (*what)());
long thread_id();
void yield();

/// The pauses of a loop that waits for something another thread is about to do. The first hundred
/// yield, which passes the processor only to threads of equal priority; the others are sleeps of 50
/// us to a millisecond. No cancellation point.
class backoff {
public:
    void pause();

private:
    static constexpr unsigned most_yields = 100;
    static constexpr unsigned first_sleep_us = 50;
    static constexpr unsigned longest_sleep_us = 1000;

    unsigned yields_ = 0;
    unsigned sleep_us_ = first_sleep_us;
};

/// Returns when the condition holds no longer.
template <class Condition>
void wait_while(Condition &&condition)
{
    for (backoff pauses; condition();)
        pauses.pause();
}

/// What algorithms without locks need of threads. A test that runs all orders of their steps passes
/// another type in its place.
struct real_threads {
    template <class T>
    using atomic = std::atomic<T>;

    /// Returns when the condition holds no longer. It holds for some instructions of another
    /// thread, unless that is preempted.
    template <class Condition>
    static void wait_while(Condition &&condition)
    {
        for (int looks = 0; looks < 100; ++looks)
            if (!condition())
                return;
        osd::wait_while(condition);
    }
    /// As above, by pauses from the first look on: the other thread may do more meanwhile.
    template <class Condition>
    static void yield_while(Condition &&condition)
    {
        osd::wait_while(condition);
    }
    /// A number of the calling thread, which no other living thread has. It is not 0.
    static OSD_ALWAYS_INLINE std::uintptr_t self() { return native::thread_number(); }
    static void fence_all_threads(); ///< needs osd_fence.hpp
    static void compiler_fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }
};

/// Raises the priority of the calling thread over that of its process, so that it runs soon after
/// it wakes although other threads are busy. `steps` are steps of nice(2), at most 20. A thread
/// that it starts gets the default priority if the caller's is above that. False, and nothing
/// changed, when the system does not allow it.
bool raise_priority(unsigned steps);

} // namespace osd
