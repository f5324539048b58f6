// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A second thread of a case, that waits in a call, is cancelled or gets a signal.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <pthread.h>
#include <thread>

namespace conformance {

/// Installs a handler that only counts. Without SA_RESTART it interrupts system calls.
void catch_signal(int number = SIGUSR1, int flags = 0);

/// A thread that is joined by its destructor, and whose state can be observed.
class helper_thread {
public:
    explicit helper_thread(std::function<void()> work);
    ~helper_thread();
    void join();
    bool finished() const { return *finished_; }
    /// Checks twice: a thread may sleep shortly on its way to the wait.
    bool sleeps() const;
    /// Waits until it sleeps in the kernel, as far as can be observed: its work has begun, and it
    /// was asleep in two successive checks.
    void await_asleep() const;
    pthread_t native() { return thread_.native_handle(); }
    /// Detaches the thread, which does not end.
    void leave_behind() { thread_.detach(); }
    bool gone() const;

private:
    bool asleep() const;

    std::shared_ptr<std::atomic<bool>> finished_;
    std::shared_ptr<std::atomic<long>> id_; ///< the system's, once it runs
    std::thread thread_;
};

/// Ends what a helper thread repeats, also where the case breaks off: made after the thread, so
/// that it comes before the thread is joined.
struct set_at_end {
    std::atomic<bool> &stopping;
    ~set_at_end() { stopping = true; }
};

/// Cancels the thread and waits for its end. False if it does not end; it is then detached.
bool ends_by_cancel(helper_thread &waiting);
/// Both kinds of cancellation, for the thread that is to be cancelled.
inline constexpr int cancel_types[] = {PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS};

/// Signals the thread, after catch_signal, until its wait returns. False if it does not return.
bool ends_by_signal(helper_thread &waiting);
/// Signals a thread that waits for a limited time again and again, after catch_signal, until that
/// time is over. False if the wait does not end.
bool ends_despite_signals(helper_thread &waiting, int number);
/// Signals the waiting thread several times, after catch_signal, and sees each handler run. False
/// if the wait has ended by then.
bool outlives_signals(helper_thread &waiting, int number);

} // namespace conformance
