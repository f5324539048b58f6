// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Posting to a peer, and taking completions of requests. No handler runs in here.
#pragma once

#include "job_context.hpp"

namespace am {

/// Takes completions of requests: buffers become free, operations complete. Stops when `awaited` is
/// complete: to find a queue empty may be a system call, which takes as long as a small put.
/// Returns whether there were any.
bool reap(job_context &job, const dapl_am_op *awaited = nullptr);

/// Posts a receive, which a shared queue may give to another peer.
void post_receive(peer &p, work_request &w) OSD_REQUIRES(p.lock);

/// Returns whether the peer's request queue has a place.
inline bool has_room(const peer &p)
{
    return p.outstanding.load(std::memory_order_acquire) < job_context::depth;
}

// These three want a place on the peer's request queue.

void post_send(peer &p, work_request &w) OSD_REQUIRES(p.lock);
void post_write(peer &p, work_request &w, const DAT_LMR_TRIPLET &local,
                const DAT_RMR_TRIPLET &remote) OSD_REQUIRES(p.lock);
/// `kind` says what becomes of the data: transfer or read_copy.
void post_read(peer &p, work_request &w, work_kind kind, const DAT_LMR_TRIPLET &local,
               const DAT_RMR_TRIPLET &remote) OSD_REQUIRES(p.lock);

/// Holds the peer's lock while its request queue has a place, and takes completions until it has.
class OSD_SCOPED_CAPABILITY room_lock {
public:
    explicit room_lock(peer &p) OSD_ACQUIRE(p.lock);
    room_lock(const room_lock &) = delete;
    room_lock &operator=(const room_lock &) = delete;
    ~room_lock() OSD_RELEASE() { lock_.unlock(); }

private:
    osd::mutex &lock_;
};

} // namespace am
