// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The requests that a program sends.
#pragma once

#include "job_context.hpp"
#include "message.hpp"

namespace am {

class links;
class messenger;
class progress_engine;
class remote_memory;

class request_sender {
public:
    request_sender(job_context &job, links &connections, messenger &messages,
                   progress_engine &waits, remote_memory &memory)
        : job_(job), links_(connections), messages_(messages), progress_(waits), memory_(memory)
    {}

    /// Sends a request with a payload of this size. Returns a status.
    int send(int rank, message m, std::size_t size, unsigned flags);

private:
    int send_to_peer(peer &p, message &m, bool immediate);
    int send_long(peer &p, const message &m, bool immediate);

    job_context &job_;
    links &links_;
    messenger &messages_;
    progress_engine &progress_;
    remote_memory &memory_;
};

} // namespace am
