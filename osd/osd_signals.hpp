// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which handlers of signals end a wait: those that were installed without SA_RESTART.
//
// Where the system restarts a call by this rule itself, it decides. Where a call ends for every
// handler, these tell afterwards. That is not possible as long as handlers of both kinds might
// have run; a sleep therefore holds those with SA_RESTART back until it has noticed them, once
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

/// Whether the wait ends, after a handler has ended a system call. It was not that of a signal that
/// was held back. Where handlers of both kinds might have run, it is taken for one with SA_RESTART
/// if such have run in waits before.
bool handler_ends_wait(signal_set held_back);
/// The same after one of these, which was held back, has come.
bool held_back_ends_wait(signal_set came);

} // namespace osd
