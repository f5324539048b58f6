// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A second thread of a case, that waits in a call, is cancelled or gets a signal.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <pthread.h>
#include <thread>

namespace conformance {

/// From now on SIGUSR1 interrupts system calls and does no more.
void catch_signal();

/// A thread that is joined, and whose work tells when it is about to begin.
class helper_thread {
public:
    explicit helper_thread(std::function<void()> work);
    ~helper_thread();
    void join();
    bool finished() const { return *finished_; }
    /// Looks twice, for it may be on its way to where it sleeps.
    bool sleeps() const;
    /// Until it sleeps in the kernel, as far as can be seen from outside: its work has begun, and
    /// it was found asleep twice.
    void await_asleep() const;
    pthread_t native() { return thread_.native_handle(); }
    /// Goes on without it: it does not end.
    void leave_behind() { thread_.detach(); }
    bool gone() const;

private:
    bool asleep() const;

    std::shared_ptr<std::atomic<bool>> finished_;
    std::shared_ptr<std::atomic<long>> id_; ///< the system's, once it runs
    std::thread thread_;
};

/// Cancels the thread and waits for its end. False when it does not end; it is then left behind.
bool ends_by_cancel(helper_thread &waiting);
/// Both kinds of cancellation, for the thread that is to be cancelled.
inline constexpr int cancel_types[] = {PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS};

/// Signals the thread, after catch_signal, until what it waits in returns. False when that goes on.
bool ends_by_signal(helper_thread &waiting);

} // namespace conformance
