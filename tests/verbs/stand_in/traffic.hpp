// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the device does with posted requests.
#pragma once

#include "world.hpp"

namespace stand_in {

/// Executes requests of a queue pair until one has to wait.
void run(queue_pair &);
/// Executes requests that wait for a receive of this queue pair, or of any.
void run_peer_of(queue_pair &);
void run_all();
/// Takes a queue pair to the error state, and flushes it.
void fail_pair(queue_pair &);
void raise(ibv_context *in, const ibv_async_event &event);

} // namespace stand_in
