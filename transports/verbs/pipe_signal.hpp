// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A device in software may send on the thread that calls it.
#pragma once

#include "osd_annotations.hpp"

#include <csignal>

namespace dapl::verbs::vrb {

/// siw sends to its TCP connection inside the system call, without MSG_NOSIGNAL: where the peer has
/// closed that, the kernel raises SIGPIPE on the calling thread, which ends programs that have never
/// heard of a pipe. While this lives the signal is held back, and at its end taken away; for other
/// devices nothing is done.
class pipe_signal_hold {
public:
    explicit pipe_signal_hold(bool is_siw) : holds_(is_siw)
    {
        if (holds_) [[unlikely]]
            begin();
    }
    pipe_signal_hold(const pipe_signal_hold &) = delete;
    pipe_signal_hold &operator=(const pipe_signal_hold &) = delete;
    ~pipe_signal_hold()
    {
        if (holds_) [[unlikely]]
            end();
    }

private:
    void begin() OSD_COLD;
    void end() OSD_COLD;

    const bool holds_;
    bool was_pending_ = false; ///< the program's own
    sigset_t blocked_before_;
};

} // namespace dapl::verbs::vrb
