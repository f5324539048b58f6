// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The receive side of a connection: puts packets in order, passes segments on, completes receives,
// and knows which acknowledgement is owed.
#pragma once

#include "memory/segment_result.hpp"
#include "pair_context.hpp"
#include "requester.hpp"
#include "responder.hpp"
#include "window/receive_window.hpp"

namespace soft_hca {

/// The acknowledgement that is owed to the peer, and how urgent it is.
class owed_ack {
public:
    bool any() const { return owed_; }
    /// `completion_waits`: the peer completes a request by it.
    void owe(bool completion_waits)
    {
        owed_ = true;
        awaited_ = awaited_ || completion_waits;
    }
    /// Whenever it is owed, it is not to be delayed.
    void hurry() { urgent_ = true; }
    void owe_now() { owed_ = urgent_ = true; }
    void count(std::uint32_t bytes)
    {
        ++packets_;
        bytes_ += bytes;
        often_ -= often_ != 0 ? 1 : 0;
    }
    bool is_urgent() const
    {
        const std::uint32_t every = often_ != 0 ? every_few : every_packets;
        return urgent_ || packets_ >= every || bytes_ >= every_bytes;
    }
    /// Packets were lost: the peer's window may be smaller than the number of packets that one
    /// acknowledgement covers.
    void hurry_for_a_while() { urgent_ = true, often_ = long_while; }
    bool is_awaited() const { return awaited_; }
    /// Sends it later, so that it can cover more packets.
    void delay(std::int64_t now)
    {
        const std::int64_t due = now + (awaited_ ? delay_ns : late_delay_ns);
        if (due_ns_ == 0 || due < due_ns_)
            due_ns_ = due;
    }
    std::int64_t due_ns() const { return due_ns_; }
    /// Some packet carries the acknowledgement number.
    void restart_count() { packets_ = bytes_ = 0; }
    /// The peer has been sent all there is to acknowledge.
    void settle()
    {
        owed_ = awaited_ = urgent_ = false;
        due_ns_ = 0;
    }

    static constexpr std::uint32_t every_bytes = 128 * 1024;
    static constexpr std::int64_t delay_ns = 1'000'000;
    /// A timer that is due before the system's next tick has to be programmed, which costs a
    /// virtual machine microseconds; and the peer allows for it before it retransmits.
    static constexpr std::int64_t late_delay_ns = 3'000'000;

private:
    static constexpr std::uint32_t every_packets = 16;
    static constexpr std::uint32_t every_few = 2;
    static constexpr std::uint32_t long_while = 256; ///< packets

    bool owed_ = false;
    bool awaited_ = false;
    bool urgent_ = false;
    std::uint32_t packets_ = 0; ///< that were taken since the last acknowledgement
    std::uint32_t bytes_ = 0;
    std::uint32_t often_ = 0; ///< packets that are still acknowledged often
    std::int64_t due_ns_ = 0;
};

class receiver {
public:
    receiver() = default;
    receiver(pair_context &pair, requester &requests, responder &responses, std::uint32_t first_psn,
             std::uint32_t first_msn)
        : receives_(&pair.receives), direct_(&pair.sends.direct), memory_(&pair.memory),
          record_(&pair.record), events_(&pair.events), requests_(&requests),
          responses_(&responses), window_(pair.device->early, first_psn), msn_(first_msn)
    {}
    /// The peer is known: its first packet has this number.
    void expect(std::uint32_t first_psn) { window_.start(first_psn); }

    // --- packets. `oldest_psn`: of our oldest packet that is not acknowledged. False: the
    // --- connection has to end, see failure().

    [[nodiscard]] bool receive(const packet &p, const std::uint8_t *bytes, std::size_t size,
                               std::uint32_t oldest_psn);
    /// Whether a whole send is the next packet, and finds a receive at hand.
    bool expects(const whole_send &p) const
    {
        const posted_ring &ring = receives_->ring;
        return p.base.psn == window_.next() && !window_.holds_any() && receiving_ == nullptr &&
               p.msn == msn_ && receives_->shared == nullptr && ring.has_front() &&
               p.payload_size <= ring.front().length && p.opcode != rdmap::send_invalidate &&
               p.opcode != rdmap::send_solicited_invalidate;
    }
    /// Receives such a one.
    [[nodiscard]] bool receive_expected(const whole_send &p);
    /// Processes packets that were kept because no receive was posted. `took`: some were taken.
    [[nodiscard]] bool resume(std::uint32_t oldest_psn, bool &took);
    const pair_failure &failure() const { return failure_; }
    std::uint32_t next_psn() const { return window_.next(); }
    std::uint32_t next_msn() const { return msn_; }

    // --- acknowledgements and credit

    /// Puts acknowledgement and credit into a header.
    void piggyback(base_header &base);
    /// Describes the packets that have arrived out of order.
    std::uint32_t describe(std::uint32_t *words, std::uint32_t max_words) const
    {
        return window_.describe(words, max_words);
    }
    bool not_ready() const { return not_ready_; }
    /// Whether a packet was dropped whose payload lies in the peer's memory and could not be read:
    /// the next ack asks for the payload itself.
    bool not_fetched() const { return not_fetched_; }
    /// An ack packet has been sent.
    void acknowledged();
    /// The credit for a handshake.
    std::uint32_t promise() { return promised_credit_ = credit(); }
    bool has_news() const { return promised_credit_ != credit(); }
    /// Lets posts ring while the peer has no credit, and reports credit that was posted since.
    void watch_credit();
    owed_ack &ack() { return ack_; }
    const owed_ack &ack() const { return ack_; }

    // --- receives

    bool lacks_receives() const { return receives_->shared == nullptr && receives_->ring.empty(); }
    /// Completes all that is posted as flushed.
    void flush();
    /// Drops all that is posted, without completions.
    void discard();
    /// Applies watermarks that have changed, or a changed number of receives held. False when the
    /// connection has to end.
    [[nodiscard]] bool keep_watermarks();

private:
    enum class outcome : std::uint8_t { taken, not_ready, dropped, failed };
    outcome take(const packet &p, std::uint32_t oldest_psn);
    [[nodiscard]] bool take_kept(std::uint32_t oldest_psn);
    segment_result on_segment(const packet &p, std::uint32_t oldest_psn);
    segment_result on_send(const packet &p);
    work_status fetch(const packet &p, bool &fetched);
    segment_result on_immediate(const ddp_segment &s);
    segment_result on_write(const ddp_segment &s);
    bool begin_receive();
    request *take_shared();
    segment_result no_receive() const;
    void finish_receive(std::uint32_t length, brought extra, std::uint32_t immediate,
                        bool solicited);
    segment_result fail_receive(work_status status, fault why);
    std::uint32_t credit() const;

    receive_queue *receives_ = nullptr;
    direct_link *const *direct_ = nullptr; ///< to the peer's memory, see send_queue
    const local_memory *memory_ = nullptr;
    pair_record *record_ = nullptr;
    const pair_events *events_ = nullptr;
    requester *requests_ = nullptr;
    responder *responses_ = nullptr;
    receive_window window_;
    owed_ack ack_;
    bool not_ready_ = false;       ///< a segment found no receive; the next ack says so
    bool not_fetched_ = false;     ///< a reference was dropped; the next ack says so
    request *receiving_ = nullptr; ///< receive of the message that is arriving
    std::uint32_t received_ = 0;   ///< bytes of that message
    std::uint32_t msn_ = 0;        ///< number of that message
    std::uint32_t written_ = 0;    ///< bytes of the latest write message
    bool write_over_ = true;       ///< its last segment has arrived
    std::uint32_t promised_credit_ = 0;
    pair_failure failure_;
};

} // namespace soft_hca
