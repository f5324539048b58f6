// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Threads and process identity, Linux.
#pragma once

#include <atomic>
#include <pthread.h>

namespace osd {

/// A service thread. It runs with all signals blocked, so that the consumer's handlers never run
/// on it. join() before destruction.
class thread {
public:
    thread() = default;
    thread(const thread &) = delete;
    thread &operator=(const thread &) = delete;

    /// `name` (at most 15 characters) shows in ps and gdb. False when the system has no thread
    /// left.
    [[nodiscard]] bool start(const char *name, void (*body)(void *), void *argument);
    bool running() const { return running_; }
    void join();
    bool is_current() const { return pthread_equal(self_.load(), pthread_self()) != 0; }

private:
    static void *enter(void *self);

    pthread_t native_{};            ///< for join
    std::atomic<pthread_t> self_{}; ///< set by the thread, before the body runs
    void (*body_)(void *) = nullptr;
    void *argument_ = nullptr;
    char name_[16] = {};
    bool running_ = false;
};

long process_id();
long thread_id();
void yield();

} // namespace osd
