// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// RDMA without the target's processor, where it is a process of the same host and user: the
// initiator copies straight between the memories of the two processes.
//
// All else of a connection goes over the network, also what direct access refuses, so that errors
// are found and told in one place. Two devices show each other their boards (direct_board) over a
// local socket, once the connection knows its peer: the side that asked for the connection calls
// the address of the other's data socket, and either names the tag that only the two of them know.
// The socket stays open for as long as the two processes live and know each other.
#pragma once

#include "direct_board.hpp"
#include "direct_peer.hpp"
#include "net.hpp"
#include "net_local.hpp"
#include "request.hpp"
#include "ring_paths.hpp"
#include "upcall_queue.hpp"

#include "osd_sync.hpp"

#include <atomic>
#include <memory>

namespace soft_hca {

/// The ends of a connection.
struct direct_names {
    std::uint32_t id;
    std::uint32_t tag;
    std::uint32_t peer_id;
    std::uint32_t peer_tag;
    bool calls; ///< asked for the connection
};

/// Who is told by a path_event what came of it; nobody by default.
struct direct_listener {
    upcall_queue *queue = nullptr;
    upcall_source *pair = nullptr;
};

class direct_access;

/// Of one connection. Its holder has the lock of the queue pair.
class direct_link {
public:
    /// Moves what a write or read says, whose local memory may be used. False when it has to go
    /// over the network; some of it may have been moved.
    bool move(const request &r);
    /// The peer has not ended an access in time.
    bool is_stuck() const { return stuck_.load(std::memory_order_relaxed); }
    /// `none` when it moves data, or does not know yet.
    local_obstacle outcome() const { return outcome_.load(std::memory_order_relaxed); }
    /// By which packets go to the peer, once there is one.
    const std::atomic<ring_path *> &ring() const { return ring_; }

private:
    friend class direct_access;
    enum class state : std::uint8_t { free, to_call, waits, shown, ending };
    static constexpr std::uint32_t most_bytes = 16 << 20; ///< of a claim

    std::ptrdiff_t try_to_move(direct_peer &peer, const request &r);
    std::ptrdiff_t copy_if_proven(direct_peer &peer, const request &r) const;
    std::ptrdiff_t copy(direct_peer &peer, const request &r) const;

    direct_board *own_ = nullptr;
    std::uint32_t gate_ = 0;
    state now_ = state::free; // this and all below down to peer_: under direct_access::lock_
    direct_names names_{};
    net_address to_;
    std::uint64_t token_ = 0;
    std::uint64_t zone_ = 0;
    std::uint32_t their_gate_ = 0;
    std::uint64_t their_token_ = 0;
    std::atomic<direct_peer *> peer_{nullptr}; ///< set while shown; what it and the gate are stays
    std::atomic<bool> stuck_{false};
    std::atomic<local_obstacle> outcome_{local_obstacle::none};
    direct_listener told_;
    ring_paths *rings_ = nullptr; // this and the next under direct_access::lock_
    ring_path *held_ = nullptr;
    std::atomic<ring_path *> ring_{nullptr}; ///< the same, once both sides have it
};

class direct_access {
public:
    direct_access() = default;
    direct_access(const direct_access &) = delete;
    direct_access &operator=(const direct_access &) = delete;
    ~direct_access() { close(); }

    /// Without it, everything goes over the network. `within`: what the thread sleeps on that calls
    /// serve().
    local_obstacle open(descriptor_set &within);
    /// Peers call the address of this data socket.
    void listen(const net_address &at);
    /// All links were ended.
    void close();
    bool is_open() const { return links_ != nullptr; }

    // --- memory

    void show(const memory_region &region);
    /// On return no peer accesses memory by this key any more, unless it was stopped in the middle
    /// of an access for a second: then its connection is to be ended.
    void withdraw(std::uint32_t key);

    // --- connections, by the holder of the queue pair's lock

    /// Null where the peer cannot be reached, or there are too many. `rings`: those of the shard,
    /// null where packets go over the network.
    direct_link *begin(const net_address &own, const net_address &peer, const direct_names &names,
                       const protection_domain *zone, const direct_listener &told = {},
                       ring_paths *rings = nullptr);
    /// On return the peer makes no access any more, with the same exception.
    void end(direct_link *&link);

    // --- the thread

    void serve();

    /// The last reason for which a peer was not granted access, or did not grant it.
    local_obstacle obstacle() const { return obstacle_.load(std::memory_order_relaxed); }

private:
    struct hello;
    /// A socket on which a hello is to come.
    struct talk {
        waitable socket = -1;
        direct_link *link = nullptr; ///< that called
        std::uint64_t token = 0;     ///< of this link
    };
    static constexpr std::uint32_t max_talks = 64;
    static constexpr std::uint32_t max_calls = peer_sockets::max_calls; ///< of them that are ours
    static constexpr std::uint32_t max_peers = 256;
    static constexpr std::uint32_t max_listeners = 16;

    local_obstacle prepare(descriptor_set &within);
    direct_link *free_link() OSD_REQUIRES(lock_);
    direct_link *link_of(const hello &said) OSD_REQUIRES(lock_);
    void note(local_obstacle why) { obstacle_.store(why, std::memory_order_relaxed); }
    void tell(direct_link &link, local_obstacle why) OSD_REQUIRES(lock_);
    void call_peers() OSD_REQUIRES(lock_);
    talk *place_for_call() OSD_REQUIRES(lock_);
    void call(direct_link &link, talk &by) OSD_REQUIRES(lock_);
    void accept_calls() OSD_REQUIRES(lock_);
    bool turn_away(waitable listener) OSD_REQUIRES(lock_);
    void answer(waitable socket) OSD_REQUIRES(lock_);
    void begin_talk(talk &with, waitable socket, direct_link *link) OSD_REQUIRES(lock_);
    waitable end_talk(talk &with) OSD_REQUIRES(lock_);
    void hear(talk &from) OSD_REQUIRES(lock_);
    bool say_hello(waitable socket, const direct_link &link) OSD_REQUIRES(lock_);
    void meet(waitable socket, bool answers, direct_link &link, const hello &said, waitable board,
              waitable ring) OSD_REQUIRES(lock_);
    local_obstacle introduce(waitable socket, bool answers, direct_link &link, const hello &said,
                             waitable board, waitable ring) OSD_REQUIRES(lock_);
    static bool meet_ring(direct_link &link, waitable ring);
    local_obstacle examine(direct_peer &met) OSD_REQUIRES(lock_);
    direct_peer *known(const direct_peer &met) const OSD_REQUIRES(lock_);
    direct_peer *keep(std::unique_ptr<direct_peer> met, waitable socket, bool called)
        OSD_REQUIRES(lock_);
    void forget_peers(bool also_idle) OSD_REQUIRES(lock_);
    void release(direct_peer &peer) OSD_REQUIRES(lock_);
    void mute_rings(const direct_peer &peer) OSD_REQUIRES(lock_);
    static bool ends_within(const direct_link &link, std::uint32_t key, std::int64_t ns);
    static bool outlast(const direct_link &link, std::uint32_t key);
    void shut_out(direct_link &link);

    osd::mutex lock_;
    shared_memory memory_;
    direct_board *board_ = nullptr;
    std::unique_ptr<direct_link[]> links_;
    std::uint32_t next_link_ OSD_GUARDED_BY(lock_) = 0;
    descriptor_set *within_ = nullptr;
    descriptor_set watched_;
    wake_signal called_;
    wake_signal spare_; ///< a descriptor that is given up to accept a call, and end it
    waitable listeners_[max_listeners] OSD_GUARDED_BY(lock_);
    std::uint32_t listening_ OSD_GUARDED_BY(lock_) = 0;
    talk talks_[max_talks] OSD_GUARDED_BY(lock_);
    std::uint32_t next_talk_ OSD_GUARDED_BY(lock_) = 0;
    direct_peer *peers_ OSD_GUARDED_BY(lock_) = nullptr;
    std::uint32_t peers_known_ OSD_GUARDED_BY(lock_) = 0;
    process_mark proof_; ///< read by peers from our memory, to see that it is ours
    std::atomic<local_obstacle> obstacle_{local_obstacle::none};
};

} // namespace soft_hca
