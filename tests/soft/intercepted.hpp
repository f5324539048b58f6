// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// System calls of the engine that pass through the test program.
#pragma once

#include <atomic>

namespace rig {

/// The next sends fail with this error.
struct send_faults {
    std::atomic<int> error{0};
    std::atomic<int> left{0};
    std::atomic<bool> of_super_packets{false}; ///< fails super-packets only
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

/// The system lets everybody send files to local sockets, as Linux did before 6.16.
extern std::atomic<bool> files_taken_of_all;
/// The thread whose closes of descriptors are counted; other threads' closes wait while there is
/// one.
struct watched_closes {
    std::atomic<long> of_thread{0};
    std::atomic<int> count{0};
};
extern watched_closes watched_closes_now;

/// How often this process has had the system copy between its own memory and rings or datagrams.
extern std::atomic<int> copies_by_system;

/// How often this process has read the memory of a process for a look at it.
extern std::atomic<int> reads_of_processes;

/// How often this thread has slept on descriptors.
extern thread_local int sleeps_here;

} // namespace rig
