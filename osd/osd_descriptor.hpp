// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A descriptor that a program polls, and that the library makes readable: an eventfd on Linux.
#pragma once

#include "native_descriptor.hpp"

namespace osd {

/// The open file `fd` at a descriptor that is not one of the standard ones, closed in programs that
/// are executed: who has closed these still writes there. All that a library keeps is passed
/// through this. -1 for -1, and where the process may have no more; errno then says why.
[[nodiscard]] int beyond_standard(int fd);

/// Opens those of the standard descriptors that are closed, to nothing, before another library
/// opens files of its own. They stay: who has closed them has no use for them.
void occupy_standard();

/// A descriptor that polls as readable between raise() and lower(). It is only polled, never read.
class event_descriptor {
public:
    event_descriptor() = default;
    event_descriptor(const event_descriptor &) = delete;
    event_descriptor &operator=(const event_descriptor &) = delete;
    ~event_descriptor() { close(); }

    static constexpr bool exists = native_descriptors_exist; ///< on this system

    /// False where the system has no more of them, or none at all.
    [[nodiscard]] bool open();
    void close();
    bool is_open() const { return fd_ >= 0; }
    int get() const { return fd_; }

    // Nothing happens to one that is not open.
    void raise();
    void lower();

private:
    int fd_ = -1;
};

} // namespace osd
