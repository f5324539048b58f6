// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Listeners, and the requests that come in on them.
#pragma once

#include "address_proof.hpp"
#include "interface/upcalls.hpp"
#include "net/net.hpp"
#include "seal/seal.hpp"
#include "wire/wire.hpp"

#include "osd_sync.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace soft_hca {

/// The socket through which the requests of a listener come in. It outlives the listener while
/// requests that came through it are remembered: their senders repeat them until an answer arrives.
struct request_socket {
    packet_io *io = nullptr; ///< null: closed, since too many sockets have no listener
    std::uint64_t qualifier = 0;
    struct listener *listener = nullptr; ///< null: removed
    std::int64_t left_ns = 0;            ///< time at which the listener was removed
    std::uint32_t remembered = 0;        ///< requests
    std::uint32_t left = 0; ///< packets that may be taken before others have their turn
    request_socket *next = nullptr;
};

struct listener {
    void *owner = nullptr;
    request_socket *socket = nullptr;
};

/// A connection request that was received. It is kept for a while after it was answered, because
/// its sender retransmits it until the answer arrives.
struct inbound_request {
    enum class state : std::uint8_t { offered, accepted, rejected };

    net_address peer;
    handshake hello;
    std::uint32_t credit = 0;
    std::uint8_t version = first_version;
    bool exchange = false; ///< its sender wants an address for datagrams
    std::uint8_t data[max_private_data];
    std::uint16_t data_size = 0;
    std::unique_ptr<seal_offer> offer; ///< key agreement of a sealed request, or null

    // connections::lock_ guards the members below.
    std::uint32_t carried = 0; ///< bytes of the largest padded datagram in which it came, or 0
    state now = state::offered;
    bool withdrawn = false; ///< its sender gave up
    /// Limits what is sent to the sender, unless its address is proven. An accept hands the limit
    /// over.
    budget_use may_send;
    address_budget *budget = nullptr; ///< budget of the sender's address, or null
    std::uint32_t use_of_budget = 0;
    request_socket *through = nullptr;
    std::uint32_t source = 0; ///< hash of its sender's host, under which it is counted
    std::int64_t forget_ns = INT64_MAX;
    reject_code code = reject_code::no_listener;
    std::uint8_t answer[max_private_data];
    std::uint16_t answer_size = 0;
    inbound_request *next = nullptr;
};

class connections {
public:
    ~connections() { close(); }
    /// All outlive it. `seals`: null without a key.
    bool open(const settings &set, const upcalls &table, const seal_device *seals);
    /// The socket from which connection requests are rejected.
    void reject_from(packet_io &io) { answers_ = &io; }

    /// Returns zero, or a system error number. `made` stays where it is until it is removed.
    int add(listener &made, std::uint64_t &qualifier, void *owner);
    /// Removes a listener: on return no request upcall of the listener is running.
    void remove(listener &victim);

    /// Marks a request as accepted, and hands over the limit on bytes to its sender, and the size
    /// of the largest datagram from there. False when the sender has withdrawn it.
    bool accept(inbound_request &request, budget_use &may_send, std::uint32_t &carried);
    void reject(inbound_request &request, reject_code code, const void *data, std::size_t size);

    /// Receives requests and makes upcalls. By the first shard's thread.
    void serve();
    void forget_old(std::int64_t now);
    bool remembers() const { return remembered_.load(std::memory_order_relaxed) != 0; }
    waitable descriptor() const { return waiting_.descriptor(); }
    /// What wakes the thread that calls serve().
    descriptor_set &waiting() { return waiting_; }
    /// All listeners were removed before.
    void close();

private:
    static constexpr std::uint32_t max_remembered = 16384;
    static constexpr std::uint32_t max_of_host = max_remembered / 4 * 3;
    static constexpr std::uint32_t max_unproven = 16;
    static constexpr std::uint32_t max_left = 32;     ///< sockets whose listener was removed
    static constexpr std::uint32_t max_at_once = 256; ///< packets: the thread has other work
    static constexpr std::uint32_t least_share = 4;   ///< packets for each socket, of max_at_once
    static constexpr std::int64_t memory_ns = 2'000'000'000;
    static constexpr std::int64_t longest_memory_ns = 30'000'000'000; ///< where packets wait
    static constexpr std::int64_t sealed_period_ns = 1'000'000'000;   ///< period of tokens
    // A sealed request that comes again finds the first, or its token has expired.
    static_assert(memory_ns >= 2 * sealed_period_ns);
    static constexpr std::uint32_t buckets = 1024;
    static constexpr std::uint32_t hosts = 256;

    request_socket *open_socket(std::uint64_t qualifier, int &error) OSD_REQUIRES(lock_);
    /// Returns null when there is none.
    request_socket *left_behind(std::uint64_t qualifier) OSD_REQUIRES(lock_);
    void close_io(request_socket &at) OSD_REQUIRES(lock_);
    void delete_unused(request_socket &at) OSD_REQUIRES(lock_);
    /// Returns true when an upcall was made: the list of sockets may have changed.
    bool serve_socket(request_socket &at) OSD_REQUIRES(lock_);
    void share_turn() OSD_REQUIRES(lock_);
    bool is_silent(const request_socket &at, std::int64_t now) const OSD_REQUIRES(lock_);
    bool arrived_sealed(request_socket &at, const in_packets &in) OSD_REQUIRES(lock_);
    bool arrived(request_socket &at, const packet &p, const net_address &from, std::size_t size,
                 const seal_offer *seal) OSD_REQUIRES(lock_);
    void not_ours(const request_socket &at, const in_packets &in) OSD_REQUIRES(lock_);
    void repeated(inbound_request &known, const packet &p, std::size_t size) OSD_REQUIRES(lock_);
    address_budget *free_budget() OSD_REQUIRES(lock_);
    void limit(inbound_request &made, address_budget &budget, std::size_t size) OSD_REQUIRES(lock_);
    inbound_request *remember(request_socket &through, const packet &p, const net_address &from,
                              const seal_offer *offer) OSD_REQUIRES(lock_);
    void forget(inbound_request *&at) OSD_REQUIRES(lock_);
    void offer(listener &at, inbound_request &made) OSD_REQUIRES(lock_);
    inbound_request *&bucket_of(const net_address &from, std::uint32_t id, std::uint32_t tag)
        OSD_REQUIRES(lock_);
    inbound_request *find(const net_address &from, std::uint32_t id, std::uint32_t tag)
        OSD_REQUIRES(lock_);
    packet_io *make_io(std::uint16_t port, int &error);
    void send(const net_address &to, const out_packet &packet, std::uint32_t id,
              const seal_offer *offer);
    void send_retry(const handshake &to, const net_address &from, std::int64_t now,
                    const seal_offer *offer);
    void name_versions(const request_socket &at, const in_packets &question) OSD_REQUIRES(lock_);
    void refuse(const packet &p, const net_address &from, const seal_offer *offer);
    void send_rejection(inbound_request &request);

    const settings *settings_ = nullptr;
    const upcalls *upcalls_ = nullptr;
    const seal_device *seals_ = nullptr;
    packet_io *answers_ = nullptr;
    descriptor_set waiting_;
    osd::mutex lock_;
    osd::condition quiet_;
    request_socket *sockets_ OSD_GUARDED_BY(lock_) = nullptr;
    std::uint32_t left_ OSD_GUARDED_BY(lock_) = 0; ///< sockets whose listener was removed
    inbound_request *requests_[buckets] OSD_GUARDED_BY(lock_) = {};
    /// Numbers of requests, for hosts with equal hashes.
    std::uint32_t of_host_[hosts] OSD_GUARDED_BY(lock_) = {};
    std::atomic<std::uint32_t> remembered_{0};
    address_tokens tokens_;
    address_budget budgets_[max_unproven];
    const listener *busy_ OSD_GUARDED_BY(lock_) = nullptr; ///< listener whose upcall is running
};

} // namespace soft_hca
