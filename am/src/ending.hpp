// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The state of the end of a job in this process: whether somebody has asked for it, and the exit
// code. Every part that cannot go on asks here; end_of_job.hpp then ends the job.
#pragma once

#include <atomic>
#include <pthread.h>
#include <semaphore.h>
#include <sys/types.h>

namespace am {

class ending {
public:
    /// What ends the process.
    struct actions {
        void (*run)(void *argument);    ///< the body of the thread that ends it
        void (*finish)(void *argument); ///< ends it on that thread, in a handler of the program
        void *argument;
    };

    ending() { sem_init(&wake_, 0, 0); }
    ending(const ending &) = delete;
    ending &operator=(const ending &) = delete;

    /// Starts the thread that ends the process. Returns a status.
    int open(const actions &what);

    /// Asks for the end with this code, which counts unless another one came before. Returns.
    void begin(int code);
    /// Asks for the end because another rank has asked this one.
    void begin_for_other(int code);
    /// Asks for the end since the launcher has gone: nobody else would end this rank.
    void begin_without_launcher();
    /// Ends the job with this code. Does not return. Until open() it ends this process alone.
    [[noreturn]] void exit(int code);
    /// Ends the job after a failure that was reported. Does not return.
    [[noreturn]] void fail() { exit(1); }
    /// Lets the ending thread go on. Safe in signal handlers.
    void wake();

    bool begun() const { return begun_.load(std::memory_order_relaxed); }
    /// Keeps every thread but the ending one from returning once the end has begun. Loops that wait
    /// call it.
    void stand_if_begun() const
    {
        if (begun() && !is_on_thread()) [[unlikely]]
            stand();
    }

    /// Lets one rank ask all others to end: the first that wants to. Rank 0 decides it.
    bool grant(int rank);

    /// Sets the exit code. False when there is one.
    bool set_code(int code);
    bool has_code() const { return code_.load() != no_code; }
    int code() const { return has_code() ? code_.load() : 0; }
    bool is_begun_by_other() const { return by_other_.load(); }
    bool is_requested() const { return requested_.load(); }
    bool is_on_thread() const;
    /// False in a forked child, which ends alone.
    bool is_of_this_process() const;

private:
    static constexpr int no_code = -1;

    static void *run_thread(void *self);
    [[noreturn]] static void stand();

    std::atomic<int> code_{no_code};
    std::atomic<bool> begun_{false};
    std::atomic<bool> by_other_{false};
    std::atomic<bool> requested_{false}; ///< another rank has asked this one to end
    std::atomic<bool> open_{false};
    std::atomic<int> granted_{-1};
    sem_t wake_;
    pthread_t thread_{};
    pid_t process_ = 0;
    actions actions_{};
};

} // namespace am
