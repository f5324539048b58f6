// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How a job ends. A thread of its own does it: it holds no lock of the program or of the library,
// whatever the other threads hold when a signal or a request to end comes.
//
// The ranks ask each other by connection requests, which the service thread of a rank takes even if
// the program spins, stands in a handler, or has not attached yet.
#pragma once

#include "links.hpp"

#include <csignal>

namespace am {

class end_of_job {
public:
    end_of_job(job_context &job, links &connections) : job_(job), links_(connections) {}

    /// Takes over signals and the end of main(), and starts the thread. One job of a process can do
    /// so. Returns a status.
    int open();

private:
    enum class role { master, slave, alone };

    /// The program's signal handlers and alarm, to be given back. Handlers of SIGSEGV and other
    /// crashes stay the program's.
    struct kept_signals {
        struct sigaction quit;
        struct sigaction alarm;
        unsigned seconds; ///< left of the program's own alarm
    };

    static void on_signal(int number);
    static void on_alarm(int number);
    static void on_return(int code, void *self);
    static void run_thread(void *self);
    static void finish(void *self);

    static void raise_sigquit();
    void take_signal();
    void bound_by_alarm();
    void release_signals() const;

    void run();
    bool coordinate();
    role elect(std::int64_t until);
    bool ask_all(std::int64_t until);
    bool await_request(std::int64_t until);
    [[noreturn]] void leave_process();

    static end_of_job *of_process;

    job_context &job_;
    links &links_;
    std::atomic<int> signal_{0};         ///< asked for the end
    std::atomic<bool> by_return_{false}; ///< the program ends the process itself, after us
    std::atomic<bool> done_{false};
    std::int64_t limit_ = 0; ///< microseconds
    kept_signals kept_{};
};

} // namespace am
