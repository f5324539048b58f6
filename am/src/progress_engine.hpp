// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Progress of a job: what a poll does, and the waits that poll.
#pragma once

#include "job_context.hpp"
#include "message.hpp"

namespace am {

class barrier;
class links;
class messenger;
class remote_memory;

class progress_engine {
public:
    progress_engine(job_context &job, links &connections, messenger &messages, barrier &barriers,
                    remote_memory &memory)
        : job_(job), links_(connections), messages_(messages), barrier_(barriers), memory_(memory)
    {}

    /// Starts the thread that takes messages while the program does not poll. Returns a status.
    int start_receive_thread();

    /// Takes arrived messages and runs their handlers. Returns whether there was anything. Not from
    /// handlers.
    bool poll();
    /// Takes completions of requests, and polls unless a handler runs on this thread.
    bool poll_all();

    /// Waits until a transfer is complete, and polls unless a handler runs on this thread.
    void await(dapl_am_op &op);
    /// Waits until a peer is connected, and polls.
    void await_connection(peer &p);
    /// Waits for credit and room as well, and sends a request.
    void send_request(peer &p, const message &m);
    /// Sends a request unless it would have to wait. Returns a status.
    int try_request(peer &p, const message &m);

    std::uint64_t polls_with_work() const { return work_; }
    std::uint64_t credit_waits() const { return credit_waits_; }

private:
    static void *run_receive_thread(void *self);
    bool try_request_twice(peer &p, const message &m);

    job_context &job_;
    links &links_;
    messenger &messages_;
    barrier &barrier_;
    remote_memory &memory_;
    std::atomic<std::uint64_t> work_{0};
    std::atomic<std::uint64_t> credit_waits_{0};
};

} // namespace am
