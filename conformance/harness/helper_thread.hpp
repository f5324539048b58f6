// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A second thread of a case, that waits in a call, is cancelled or gets a signal.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

namespace conformance {

/// Whether a handler in a waiting thread can end the wait. Where none can, a thread is held up and
/// let go in place of a signal that ends nothing.
extern const bool waits_are_interrupted;
/// Whether a waiting thread can be cancelled.
extern const bool threads_are_cancelled;
/// Whether a process can be copied, by fork().
extern const bool processes_are_copied;

enum class signal_kind {
    interrupting, ///< its handler ends system calls
    restarting    ///< its handler does not: SA_RESTART
};
/// Installs a handler that only counts.
void catch_signal(signal_kind which);

/// A thread that is joined by its destructor, and whose state can be observed.
class helper_thread {
public:
    explicit helper_thread(std::function<void()> work);
    helper_thread(const helper_thread &) = delete;
    helper_thread &operator=(const helper_thread &) = delete;
    ~helper_thread();
    void join();
    bool finished() const { return *finished_; }
    /// Checks twice: a thread may sleep shortly on its way to the wait.
    bool sleeps() const;
    /// Waits until it sleeps in the kernel, as far as can be observed: its work has begun, and it
    /// was asleep in two successive checks.
    void await_asleep() const;
    /// Detaches the thread, which does not end.
    void leave_behind() { thread_.detach(); }
    bool gone() const;
    /// Cancels it, where threads are cancelled.
    void cancel();
    /// Makes it run the handler of such a signal, if it is not finished. False if that does not
    /// happen in time.
    bool disturb(signal_kind which);
    /// Keeps it from returning from its wait, in a signal handler where there are any.
    bool hold_up();
    void let_go();

private:
    static std::intptr_t own_id();
    bool asleep() const;

    std::shared_ptr<std::atomic<bool>> finished_;
    std::shared_ptr<std::atomic<std::intptr_t>> id_; ///< the system's, once it runs
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
enum class cancel_type { deferred, asynchronous };
inline constexpr cancel_type cancel_types[] = {cancel_type::deferred, cancel_type::asynchronous};
void accept_cancellation(cancel_type how);

/// Signals the thread, after catch_signal, until its wait returns. False if it does not return.
bool ends_by_signal(helper_thread &waiting);
/// Signals, with restarting handlers, a thread that waits for a limited time again and again, until
/// that time is over. False if the wait does not end.
bool ends_despite_signals(helper_thread &waiting);
/// Signals the waiting thread several times, with restarting handlers, and sees each handler run.
/// False if the wait has ended by then.
bool outlives_signals(helper_thread &waiting);

/// The exit status of a copy of this process that runs the work and ends, without what libraries do
/// then. -1 if it does not end in time or is killed.
int status_of_copy(const std::function<int()> &work);

} // namespace conformance
