// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Posting to a peer, and taking completions of requests. No handler runs in here.
#pragma once

#include "job.hpp"

namespace am {

/// Takes completions of requests: buffers become free, operations complete. Stops when `awaited` is
/// complete: to find a queue empty may be a system call, which takes as long as a small put.
/// @return whether there were any
bool reap(const dapl_am_op *awaited = nullptr);

/// Posts a receive, which a shared queue may give to another peer. The peer's lock is held, unless
/// its endpoint is not known to others yet.
void post_receive(peer &p, work &w);

/// Has a place on the peer's request queue, or none is free now. The peer's lock is held.
bool has_room(const peer &p);

/// Post; the peer's lock is held and has_room() was true.
void post_send(peer &p, work &w);
void post_write(peer &p, work &w, const DAT_LMR_TRIPLET &local, const DAT_RMR_TRIPLET &remote);
void post_read(peer &p, work &w, const DAT_LMR_TRIPLET &local, const DAT_RMR_TRIPLET &remote);

/// Takes the peer's lock when there is room, and takes completions until there is.
held lock_with_room(peer &p);

/// A buffer; waits for one where memory is short. Ends the job if there is none at all.
work &take_buffer();
work &take_bare();

} // namespace am
