// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The send queue of a connection: turns requests into packets, and completes them in post order.
#pragma once

#include "memory/segment_result.hpp"
#include "outstanding_reads.hpp"
#include "pair_context.hpp"
#include "peer_path.hpp"
#include "window/send_window.hpp"

#include <utility>

namespace soft_hca {

class requester {
public:
    requester() = default;
    requester(pair_context &pair, send_window &window, std::uint32_t first_msn,
              std::uint32_t first_read_id)
        : sends_(&pair.sends), memory_(&pair.memory), record_(&pair.record), window_(&window),
          reads_(first_msn, first_read_id, pair.sends.ring.head()), next_(pair.sends.ring.head()),
          send_msn_(first_msn)
    {}

    // --- packets

    /// Puts the next packet into the send window. False when there is none, the peer does not allow
    /// it, or the connection has to end: see failed().
    bool next_packet(const peer_path &path, std::int64_t now, std::uint32_t &psn);
    /// Whether this send is the next one, nothing keeps it from being sent, and it fits a packet.
    bool may_send_whole(const request &send, const peer_path &path)
    {
        return !started_ && sends_->ring.is_last(next_, send) &&
               send.length <= path.payload_room(rdmap::send) &&
               ((send.flags & request_fence) == 0 || !reads_.any()) && has_credit() &&
               memory_->may_use(send, local_read);
    }
    /// Puts its packet into the send window.
    void push_whole(request &send, std::uint32_t psn, std::int64_t now);
    static void build_whole(out_packet &out, const base_header &base, const request &send);
    /// The send of which a packet carries all, or null.
    static const request *whole_send_of(const sent_packet &packet)
    {
        const bool requested = packet.from == sent_packet::origin::request;
        const request *const r = requested ? static_cast<const request *>(packet.source) : nullptr;
        return r != nullptr && r->kind == work::send && packet.length == r->length ? r : nullptr;
    }
    bool failed() const { return failed_; }
    const pair_failure &failure() const { return failure_; }
    void build(out_packet &out, const sent_packet &packet) const;
    /// Builds a reference to the payload, of this size, of a packet of a long send and those behind
    /// it, all of the same send; it takes so many numbers.
    void refer(out_packet &out, const sent_packet &first, std::uint32_t size,
               std::uint32_t numbers) const;
    /// Whether packets of long sends were chosen since the last call.
    bool has_chosen_long() { return std::exchange(chose_long_, false); }
    /// The long send that a new packet belongs to, or null.
    static const request *long_send_of(const sent_packet &packet);
    /// Whether a packet is a short send that the calling thread is posting.
    bool may_copy(const sent_packet &packet) const
    {
        return sends_->posting != nullptr && packet.source == sends_->posting &&
               packet.length <= most_copied;
    }
    /// Whether the peer may be able to read our memory.
    bool may_be_fetched_from() const
    {
        return sends_->direct != nullptr && sends_->direct->may_be_fetched_from();
    }
    /// From now on as much may be copied directly as takes a millisecond or two, so that a stream
    /// of it does not keep the thread from all others.
    void begin_turn()
    {
        direct_left_ = most_per_turn;
        awaits_turn_ = false; // stays false until next_packet() is called: the window may be full
    }
    /// Whether a direct copy was interrupted, to go on in another turn.
    bool awaits_turn() const { return awaits_turn_; }
    /// The position of the first request that has not been started.
    std::uint32_t next() const { return next_; }
    /// Whether packets were made of all requests that are posted.
    bool all_started() const { return next_ == sends_->ring.tail(); }

    // --- completions

    /// The last packet of a request was acknowledged.
    static void acknowledged(request &r) { r.done = r.done || !has_response(r); }
    /// Completes requests that are done, up to the first that is not.
    void complete_done();
    /// Completes all posted requests; a request that is not done completes as flushed.
    void flush();
    /// Drops all that is posted, without completions.
    void discard();
    /// The request to which this packet belonged, although it may be acknowledged; or null.
    request *started_with_last_psn(std::uint32_t psn) const;
    request *oldest() const { return sends_->ring.empty() ? nullptr : &sends_->ring.front(); }

    // --- what the peer says

    /// It has receives for the messages numbered before this one. True when that is news.
    bool grant_credit(std::uint32_t credit);
    bool out_of_credit() const { return out_of_credit_; }
    /// `oldest_psn` is the number of the oldest packet that is not acknowledged.
    segment_result on_read_response(const ddp_segment &s, std::uint32_t oldest_psn);
    segment_result on_atomic_response(const ddp_segment &s, std::uint32_t oldest_psn);

    outstanding_reads &reads() { return reads_; }
    /// The read or atomic operation that is responded to next, if the peer has acknowledged it. A
    /// peer that responds has acknowledged the request, by that packet at the latest. A response
    /// without that is refused: the send window still refers to the request.
    request *acknowledged_read(std::uint32_t oldest_psn);

private:
    /// Size of a send to which references are sent: what does not fit a ring as one packet. To copy
    /// less than that twice takes no longer.
    static constexpr std::uint32_t long_send = ring_file::largest - ring_file::line;
    static constexpr std::int64_t most_per_turn = 16 << 20; ///< bytes
    static constexpr std::int64_t cost_of_one = 16 << 10;   ///< expressed in bytes

    bool may_move_directly(const request &r) const;
    bool move_directly(request &r) OSD_NOINLINE;
    bool may_start(const request &r);
    bool has_credit();
    bool start(request &r);
    bool refuse(request &r) OSD_COLD;
    void number(sent_packet &packet, request &r, const peer_path &path);
    void finish(request &r, std::uint32_t psn);
    void undo_bind(request &r, work_status status);
    segment_result store(request &r, std::uint32_t offset, const std::uint8_t *from,
                         std::uint32_t size);

    send_queue *sends_ = nullptr;
    const local_memory *memory_ = nullptr;
    pair_record *record_ = nullptr;
    send_window *window_ = nullptr;
    outstanding_reads reads_;
    std::uint32_t next_ = 0; ///< position of the request that packets are made of next
    std::uint32_t send_msn_ = 0;
    std::uint32_t peer_credit_ = 0;
    bool started_ = false;    ///< the request at next_ has been started
    bool write_sent_ = false; ///< its write part has been sent, and immediate data follow
    bool out_of_credit_ = false;
    bool failed_ = false;
    bool awaits_turn_ = false;
    bool chose_long_ = false;
    std::int64_t direct_left_ = most_per_turn;
    pair_failure failure_;
};

} // namespace soft_hca
