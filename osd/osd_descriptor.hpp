// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A descriptor that a program polls, and that the library makes readable: an eventfd on Linux, a
// socket on Windows. And how a thread sleeps on descriptors.
#pragma once

#include "native_descriptor.hpp"
#include "osd_sync.hpp"

#include <cstdint>
#include <span>

namespace osd {

/// Moves the open file `fd` to a descriptor above the standard ones, closed in programs that are
/// executed: a program that has closed the standard descriptors still writes to them. Every
/// descriptor that a library keeps is passed through this. -1 for -1, and if the process may have
/// no more; errno then says why.
[[nodiscard]] int beyond_standard(int fd);

/// Opens the standard descriptors that are closed, to nothing, before another library opens files
/// of its own. They stay: a program that has closed them has no use for them.
void occupy_standard();

/// A descriptor that polls as readable between raise() and lower(). It is only polled, never read.
class event_descriptor {
public:
    event_descriptor() = default;
    event_descriptor(const event_descriptor &) = delete;
    event_descriptor &operator=(const event_descriptor &) = delete;
    ~event_descriptor() { close(); }

    static constexpr bool exists = native_descriptors_exist; ///< whether this system has any

    /// Opens the descriptor. False if the system has none left, or has no such descriptors.
    [[nodiscard]] bool open();
    void close();
    bool is_open() const { return fd_ >= 0; }
    int get() const { return fd_; }

    // These do nothing to a descriptor that is not open.
    void raise();
    void lower();

private:
    int fd_ = -1;
};

inline constexpr std::size_t most_readable = 40;

/// Sleeps until a descriptor is readable, or the deadline has passed; negative descriptors are left
/// out. When it was woken, `ready` has a bit for each readable descriptor. If the system refuses to
/// sleep on them, it says so after a millisecond. Its only cancellation points are sleeps.
wait_result wait_readable(std::span<const int> descriptors, deadline until, std::uint64_t &ready);

} // namespace osd
