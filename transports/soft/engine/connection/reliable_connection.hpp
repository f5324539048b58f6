// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The reliable connection of a queue pair. All its functions need the queue pair's lock.
//
// It consists of parts, each the owner of its state: the path to the peer, the state of handshake
// and close, the send window (packets that are not acknowledged), the requester (send queue), the
// responder (the peer's reads and atomics), the receiver (packets in, acknowledgements) and the
// transmitter (packets out, retransmission). Whatever ends a connection replaces the parts by new
// ones, so that nothing of the connection can survive.
#pragma once

#include "connection_state.hpp"
#include "heard_peers.hpp"
#include "pair_context.hpp"
#include "peer_path.hpp"
#include "receiver.hpp"
#include "requester.hpp"
#include "responder.hpp"
#include "transmitter.hpp"
#include "window/send_window.hpp"

namespace soft_hca {

class reliable_connection {
public:
    using state = connection_state::state;
    enum class start : std::uint8_t { begun, no_memory, wrong_state, no_device };

    explicit reliable_connection(pair_context &pair) : pair_(&pair) {}
    reliable_connection(const reliable_connection &) = delete;
    reliable_connection &operator=(const reliable_connection &) = delete;

    // --- life

    /// Returns false when out of memory.
    bool open();
    /// Ready for a connection. False without random numbers.
    bool renew();
    peer_path &path() { return path_; }
    /// Ends the connection without an event and drops all posted requests and receives.
    void cut();
    /// The device has failed: ends what has begun, with its event, and sends nothing.
    void lose_device();

    // --- the consumer

    [[nodiscard]] start connect(const net_address &to, std::uint64_t qualifier, const void *data,
                                std::size_t size);
    [[nodiscard]] start accept(inbound_request &from, const void *data, std::size_t size);
    void disconnect(bool graceful);
    void abandon();
    /// Its high watermarks were set.
    void keep_watermarks();
    /// Sends what the peer and the network permit, and flushes posts to a dead connection.
    /// `new_turn`: the thread may spend time on direct copies.
    /// `sets_timer`: false where the caller calls update_due().
    void pump(std::int64_t now, bool new_turn = false, bool sets_timer = true);
    /// Sends what was posted, if that has nothing before it and needs one packet only. False: it
    /// was not sent, and pump() finds out what is to be done.
    bool send_at_once(request &send, std::int64_t now);

    // --- the shard

    /// An answer with our id, from anywhere. `offer`: of a sealed one. False: the attempt was given
    /// up, or is not ours.
    bool on_accept(const packet &p, const net_address &from, const seal_offer *offer);
    /// Another packet with our id, from anywhere.
    void receive(const packet &p, const net_address &from, const std::uint8_t *bytes,
                 std::size_t size, std::int64_t now);
    /// As receive(), of a whole send that nothing stands before. False: call receive().
    bool receive_expected(const whole_send &p, const net_address &from, std::int64_t now);
    /// Called after a batch of receive() calls, with the lock still held.
    void after_receiving(std::int64_t now);
    void flush_ack();
    /// Counts what it sends again. False, and nothing was done: what waits is to be received first.
    [[nodiscard]] bool on_timer(std::int64_t now, std::uint32_t &resends);
    /// A few times a second: checks that the peer is alive.
    void on_slow_timer(std::int64_t now, heard_peers &peers, std::uint32_t slot);
    /// An ICMP error about a packet of ours, whose header it quotes.
    void on_icmp_error(const icmp_error &b, const base_header &quoted, std::int64_t now);

    connection_state &current() { return state_; }

private:
    /// Sequence numbers from which the parts start.
    struct numbers {
        std::uint32_t send_psn;
        std::uint32_t request_msn;
        std::uint32_t read_id;
        std::uint32_t receive_psn;
        std::uint32_t receive_msn;
    };

    bool connected() const { return state_.connected(); }
    void serve_new_receives();
    void update_due(bool may_be_early = false);
    void restart_parts(const numbers &from);

    [[nodiscard]] start prepare(std::uint64_t qualifier, const void *data, std::size_t size);
    void adopt_peer(const net_address &from, const handshake &hello, std::uint32_t credit,
                    std::uint8_t version);
    void send_handshake(std::int64_t now);
    void establish();
    void on_retry(const packet &p, std::int64_t now);
    void on_close(const packet &p, std::int64_t now);
    void on_reset(const packet &p);
    void close(const close_info &why, std::int64_t now);
    void send_close(std::int64_t now);
    void close_when_drained(std::int64_t now);
    void fail(pair_failure failure);
    void give_up(end_cause why);
    void die(connection_event event);
    void enter_dead();

    pair_context *pair_;
    peer_path path_;
    connection_state state_;
    send_window window_; ///< requester and responder fill it, the transmitter sends from it
    requester requests_;
    responder responses_;
    receiver rx_;
    transmitter tx_;
};

} // namespace soft_hca
