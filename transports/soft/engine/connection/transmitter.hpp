// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The send side of a connection: chooses and sends packets, retransmits them, and paces by what the
// peer says.
#pragma once

#include "peer_path.hpp"
#include "receiver.hpp"
#include "requester.hpp"
#include "responder.hpp"
#include "ring_choice.hpp"
#include "window/congestion.hpp"
#include "window/rtt.hpp"
#include "window/send_window.hpp"

#include <utility>

namespace soft_hca {

class transmitter {
public:
    transmitter() = default;
    /// `window` holds the packets that requester and responder have put there, to be sent.
    transmitter(pair_context &pair, peer_path &path, send_window &window, requester &requests,
                responder &responses, receiver &received)
        : record_(&pair.record), batches_(&pair.shard->batches), path_(&path), window_(&window),
          requests_(&requests), responses_(&responses), received_(&received),
          congestion_(send_window::capacity, window.next())
    {}
    /// The peer is known: limits the bytes in flight to what this host can receive itself.
    void limit_to(std::uint32_t receive_room);

    /// A round trip took at most that long, as far as is known before packets were acknowledged.
    void begin_with_round_trip(std::int64_t ns)
    {
        rtt_.sample(static_cast<std::uint32_t>(std::clamp<std::int64_t>(ns / 1000, 0, 1'000'000)));
    }

    // --- packets. False: the connection has to end, see failure().

    /// Sends at most one batch of packets, as far as windows and pacer permit. `more`: the batch
    /// was full.
    [[nodiscard]] bool send_batch(std::int64_t now, bool &more);
    enum class attempt : std::uint8_t { none, made, failed };
    /// Sends the only packet of a send that is posted, if that is all there is to be sent.
    [[nodiscard]] attempt send_at_once(request &send, std::int64_t now);
    [[nodiscard]] bool send_probe(std::int64_t now);
    const pair_failure &failure() const { return failure_; }
    void send_ack();
    /// Sends a packet that takes no sequence number and may get lost.
    void send_plain(packet_kind kind, const std::uint8_t *body, std::size_t size,
                    std::uint16_t flags = 0);
    /// Header with the current acknowledgement and credit.
    base_header make_header(packet_kind kind, std::uint32_t psn);

    // --- what was sent

    bool idle() const { return window_->empty(); }
    /// Packets wait for retransmission: the network has not accepted them.
    bool stuck() const { return window_->lost() != 0; }
    std::uint32_t in_flight() const { return window_->in_flight(); }
    std::uint32_t next_psn() const { return window_->next(); }
    /// The request to which an outstanding packet belongs, or null.
    request *request_of(std::uint32_t psn);
    /// Whether a packet that the peer refers to may be one of ours.
    bool is_recent(std::uint32_t psn) const;
    /// `sack` is the selective part, which only acks have.
    void on_acknowledgement(const base_header &base, const std::uint32_t *sack,
                            std::uint32_t sack_words, std::int64_t now);

    // --- timers

    /// Time at which on_timer() has work; INT64_MAX: never. May arm the probe timer.
    std::int64_t due_ns()
    {
        if (paused_until_ != 0 || requests_->out_of_credit() || stuck() || idle() || pacer_holds_)
            return unusual_due_ns();
        return resend_from_ + patience_ns();
    }
    void end_pause(std::int64_t now)
    {
        if (paused_until_ != 0 && now >= paused_until_)
            paused_until_ = 0;
    }
    bool timed_out(std::int64_t now) const
    {
        return !idle() && paused_until_ == 0 && now >= resend_from_ + patience_ns();
    }
    /// Handles a timeout that timed_out() has reported. False when the retries are used up.
    bool on_timeout(std::int64_t now, std::uint32_t max_retries);
    bool probe_is_due(std::int64_t now) const
    {
        return requests_->out_of_credit() && idle() && probe_due_ != 0 && now >= probe_due_;
    }
    /// Whether the peer has stopped responding to reads. For the slow timer.
    bool response_overdue(std::int64_t now, std::uint32_t max_retries);

    /// No packet is sent again sooner.
    static constexpr std::int64_t least_patience_ns =
        owed_ack::delay_ns + std::int64_t{rtt_estimator::granularity_us} * 1000;

private:
    static constexpr std::uint32_t most_bytes = 4 << 20;
    /// Live peers hardly lose a packet more often in a row.
    static constexpr std::uint32_t trusted_retries = 4;

    /// Once after each progress, and unless something is known to be lost.
    bool may_probe_tail() const { return !tail_probed_ && retries_ == 0 && !stuck(); }
    /// Time from resend_from_ until a packet is sent again.
    std::int64_t patience_ns() const;
    /// The oldest may always be retransmitted: nothing else moves on before it.
    bool may_resend()
    {
        return stuck() &&
               (window_->oldest_is_lost() || congestion_.has_room(window_->on_the_way()));
    }
    void judge_congestion(std::uint32_t was_in_flight, std::uint32_t was_on_the_way);
    bool window_is_full() { return window_->bytes() >= window_bytes_ || !window_->has_room(); }
    bool next_packet(std::int64_t now, std::uint32_t &psn);
    bool next_new_packet(std::int64_t now, std::uint32_t &psn);
    [[nodiscard]] bool build(out_packet &out, std::uint32_t psn, windows_being_read &read);
    void build_probe(out_packet &out, std::uint32_t psn);
    [[nodiscard]] bool send_chosen(const std::uint32_t *psns, std::uint32_t count);
    [[nodiscard]] bool send_with_long(const std::uint32_t *psns, std::uint32_t count,
                                      std::int64_t now) OSD_NOINLINE;
    bool refer(const std::uint32_t *psns, std::uint32_t count, std::int64_t now);
    [[nodiscard]] bool transmit(const out_packet *packets, const std::uint32_t *psns,
                                std::uint32_t count, bool by_ring);
    bool fail(const pair_failure &why) OSD_COLD;
    bool retire_acknowledged(std::uint32_t ack, std::int64_t now);
    void pause(std::int64_t now);
    std::int64_t unusual_due_ns();

    pair_record *record_ = nullptr;
    large_batches *batches_ = nullptr;
    peer_path *path_ = nullptr;
    send_window *window_ = nullptr;
    requester *requests_ = nullptr;
    responder *responses_ = nullptr;
    receiver *received_ = nullptr;
    rtt_estimator rtt_;
    congestion_control congestion_;
    pacer pacer_;
    bool pacer_holds_ = false; ///< the pacer holds the next packet back
    std::uint32_t window_bytes_ = 0;
    ring_choice ring_choice_;
    std::int64_t refer_from_ = 0;   ///< no references are sent before: the peer could not read one
    bool responses_turn_ = false;   ///< responses and requests take turns
    std::int64_t resend_from_ = 0;  ///< the retransmission timer runs from here
    std::uint32_t retries_ = 0;     ///< number of times that the oldest packet was sent again
    bool tail_probed_ = false;      ///< set once for each oldest packet
    std::int64_t paused_until_ = 0; ///< the peer was not ready; 0: no pause
    std::uint32_t pause_us_ = 0;    ///< the latest pause
    std::int64_t probe_due_ = 0;    ///< 0: not armed
    std::uint32_t probe_delay_us_ = 0;
    pair_failure failure_;
};

} // namespace soft_hca
