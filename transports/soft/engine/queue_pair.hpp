// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Queue pair: two queues of work requests and the reliable connection that they use.
//
// Locking. `lock` guards everything that is not atomic. Who posts stores into a ring that has one
// writer and rings the doorbell: it takes the lock if it is free, and otherwise leaves a mark that
// the holder sees before it is done. Who receives takes the lock for each run of packets. Nobody
// holds two queue pairs' locks.
#pragma once

#include "memory_table.hpp"
#include "packet_io.hpp"
#include "posted_ring.hpp"
#include "receive_window.hpp"
#include "request.hpp"
#include "send_window.hpp"
#include "upcalls.hpp"
#include "wire.hpp"

#include "osd_sync.hpp"

#include <atomic>
#include <memory>

namespace soft_hca {

class completion_queue;
class device;
class inbound_request;
class shard;
class shared_receives;
struct protection_domain;

struct pair_params {
    void *owner = nullptr;
    protection_domain *domain = nullptr;
    completion_queue *send_queue = nullptr;
    completion_queue *receive_queue = nullptr;
    shared_receives *shared = nullptr;
    void *receiver = nullptr; ///< stands for it in completions of shared receives
    std::uint32_t max_sends = 0;
    std::uint32_t max_receives = 0;
    std::uint16_t reads_in = 0;
    std::uint16_t reads_out = 0;
};

/// A read or atomic operation of the peer that is being answered.
struct response {
    rdmap opcode;
    std::uint32_t sink_stag;
    std::uint64_t sink_offset;
    std::uint32_t source_stag;
    std::uint64_t source_offset;
    std::uint32_t size;
    std::uint32_t sent;
    std::uint32_t request_psn;
    std::uint32_t msn;
    std::uint64_t original;
};

struct queue_pair {
    enum class state : std::uint8_t {
        idle,       ///< takes receives
        connecting, ///< has sent a request
        accepting,  ///< has sent an accept
        live,
        draining, ///< live, and will close when all that was posted is acknowledged
        dead,     ///< what is posted comes back flushed
    };

    queue_pair() = default;
    queue_pair(const queue_pair &) = delete;
    queue_pair &operator=(const queue_pair &) = delete;

    // --- consumer's side; the device makes and frees queue pairs

    /// False when the queue is full. One thread at a time each.
    bool post_send(request &r);
    bool post_receive(request &r);
    enum class start : std::uint8_t { begun, no_memory, wrong_state };
    [[nodiscard]] start connect(const net_address &to, std::uint64_t qualifier, const void *data,
                                std::size_t size);
    [[nodiscard]] start accept(inbound_request &from, const void *data, std::size_t size);
    void disconnect(bool graceful);
    /// Gives up without an event.
    void abandon();

    // --- the shard's side

    /// Does what there is to do, if nobody else is inside.
    void ring();
    void enter() OSD_ACQUIRE(lock) { lock.lock(); }
    void leave() OSD_RELEASE(lock);
    /// A packet with our id and from whoever.
    void receive(const packet &p, const net_address &from, const std::uint8_t *bytes,
                 std::size_t size, std::int64_t now) OSD_REQUIRES(lock);
    /// After a run of packets.
    void after_receiving(std::int64_t now) OSD_REQUIRES(lock);
    void flush_ack(std::int64_t now) OSD_REQUIRES(lock);
    void on_timer(std::int64_t now) OSD_REQUIRES(lock);
    /// Now and then: is the peer still there?
    void on_slow_timer(std::int64_t now) OSD_REQUIRES(lock);
    void bounce(const bounced &b, const base_header &quoted, std::int64_t now) OSD_REQUIRES(lock);
    /// A receive was posted to the shared queue in which the pair found none. From any thread, also
    /// from one that may not wait for the lock: the pair looks when it is left or, soon, by timer.
    void receive_came();

    // Fixed while it is alive.
    device *of = nullptr;
    shard *home = nullptr;
    pair_params with;
    std::uint32_t id = 0; ///< of the present incarnation
    std::uint32_t slot = 0;

    osd::mutex lock;
    std::atomic<bool> doorbell{false};

    // For timers; written under the lock, read by the shard.
    std::atomic<std::int64_t> due_ns{INT64_MAX};
    std::atomic<bool> ack_waits{false}; ///< in the shard's list of acks to be sent

    // Of the shared receive queue, under its lock.
    queue_pair *next_waiting = nullptr;
    bool waits_for_receive = false;

    // Of the shard that makes the upcalls, under its lock for events.
    queue_pair *next_noticed = nullptr;
    bool noticed = false;
    bool tell_established = false;
    bool tell_end = false;
    connection_event end = connection_event::broken;

    struct counts {
        std::uint64_t packets_out = 0, packets_resent = 0, packets_in = 0, duplicates = 0,
                      early = 0, dropped = 0, not_ready = 0;
    };
    counts counted OSD_GUARDED_BY(lock);
    state now_in() const OSD_REQUIRES(lock) { return state_; }

    // Private data of the peer's answer; read by the upcall, not changed until it is over.
    std::uint8_t answer[max_private_data];
    std::uint16_t answer_size = 0;

    // --- for the device

    bool open_queues();
    /// Back to idle, with another id. Nothing that was posted remains.
    bool renew() OSD_REQUIRES(lock);
    /// Ends what is connected, tells nobody, forgets what is posted.
    void cut() OSD_REQUIRES(lock);

private:
    static constexpr std::uint32_t window = 256;
    static constexpr std::uint32_t most_bytes = 4 << 20; ///< the same in bytes, at most
    static constexpr std::uint32_t batch = 32;
    static constexpr std::uint32_t ack_every = 16;
    static constexpr std::uint32_t ack_every_bytes = 128 * 1024;
    static constexpr std::uint32_t gather_up_to = 16;

    // queue_pair_send.cpp
    void pump(std::int64_t now) OSD_REQUIRES(lock);
    bool next_packet(std::int64_t now, std::uint32_t &psn) OSD_REQUIRES(lock);
    bool next_response(std::int64_t now, std::uint32_t &psn) OSD_REQUIRES(lock);
    bool next_request(std::int64_t now, std::uint32_t &psn) OSD_REQUIRES(lock);
    bool may_start(request &r) OSD_REQUIRES(lock);
    void begin(request &r) OSD_REQUIRES(lock);
    bool keys_hold(const request &r, std::uint32_t rights) OSD_REQUIRES(lock);
    void take_back_bind(request &r, work_status status) OSD_REQUIRES(lock);
    bool build(out_packet &out, std::uint32_t psn) OSD_REQUIRES(lock);
    void build_request(out_packet &out, const sent_packet &packet) OSD_REQUIRES(lock);
    void build_response(out_packet &out, const sent_packet &packet) OSD_REQUIRES(lock);
    void build_probe(out_packet &out, std::uint32_t psn) OSD_REQUIRES(lock);
    bool may_be_read(const sent_packet &packet) OSD_REQUIRES(lock);
    void end_reading() OSD_REQUIRES(lock);
    void fail_reading(const sent_packet &packet) OSD_REQUIRES(lock);
    void transmit(out_packet *packets, const std::uint32_t *psns, std::uint32_t count)
        OSD_REQUIRES(lock);
    std::uint32_t payload_room(rdmap opcode) const OSD_REQUIRES(lock);
    base_header make_base(packet_kind kind, std::uint32_t psn) OSD_REQUIRES(lock);
    void send_plain(packet_kind kind, const std::uint8_t *body, std::size_t size,
                    std::uint16_t flags = 0) OSD_REQUIRES(lock);
    void send_ack() OSD_REQUIRES(lock);
    void send_probe(std::int64_t now) OSD_REQUIRES(lock);
    void look_for_receives() OSD_REQUIRES(lock);
    void release_done() OSD_REQUIRES(lock);
    void complete(request &r, work_status status, std::uint32_t length, completion_queue *to)
        OSD_REQUIRES(lock);
    void flush() OSD_REQUIRES(lock);

    // queue_pair_receive.cpp
    enum class verdict : std::uint8_t { taken, not_ready, fatal };
    void receive_numbered(const packet &p, const std::uint8_t *bytes, std::size_t size)
        OSD_REQUIRES(lock);
    bool take_in_order(const packet &p) OSD_REQUIRES(lock);
    void take_kept() OSD_REQUIRES(lock);
    void take_acknowledgement(const packet &p, std::int64_t now) OSD_REQUIRES(lock);
    verdict take_segment(const ddp_segment &s) OSD_REQUIRES(lock);
    verdict take_send(const ddp_segment &s) OSD_REQUIRES(lock);
    verdict take_immediate(const ddp_segment &s) OSD_REQUIRES(lock);
    verdict take_write(const ddp_segment &s) OSD_REQUIRES(lock);
    verdict take_read_request(const ddp_segment &s) OSD_REQUIRES(lock);
    verdict take_read_response(const ddp_segment &s) OSD_REQUIRES(lock);
    verdict take_atomic_request(const ddp_segment &s) OSD_REQUIRES(lock);
    verdict take_atomic_response(const ddp_segment &s) OSD_REQUIRES(lock);
    verdict fail(fault why) OSD_REQUIRES(lock);
    bool next_receive() OSD_REQUIRES(lock);
    void finish_receive(const completion_record &done) OSD_REQUIRES(lock);
    verdict fail_receive(work_status status, fault why) OSD_REQUIRES(lock);
    work_status scatter(const request &r, std::uint32_t offset, const std::uint8_t *from,
                        std::uint32_t size) OSD_REQUIRES(lock);
    request *oldest_question() OSD_REQUIRES(lock);
    request *answered_question() OSD_REQUIRES(lock);
    void question_answered() OSD_REQUIRES(lock);
    std::uint32_t credit() const OSD_REQUIRES(lock);

    // queue_pair_connection.cpp
    void receive_accept(const packet &p, const net_address &from, std::int64_t now)
        OSD_REQUIRES(lock);
    void receive_reject(const packet &p) OSD_REQUIRES(lock);
    void receive_close(const packet &p, std::int64_t now) OSD_REQUIRES(lock);
    void receive_reset(const packet &p) OSD_REQUIRES(lock);
    void adopt_peer(const net_address &from, const handshake &hello, std::uint32_t credit)
        OSD_REQUIRES(lock);
    handshake hello() const OSD_REQUIRES(lock);
    void send_handshake(std::int64_t now) OSD_REQUIRES(lock);
    void go_live() OSD_REQUIRES(lock);
    void die(connection_event event) OSD_REQUIRES(lock);
    void close(const close_info &info, std::int64_t now) OSD_REQUIRES(lock);
    void send_close(std::int64_t now) OSD_REQUIRES(lock);
    void fail_connection(connection_event event, request *culprit, work_status status)
        OSD_REQUIRES(lock);
    void wind_up() OSD_REQUIRES(lock);
    void give_up() OSD_REQUIRES(lock);
    void on_timeout(std::int64_t now) OSD_REQUIRES(lock);
    bool answer_is_overdue(std::int64_t now) OSD_REQUIRES(lock);
    void close_when_drained(std::int64_t now) OSD_REQUIRES(lock);
    bool was_sent(std::uint32_t psn) const OSD_REQUIRES(lock);
    void update_due() OSD_REQUIRES(lock);
    bool connected() const OSD_REQUIRES(lock)
    {
        return state_ == state::live || state_ == state::draining;
    }

    posted_ring sends_;
    posted_ring receives_;
    std::atomic<std::uint32_t> in_flight_{0}; ///< hint for who posts
    std::atomic<std::uint32_t> taken_{0};     ///< the same: sends that were looked at
    /// pump() looks for receives: the peer knows of none of our own, or one that is shared was
    /// posted for what waits.
    std::atomic<bool> wants_receives_{false};

    state state_ OSD_GUARDED_BY(lock) = state::idle;

    // The peer.
    net_address peer_ OSD_GUARDED_BY(lock);
    std::uint32_t peer_id_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t peer_tag_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t max_datagram_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t window_bytes_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t tag_ OSD_GUARDED_BY(lock) = 0; ///< that the peer has to name
    std::uint32_t first_psn_ OSD_GUARDED_BY(lock) = 0;

    // Sending.
    send_window tx_ OSD_GUARDED_BY(lock);
    rtt_estimator rtt_ OSD_GUARDED_BY(lock);
    std::uint32_t next_send_ OSD_GUARDED_BY(lock) = 0; ///< position in sends_ of what is sent next
    std::uint32_t send_msn_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t read_msn_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t peer_credit_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t questions_out_ OSD_GUARDED_BY(lock) = 0; ///< reads and atomics under way
    std::uint32_t max_questions_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t oldest_question_ OSD_GUARDED_BY(lock) = 0; ///< position in sends_, or before it
    std::uint32_t next_token_ OSD_GUARDED_BY(lock) = 0;
    bool begun_ OSD_GUARDED_BY(lock) = false;      ///< the request at next_send_ has begun
    bool write_sent_ OSD_GUARDED_BY(lock) = false; ///< its write part has
    bool out_of_credit_ OSD_GUARDED_BY(lock) = false;
    bool responses_turn_ OSD_GUARDED_BY(lock) = false;

    // Answering.
    std::unique_ptr<response[]> responses_ OSD_GUARDED_BY(lock);
    std::uint32_t max_responses_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t response_head_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t response_next_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t response_tail_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t atomic_msn_out_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t atomic_msn_in_ OSD_GUARDED_BY(lock) = 0;

    // Windows through which the packets that are just sent read.
    std::uint32_t windows_in_use_ OSD_GUARDED_BY(lock) = 0;
    memory_region *windows_read_[batch] OSD_GUARDED_BY(lock);

    // Receiving.
    receive_window rx_ OSD_GUARDED_BY(lock);
    request *receiving_ OSD_GUARDED_BY(lock) = nullptr; ///< the message that is coming
    std::uint32_t receive_msn_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t read_msn_in_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t received_ OSD_GUARDED_BY(lock) = 0; ///< bytes of it
    std::uint32_t written_ OSD_GUARDED_BY(lock) = 0;  ///< bytes of the latest write message
    bool write_over_ OSD_GUARDED_BY(lock) = true;
    fault fault_ OSD_GUARDED_BY(lock) = fault::none;
    std::uint32_t told_credit_ OSD_GUARDED_BY(lock) = 0;

    // Acknowledging.
    bool ack_owed_ OSD_GUARDED_BY(lock) = false;
    bool ack_awaited_ OSD_GUARDED_BY(lock) = false; ///< by a completion
    bool ack_now_ OSD_GUARDED_BY(lock) = false;
    bool not_ready_ OSD_GUARDED_BY(lock) = false;
    std::uint32_t unacknowledged_ OSD_GUARDED_BY(lock) = 0; ///< packets
    std::uint32_t unacknowledged_bytes_ OSD_GUARDED_BY(lock) = 0;

    // Timers, all 0 or a time.
    std::int64_t ack_due_ OSD_GUARDED_BY(lock) = 0;
    std::int64_t resend_from_ OSD_GUARDED_BY(lock) = 0; ///< the retransmission timer runs from here
    std::int64_t probe_due_ OSD_GUARDED_BY(lock) = 0;
    std::int64_t blocked_until_ OSD_GUARDED_BY(lock) = 0; ///< the peer was not ready
    std::int64_t handshake_due_ OSD_GUARDED_BY(lock) = 0;
    std::int64_t close_due_ OSD_GUARDED_BY(lock) = 0;
    std::int64_t linger_until_ OSD_GUARDED_BY(lock) = 0;
    std::int64_t heard_ns_ OSD_GUARDED_BY(lock) = 0;
    std::int64_t refused_since_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t retries_ OSD_GUARDED_BY(lock) = 0; ///< of the oldest packet, or of an accept
    std::uint32_t handshake_delay_us_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t probe_delay_us_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t not_ready_delay_us_ OSD_GUARDED_BY(lock) = 0;
    std::uint32_t closes_left_ OSD_GUARDED_BY(lock) = 0;
    close_info closing_ OSD_GUARDED_BY(lock);

    /// What the slow timer saw of the oldest question, and for how long nothing else.
    struct question_watch {
        std::uint32_t token = 0;
        std::uint32_t moved = 0;
        std::uint64_t not_ready = 0;
        bool operator==(const question_watch &) const = default;
    };
    question_watch watched_ OSD_GUARDED_BY(lock);
    std::int64_t watched_ns_ OSD_GUARDED_BY(lock) = 0; ///< the latest look
    std::int64_t unanswered_ns_ OSD_GUARDED_BY(lock) = 0;

    // The handshake, while it may have to be repeated.
    struct own_hello {
        std::uint64_t qualifier = 0;
        std::size_t size = 0;
        std::uint8_t data[max_private_data];
    };
    std::unique_ptr<own_hello> hello_ OSD_GUARDED_BY(lock);
};

} // namespace soft_hca
