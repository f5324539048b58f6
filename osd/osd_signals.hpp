// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Tells which handlers of signals end a wait: handlers that were installed without SA_RESTART.
//
// Where the system restarts a call by this rule itself, it decides. Where a call ends for every
// handler, these tell afterwards. That is not possible as long as handlers of both kinds might
// have run; a sleep therefore holds signals with SA_RESTART back until it has noticed them, once
// both kinds are known to be there.
#pragma once

#include <cstdint>

namespace osd {

/// Signals as bits: number n is bit n - 1.
using signal_set = std::uint64_t;

/// Finds out what handlers there are, so that the first signal of a wait can be told, too.
void look_at_signal_handlers();

/// What the next sleep has to hold back: nothing, where all handlers are of one kind.
signal_set signals_to_hold_back();

/// Whether the wait ends, after a handler has ended a system call. Its signal was not held back. If
/// handlers of both kinds might have run, SA_RESTART is assumed if such handlers have run in waits
/// before.
bool handler_ends_wait(signal_set held_back);
/// Whether the wait ends, after a signal of `came`, which was held back, has come.
bool held_back_ends_wait(signal_set came);

} // namespace osd
