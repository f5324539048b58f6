// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// SIGPIPE of devices in software, which send on the thread that posts.
#pragma once

#include "osd_annotations.hpp"

#include <cstdint>

namespace dapl::port_support {

/// A device that sends to a TCP connection inside a call, without MSG_NOSIGNAL, raises SIGPIPE on
/// the calling thread where the peer has closed that connection. By default this ends the program,
/// which never used a pipe. While this object lives the signal is blocked on this thread, and a
/// signal that came is discarded at the end. If `sends_inside` is false, nothing is done.
class pipe_signal_hold {
public:
    explicit pipe_signal_hold(bool sends_inside) : holds_(sends_inside)
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
    bool was_pending_ = false; ///< the program itself had raised it before
    std::uint64_t blocked_before_ = 0;
};

} // namespace dapl::port_support
