// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The packets that were sent and not yet acknowledged: which to send again, and when.
//
// A packet is not kept as bytes but as its origin: `source`, and the part of the source that it
// carries. That is a reference, which begins with push() and ends with pop(), when the packet is
// acknowledged, or with start(), when the connection ends. Neither a selective acknowledgement nor
// a response ends it. A request is completed, and the slot of a response reused, after the last
// reference.
//
// A window has places for a few packets. For more it borrows a large one, if there is one to lend,
// which it gives back when nothing is in flight any more.
#pragma once

#include "rtt.hpp"
#include "window_reserve.hpp"
#include "wire/serial.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

namespace soft_hca {

class send_window {
public:
    static constexpr std::uint32_t reorder_threshold = 3;

    static constexpr std::uint32_t few = 8;
    /// Largest size of a window.
    static constexpr std::uint32_t capacity = window_reserve::capacity;

    send_window() = default;
    /// Returns false when out of memory.
    bool open(window_reserve &lender);
    /// Forgets everything; keeps its own memory.
    void start(std::uint32_t first_psn)
    {
        *this = send_window(std::move(member_), std::move(own_), first_psn);
    }

    std::uint32_t next() const { return next_; }
    std::uint32_t oldest() const { return oldest_; }
    std::uint32_t in_flight() const { return next_ - oldest_; }
    bool empty() const { return next_ == oldest_; }
    /// Packets in flight that neither have arrived nor count as lost.
    std::uint32_t on_the_way() const { return in_flight() - arrived_ - lost_; }
    bool oldest_is_lost() { return !empty() && at(oldest_).lost; }
    /// Whether there is room for one more packet.
    bool has_room() { return in_flight() <= mask_ || widen(); }
    sent_packet &at(std::uint32_t psn) { return packets_[psn & mask_]; }
    const sent_packet &latest() const { return packets_[(next_ - 1) & mask_]; }
    /// The bytes in flight.
    std::uint32_t bytes() const { return bytes_; }
    /// Appends a packet that is sent now, for which it has room. Its number is next() before the
    /// call.
    sent_packet &push(std::int64_t now);
    void set_length(sent_packet &pushed, std::uint32_t length)
    {
        pushed.length = length;
        bytes_ += length;
    }

    /// Whether this can be an acknowledgement: of a packet that was sent and not acknowledged
    /// before (B3).
    bool is_plausible(std::uint32_t ack) const { return ack - oldest_ <= in_flight(); }
    /// Takes the selective part: bit i of word w stands for the packet ack + 1 + 32 * w + i.
    /// Newly lost packets are counted by lost().
    void acknowledge_selectively(std::uint32_t ack, const std::uint32_t *words, std::uint32_t count,
                                 rtt_estimator &rtt, std::int64_t now);
    /// Takes selective acknowledgements back. The peer waits for the oldest packet, though it said
    /// that it had arrived: it has dropped packets that it kept. A packet that it does not describe
    /// any more is lost.
    void take_back(const std::uint32_t *words, std::uint32_t count);
    /// The oldest packet, if it is before `ack`. The caller pops it when it is done with it.
    sent_packet *acknowledged(std::uint32_t ack)
    {
        return before(oldest_, ack) ? &at(oldest_) : nullptr;
    }
    void pop(rtt_estimator &rtt, std::int64_t now);
    /// Returns a borrowed window, when the caller has popped all acknowledged packets and none is
    /// left.
    void settle()
    {
        if (empty() && loan_ != nullptr)
            narrow();
    }

    /// Looks for packets that were sent well before a packet that has arrived.
    void suspect_overtaken(const rtt_estimator &rtt)
    {
        if (!empty() && oldest_sent_ns() + patience_ns(rtt) < latest_ns(at(oldest_)))
            find_lost({oldest_, oldest_}, rtt);
    }

    std::uint32_t lost() const { return lost_; }
    /// Whether losses were found since the last call; the latest of these packets.
    bool take_found(std::uint32_t &psn)
    {
        psn = found_psn_;
        return std::exchange(found_, false);
    }
    /// The first lost one; there is one. It counts as retransmitted.
    std::uint32_t take_lost(std::int64_t now);
    /// Retransmits the oldest: no acknowledgement came, or the peer was not ready for it. A
    /// selective acknowledgement of it counts no more.
    void repeat_oldest() { repeat(oldest_); }
    /// Retransmits the latest packet that is not known to have arrived: if it arrives, its
    /// acknowledgement shows which packets were lost before it.
    void repeat_latest();
    /// Retransmits all packets in whose place references were sent and that have not arrived.
    void repeat_referred();
    /// Marks a packet lost: it was not sent after all.
    void mark_lost(std::uint32_t psn);
    std::int64_t oldest_sent_ns() const { return packets_[oldest_ & mask_].sent_ns; }

private:
    /// Time at which the latest packet was sent that is known to have arrived this way. Packets
    /// that come by a ring overtake packets that come over the network, and say nothing about them.
    std::int64_t &latest_ns(const sent_packet &packet) { return latest_ns_[packet.by_ring]; }
    send_window(window_reserve::membership member, std::unique_ptr<sent_packet[]> own,
                std::uint32_t first_psn)
        : member_(std::move(member)), own_(std::move(own)), packets_(own_.get()),
          oldest_(first_psn), next_(first_psn)
    {}
    bool widen() OSD_COLD;
    void narrow() OSD_NOINLINE;
    void note(const sent_packet &packet, rtt_estimator &rtt, std::int64_t now);
    void find_lost(const std::uint32_t (&highest)[2], const rtt_estimator &rtt);
    void repeat(std::uint32_t psn);
    static std::int64_t patience_ns(const rtt_estimator &rtt)
    {
        return std::max<std::int64_t>(rtt.srtt_us() / 4, 200) * 1000;
    }

    window_reserve::membership member_;
    std::unique_ptr<sent_packet[]> own_; ///< a few
    window_reserve::loan loan_;
    sent_packet *packets_ = nullptr; ///< points into own_ or loan_
    std::uint32_t mask_ = few - 1;
    std::uint32_t oldest_ = 0;
    std::uint32_t next_ = 0;
    std::uint32_t lost_ = 0;
    std::uint32_t arrived_ = 0; ///< in flight, and acknowledged selectively
    std::uint32_t bytes_ = 0;
    std::uint32_t found_psn_ = 0;
    bool found_ = false;
    std::int64_t latest_ns_[2] = {}; ///< see latest_ns()
};

inline sent_packet &send_window::push(std::int64_t now)
{
    sent_packet &packet = at(next_++);
    packet = {};
    packet.sent_ns = now;
    return packet;
}

/// A packet has arrived. Karn's rule: a retransmitted one is no sample of the round-trip time.
inline void send_window::note(const sent_packet &packet, rtt_estimator &rtt, std::int64_t now)
{
    const std::int64_t us = std::max<std::int64_t>((now - packet.sent_ns) / 1000, 0);
    // Acknowledged sooner than possible: it was the first copy that arrived.
    if (packet.again && rtt.srtt_us() != 0 && us < rtt.least_us())
        return;
    latest_ns(packet) = std::max(latest_ns(packet), packet.sent_ns);
    if (!packet.again)
        rtt.sample(static_cast<std::uint32_t>(std::min<std::int64_t>(us, 60'000'000)));
}

inline void send_window::pop(rtt_estimator &rtt, std::int64_t now)
{
    const sent_packet &packet = at(oldest_);
    if (!packet.sacked) [[likely]]
        note(packet, rtt, now);
    lost_ -= packet.lost ? 1 : 0;
    arrived_ -= packet.sacked ? 1 : 0;
    bytes_ -= packet.length;
    ++oldest_;
}

} // namespace soft_hca
