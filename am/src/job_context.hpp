// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the parts of a job share: its adapter, queues and pools, and the peers.
//
// Locks are taken in this order: barrier, links, peer, shared receive queue, EVDs, pools. None is
// held while a handler of the program runs.
#pragma once

#include "dapl_am.h"
#include "ending.hpp"
#include "idle_wait.hpp"
#include "launcher.hpp"
#include "peer.hpp"
#include "proof.hpp"
#include "settings.hpp"
#include "work_pool.hpp"

#include <memory>

namespace am {

enum class job_stage : int { none, initialized, attached };

struct job_context {
    /// The most outstanding requests of one endpoint.
    static constexpr int depth = 64;

    job_context(ending &its_end, launcher &its_launcher) : end(its_end), starter(its_launcher) {}
    job_context(const job_context &) = delete;
    job_context &operator=(const job_context &) = delete;

    int rank() const { return starter.rank(); }
    int size() const { return starter.size(); }
    bool has_rank(int rank) const { return rank >= 0 && rank < size(); }
    peer &peer_of_rank(int rank) { return peers[static_cast<std::size_t>(rank)]; }

    /// Checks that a call may work on this rank: returns a status.
    int check_call(int rank) const;
    int check_call() const { return check_call(0); }
    /// Returns whether this thread may run handlers: it runs none now.
    bool may_poll() const { return check_call() == DAPL_AM_OK; }

    idle_wait make_wait() const { return {end, crowded}; }
    /// Takes a work request with memory, or one without. Ends the job if there is none at all.
    work_request &take_buffer() { return take(buffers); }
    work_request &take_bare() { return take(bare); }
    void give(work_request &w);

    /// Counts a peer as lost. If the job does not end by itself soon, it is ended.
    void lose(peer &p);
    /// Logs why operations of a connection have failed, and counts the peer as lost.
    void fail(peer &p, DAT_DTO_COMPLETION_STATUS status);

    ending &end;
    launcher &starter;
    settings set;
    secret key;
    char adapter[DAT_NAME_MAX_LENGTH] = "";
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    DAT_SEG_LENGTH max_rdma = 0;
    bool crowded = false;         ///< this host has more ranks than processors
    bool confirms_writes = false; ///< a write may complete before its data have arrived
    std::atomic<job_stage> stage{job_stage::none};
    DAT_CNO_HANDLE receive_cno = DAT_HANDLE_NULL; ///< the receive thread waits in it
    DAT_EVD_HANDLE receive_evd = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE request_evd = DAT_HANDLE_NULL;
    DAT_SRQ_HANDLE receives =
        DAT_HANDLE_NULL;      ///< shared by all peers; null where the adapter has none
    osd::mutex receives_lock; ///< guards posting to the shared receives
    osd::mutex receive_lock;  ///< guards taking events of receives
    osd::mutex request_lock;  ///< guards taking events of requests
    work_pool buffers;        ///< work requests with memory
    work_pool bare;           ///< work requests without memory
    std::unique_ptr<peer[]> peers;
    segment own_segment;
    DAT_LMR_CONTEXT segment_context = 0;
    std::atomic<int> lost_rank{-1}; ///< the first
    std::atomic<std::int64_t> lost_at{0};

private:
    work_request &take(work_pool &pool);
};

/// Marks a thread on which a handler of the program runs.
class handler_scope {
public:
    handler_scope();
    handler_scope(const handler_scope &) = delete;
    handler_scope &operator=(const handler_scope &) = delete;
    ~handler_scope();
};

} // namespace am
