// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// System calls of the engine that pass through the test program.
#pragma once

#include <atomic>

namespace rig {

/// The next sends fail with this error.
struct send_faults {
    std::atomic<int> error{0};
    std::atomic<int> left{0};
    std::atomic<bool> of_super_packets{false}; ///< of no others
    void set(int what, int count, bool only_super_packets = false)
    {
        error.store(what);
        of_super_packets.store(only_super_packets);
        left.store(count);
    }
};
extern send_faults failing_sends;

/// Calls for several messages fail with this error, as where a filter does not know them.
extern std::atomic<int> batches_refused;
/// The socket whose datagrams are not received before the next ICMP error, and then not before a
/// second one; -1 is none.
extern std::atomic<int> errors_first;

/// How often this thread has slept on descriptors.
extern thread_local int sleeps_here;

} // namespace rig
