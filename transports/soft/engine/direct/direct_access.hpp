// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// RDMA without the target's processor, if the peer is a process of the same host and user: the
// initiator copies straight between the memories of both processes.
//
// All other operations of a connection go over the network, and so do RDMA operations that direct
// access refuses: errors are found and reported in one place. Of a long send that goes through a
// ring, the receiver copies the payload out of the sender's memory (fetch()). When a connection is
// established, its two devices exchange their boards (direct_board) over a local socket. The active
// side connects it to the name that is derived from the address of the peer's data socket; both
// prove that they know the connection before they show anything (direct_greeting). The socket then
// stays open: its end shows that the peer has closed its device or exited.
#pragma once

#include "direct_board.hpp"
#include "direct_greeting.hpp"
#include "direct_peer.hpp"
#include "interface/request.hpp"
#include "late_closer.hpp"
#include "net/net.hpp"
#include "net/net_local.hpp"
#include "net/ring_paths.hpp"
#include "thread/upcall_queue.hpp"

#include "osd_sync.hpp"

#include <atomic>
#include <memory>

namespace soft_hca {

/// The queue pair that gets a path_event once the outcome of its link is known, and the queue for
/// the event. Null: no event.
struct direct_listener {
    upcall_queue *queue = nullptr;
    upcall_source *pair = nullptr;
};

class direct_access;

/// The direct path of one connection, used under the lock of its queue pair.
class direct_link {
public:
    /// Executes an RDMA write or read whose local segments are valid. False if it has to go over
    /// the network; a part may have been copied.
    bool move(const request &r);
    /// Whether the peer may be able to fetch() from our memory, as far as is known here.
    bool may_be_fetched_from() const
    {
        const direct_peer *const peer = peer_.load(std::memory_order_acquire);
        return peer != nullptr && peer->open_to_us &&
               !peer->forbidden.load(std::memory_order_relaxed);
    }
    /// Copies `size` bytes of the peer's memory, of a send that it has not completed, to ours; the
    /// pieces have that size on both sides. False if they cannot be copied, or the peer has ended
    /// the connection: pieces of ours may have changed all the same.
    bool fetch(const bytes_view *from, std::uint32_t from_count, const bytes_view *to,
               std::uint32_t to_count, std::uint32_t size);
    /// The peer is in an access to our memory that it has not ended in time.
    bool is_stuck() const { return stuck_.load(std::memory_order_relaxed); }
    /// Why RDMA operations go over the network; `none` if they do not, or while that is unknown.
    local_obstacle outcome() const { return outcome_.load(std::memory_order_relaxed); }
    /// The ring for packets to the peer; null until both sides have mapped the other's ring file.
    const std::atomic<ring_path *> &ring() const { return ring_; }

private:
    friend class direct_access;
    enum class state : std::uint8_t {
        free,
        to_call, ///< active side: the local socket is not connected yet
        waits,   ///< waits for the hello of the peer
        shown,   ///< the board of the peer is mapped
        ending,
    };
    static constexpr std::uint32_t most_bytes = 16 << 20; ///< copied under a claim

    /// The peer may access our memory through it, or may be in an access that began before.
    bool is_accessible() const { return peer_.load(std::memory_order_relaxed) != nullptr; }
    bool ends_by(std::uint64_t name, std::int64_t until_ns) const;
    bool outlast(std::uint64_t name, std::int64_t since_ns) const;
    const board_name &name_of(std::uint32_t key);
    bool meet_ring(waitable ring);
    std::ptrdiff_t try_to_move(direct_peer &peer, const request &r);
    std::ptrdiff_t copy_if_proven(direct_peer &peer, const request &r) const;
    std::ptrdiff_t copy(direct_peer &peer, const request &r) const;

    direct_board *own_ = nullptr;
    std::uint32_t gate_ = 0;
    state now_ = state::free; // this and all below down to peer_: under direct_access::lock_
    direct_names names_{};
    net_address to_;
    std::uint64_t token_ = 0;
    osd::siphash_key zone_; ///< the secret of the zone
    std::uint32_t their_gate_ = 0;
    std::uint64_t their_token_ = 0;
    osd::siphash_key their_zone_;
    std::uint32_t named_ = 0; ///< the key that name_ is made of; 0: none
    board_name name_;
    std::atomic<direct_peer *> peer_{nullptr}; ///< constant from `shown` to end()
    std::atomic<bool> stuck_{false};
    std::atomic<local_obstacle> outcome_{local_obstacle::none};
    direct_listener told_;
    ring_paths *rings_ = nullptr; // this and the next under direct_access::lock_
    ring_path *held_ = nullptr;
    std::atomic<ring_path *> ring_{nullptr}; ///< held_, once both sides have mapped it
};

class direct_access {
public:
    direct_access() = default;
    direct_access(const direct_access &) = delete;
    direct_access &operator=(const direct_access &) = delete;
    ~direct_access() { close(); }

    /// If this fails, everything goes over the network. `within`: the descriptors for which the
    /// thread that calls serve() waits.
    local_obstacle open(descriptor_set &within);
    /// Accepts calls of peers by the local socket that is named after this data socket.
    void listen(const net_address &at);
    /// All links must have been ended.
    void close();
    bool is_open() const { return links_ != nullptr; }

    // --- memory

    void show(const memory_region &region);
    /// Withdraws a key: on return no peer accesses memory by this key any more. The exception is a
    /// peer that has been stopped inside an access for a second: its link is_stuck(), and its
    /// connection must be ended.
    void withdraw(std::uint32_t key, const protection_domain *zone);

    // --- connections, by the holder of the queue pair's lock

    /// Returns null if the peer is on another host, or there are too many links. `rings`: the
    /// shard's; null if all packets go over the network.
    direct_link *begin(const net_address &own, const net_address &peer, const direct_names &names,
                       const protection_domain *zone, const direct_listener &told = {},
                       ring_paths *rings = nullptr);
    /// On return the peer makes no access by this link any more, with the exception of withdraw().
    void end(direct_link *&link);

    // --- the thread

    /// Called by one thread, at its beginning too. As long as it runs, peers see that this process
    /// does.
    void serve();

    /// The last reason for which a peer was not granted access, or did not grant it.
    local_obstacle obstacle() const { return obstacle_.load(std::memory_order_relaxed); }

private:
    /// A local socket on which the hello of the peer has not come yet.
    struct talk {
        enum class message : std::uint8_t { call, answer, hello };

        waitable socket = -1;
        direct_link *link = nullptr; ///< null before the call, if we accepted it
        std::uint64_t token = 0;     ///< token that the link had then: links are reused
        message next = message::call;
        std::uint64_t number = 0; ///< counts the talks that we accepted
        direct_greeting greeting;

        bool is_current() const
        {
            return link->now_ == direct_link::state::waits && link->token_ == token;
        }
        /// When its place is given to another accepted socket: the least turn comes first.
        std::uint64_t turn() const { return socket >= 0 ? number : 0; }
    };
    static constexpr std::uint32_t max_talks = 64;
    static constexpr std::uint32_t max_calls = peer_sockets::max_calls; ///< that we connected
    static constexpr std::uint32_t max_peers = 256;
    static constexpr std::uint32_t max_listeners = 16;
    static constexpr int max_at_once = 128; ///< callers, before the thread does something else

    local_obstacle prepare(descriptor_set &within);
    direct_link *free_link() OSD_REQUIRES(lock_);
    direct_link *link_of(const direct_call &said) OSD_REQUIRES(lock_);
    void tell(direct_link &link, local_obstacle why) OSD_REQUIRES(lock_);
    void call_peers() OSD_REQUIRES(lock_);
    talk *place_for_call() OSD_REQUIRES(lock_);
    void call(direct_link &link, talk &by) OSD_REQUIRES(lock_);
    void accept_calls() OSD_REQUIRES(lock_);
    bool accept_call(waitable listener) OSD_REQUIRES(lock_);
    bool turn_away(waitable listener) OSD_REQUIRES(lock_);
    void answer(waitable socket) OSD_REQUIRES(lock_);
    waitable end_talk(talk &with) OSD_REQUIRES(lock_);
    void hear(talk &from) OSD_REQUIRES(lock_);
    bool hear_call(talk &from) OSD_REQUIRES(lock_);
    bool hear_answer(talk &from) OSD_REQUIRES(lock_);
    bool hear_hello(talk &from) OSD_REQUIRES(lock_);
    bool say_hello(const talk &to) OSD_REQUIRES(lock_);
    void meet(const talk &with, const direct_hello &said, waitable board, waitable ring)
        OSD_REQUIRES(lock_);
    direct_peer *admit(const talk &with, const process_mark &mark, waitable board,
                       local_obstacle &why) OSD_REQUIRES(lock_);
    local_obstacle verify(direct_peer &met, waitable socket, const process_mark &mark,
                          waitable board, direct_peer *&kept) OSD_REQUIRES(lock_);
    void enter(direct_link &link, direct_peer &peer, const direct_hello &said, bool has_ring)
        OSD_REQUIRES(lock_);
    local_obstacle examine(direct_peer &met) OSD_REQUIRES(lock_);
    direct_peer *known(const direct_peer &met) const OSD_REQUIRES(lock_);
    direct_peer *keep(std::unique_ptr<direct_peer> met, waitable socket, bool called)
        OSD_REQUIRES(lock_);
    void forget_peers(bool also_idle) OSD_REQUIRES(lock_);
    void release(direct_peer &peer) OSD_REQUIRES(lock_);
    void mute_rings(const direct_peer &peer) OSD_REQUIRES(lock_);
    void shut_out(direct_link &link);
    void await_stuck();

    osd::mutex lock_;
    late_closer closer_ OSD_GUARDED_BY(lock_);
    shared_memory memory_;
    direct_board *board_ = nullptr;
    std::unique_ptr<direct_link[]> links_;
    std::uint32_t next_link_ OSD_GUARDED_BY(lock_) = 0;
    descriptor_set *within_ = nullptr;
    descriptor_set watched_;
    wake_signal called_;
    wake_signal spare_; ///< its descriptor is freed to accept a call, and close it
    waitable listeners_[max_listeners] OSD_GUARDED_BY(lock_);
    std::uint32_t listening_ OSD_GUARDED_BY(lock_) = 0;
    talk talks_[max_talks] OSD_GUARDED_BY(lock_);
    std::uint64_t answered_ OSD_GUARDED_BY(lock_) = 0;
    direct_peer *peers_ OSD_GUARDED_BY(lock_) = nullptr;
    std::uint32_t peers_known_ OSD_GUARDED_BY(lock_) = 0;
    process_mark mark_; ///< peers read it from our memory, to verify our process id
    zone_secrets secrets_;
    std::atomic<local_obstacle> obstacle_{local_obstacle::none};
};

} // namespace soft_hca
