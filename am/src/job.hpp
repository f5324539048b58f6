// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The one job that a process belongs to: its objects, and the peers.
//
// Locks, in the order in which they may be taken: barrier, links, peer, those of the shared
// receive queue, the EVDs and pools. None is held while a handler of the program runs.
#pragma once

#include "buffers.hpp"
#include "launcher.hpp"
#include "proof.hpp"
#include "settings.hpp"

#include <memory>
#include <netinet/in.h>

namespace am {

enum class link_state : std::uint8_t { none, connecting, up };

/// What a rank makes known of its segment.
struct segment {
    std::uint64_t base = 0;
    std::uint64_t size = 0; ///< without the page of the barriers that follows
    DAT_RMR_CONTEXT context = 0;
    std::uint32_t unused = 0;

    bool holds(std::uint64_t address, std::uint64_t length) const
    {
        return length <= size && address >= base && address - base <= size - length;
    }
};

/// Where a rank listens.
struct location {
    sockaddr_in6 address{}; ///< of either family
    DAT_CONN_QUAL qualifier = 0;
};

/// What a rank tells the others through the launcher before they can connect.
struct introduction {
    location place;
    secret key; ///< of the job; rank 0's
    std::uint32_t credits;
    std::uint32_t put_barrier;
    char network[16]; ///< what the adapter connects by, where it tells
    char adapter[48];
};

/// Another rank. The lock guards the endpoint and all counts but `outstanding`.
struct peer {
    mutex lock;
    std::atomic<link_state> state{link_state::none};
    std::atomic<bool> lost{false};
    std::atomic<int> outstanding{0}; ///< requests posted whose completion has not been taken
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    int rank = 0;
    int credits = 0; ///< requests that may be sent now
    int spare_receives =
        0;                ///< posted for a reply that did not come, since its credit came otherwise
    int bank = 0;         ///< credits to give back with the next message
    bool granted = false; ///< receives for its credits are in the shared queue
    std::int64_t deadline = 0; ///< of connecting
    std::int64_t pause = 0;    ///< before the next attempt
    bool doubted = false;      ///< something else has accepted in its place, which was reported
    segment memory;
    location place;
    DAT_EP_HANDLE knock = DAT_HANDLE_NULL;  ///< asks the peer to connect
    std::uint64_t connect_number = 0;       ///< of the request of `ep` or `knock`
    std::atomic<std::uint64_t> requests{0}; ///< for connections to it; the number of the last
    // Of the service thread:
    std::int64_t retry_at = 0; ///< 0: no attempt is due
    number_window heard;
    // Of the thread that ends the job:
    DAT_EP_HANDLE ending_ep = DAT_HANDLE_NULL; ///< of the last request that is not answered yet
    std::uint64_t ending_number = 0;
    bool left = false; ///< has answered the request to end
};

class job {
public:
    /// Outstanding requests of one endpoint.
    static constexpr int depth = 64;

    int open(const DAPL_AM_OPTIONS *options);
    int attach(std::size_t segment_size);

    int rank() const { return starter.rank(); }
    int size() const { return starter.size(); }
    peer &at(int rank) { return peers[rank]; }
    bool valid(int rank) const { return rank >= 0 && rank < size(); }
    /// More ranks on this host than it has processors.
    bool crowded() const { return crowded_; }

    launcher starter;
    settings set;
    secret key;
    char adapter[DAT_NAME_MAX_LENGTH] = "";
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    DAT_SEG_LENGTH max_rdma = 0;
    bool confirms_writes = false; ///< their completion does not say that the data have arrived
    DAT_CNO_HANDLE receive_cno = DAT_HANDLE_NULL; ///< what the receive thread waits in
    DAT_EVD_HANDLE receive_evd = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE request_evd = DAT_HANDLE_NULL;
    DAT_SRQ_HANDLE receives = DAT_HANDLE_NULL; ///< of all peers; null where the adapter has none
    mutex receives_lock;                       ///< of posting to it
    mutex receive_lock;                        ///< of taking events from it
    mutex request_lock;
    work_pool buffers; ///< with memory
    work_pool bare;    ///< without
    std::unique_ptr<peer[]> peers;
    segment mine;
    DAT_LMR_CONTEXT segment_context = 0;
    std::atomic<int> stage{0}; ///< 1: initialized, 2: attached

private:
    int open_adapter();
    int open_first();
    int try_adapter(const char *name);
    int introduce();
    introduction own_introduction();
    int compare(const introduction &first, const introduction &other, int rank) const;
    int exchange_segments();

    bool crowded_ = false;
    char network_[16] = "";
};

/// Never destroyed: threads use it until the process ends.
extern job &the_job;

/// Microseconds of a clock that never goes back.
std::int64_t now();

/// Waits between polls that found nothing: longer and longer.
class idle_wait {
public:
    void pause(bool worked);

private:
    unsigned empty_ = 0;
};

/// Set while a handler of the program runs on this thread.
extern thread_local int in_handler;

} // namespace am
