// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Closes descriptors whose close may take as long as somebody else likes.
//
// A file that was sent to a local socket is closed with that socket, if nobody has received it, and
// its last close takes as long as its sender has arranged. So where the system lets strangers send
// files (before Linux 6.16), their sockets are closed by a thread of their own. It is started by
// the first of them, and is left behind if it has not come to an end with the device.
#pragma once

#include "packet_io.hpp"

#include <cstdint>

namespace soft_hca {

class late_closer {
public:
    static constexpr std::uint32_t most_strangers = 64;

    late_closer() = default;
    late_closer(const late_closer &) = delete;
    late_closer &operator=(const late_closer &) = delete;
    ~late_closer() { end(); }

    /// Whether more strangers may come.
    bool has_room() const;
    /// Takes over a descriptor; never waits, but where there is no thread or no memory for one.
    void take(waitable descriptor);
    /// Waits a moment for the thread to close what it has been given.
    void end();

private:
    class worker;

    bool begin();

    worker *worker_ = nullptr;
};

} // namespace soft_hca
