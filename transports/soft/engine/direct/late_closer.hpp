// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Closes descriptors whose close may take as long as somebody else likes.
//
// A file that was sent to a local socket is closed with that socket, if nobody has received it, and
// its last close takes as long as its sender has arranged. So where the system lets strangers send
// files (before Linux 6.16), their sockets are closed by a thread of their own. The first such
// socket starts the thread, which is left behind if it has not come to an end with the device.
#pragma once

#include "net/packet_io.hpp"

#include <cstdint>

namespace soft_hca {

class late_closer {
public:
    static constexpr std::uint32_t most_strangers = 64;

    late_closer() = default;
    late_closer(const late_closer &) = delete;
    late_closer &operator=(const late_closer &) = delete;
    ~late_closer() { end(); }

    /// Strangers can send no files: their sockets are closed at once.
    void trust() { trusts_ = true; }
    /// Whether more strangers may come.
    bool has_room() const;
    /// Takes over a descriptor, or none if it is negative. Waits for no close, but where there is
    /// no thread or no memory for one.
    void take(waitable descriptor);
    /// Takes over a listener, with the callers in its backlog.
    void take_listener(waitable listener);
    /// Waits a moment for the thread to close its sockets.
    void end();

private:
    class worker;

    bool begin();

    worker *worker_ = nullptr;
    bool trusts_ = false;
};

} // namespace soft_hca
