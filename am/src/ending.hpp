// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// How a job ends. A thread of its own does it: it holds no lock of the program or of the library,
// whatever the other threads hold when a signal or a request to end comes.
//
// The ranks ask each other by connection requests, which the service thread of a rank takes even if
// the program spins, stands in a handler, or has not attached yet.
#pragma once

#include "job.hpp"

namespace am::ending {

/// Takes over signals and the end of main(), and starts the thread. @return a status
int open();

/// A detached thread that takes no signals but SIGQUIT.
bool start_thread(void *(*body)(void *));

/// The job ends with this code, unless it ends already. Returns.
void begin(int code);
bool begun();

/// Stands still if the job ends, but for the thread that ends it. For loops that wait.
void stand_if_begun();

/// For what cannot go on, after it was reported: ends the job. Does not return.
[[noreturn]] void fail();

/// On rank 0: may this rank ask all others to end? Only the first may.
bool grant(int rank);
/// The launcher has gone: nobody would end this rank.
void launcher_lost();
/// Another rank asks this one to end.
void asked(int code);

} // namespace am::ending
