// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "send_window.hpp"

#include <algorithm>
#include <new>

namespace soft_hca {

bool send_window::open(window_reserve &lender)
{
    own_.reset(new (std::nothrow) sent_packet[few]);
    member_ = lender.join();
    start(0);
    return own_ != nullptr && member_ != nullptr;
}

bool send_window::widen()
{
    if (loan_ != nullptr)
        return false;
    loan_ = member_->borrow();
    if (loan_ == nullptr)
        return false;
    for (std::uint32_t psn = oldest_; psn != next_; ++psn)
        loan_[psn & (capacity - 1)] = at(psn);
    packets_ = loan_.get();
    mask_ = capacity - 1;
    return true;
}

void send_window::narrow()
{
    packets_ = own_.get();
    mask_ = few - 1;
    loan_.reset();
}

void send_window::acknowledge_selectively(std::uint32_t ack, const std::uint32_t *words,
                                          std::uint32_t count, rtt_estimator &rtt, std::int64_t now)
{
    std::uint32_t highest[2] = {ack, ack};
    for (std::uint32_t i = 0; i < count * 32; ++i) {
        if ((words[i / 32] >> (i % 32) & 1) == 0)
            continue;
        const std::uint32_t psn = ack + 1 + i;
        if (!before(psn, next_))
            break;
        sent_packet &packet = at(psn);
        highest[packet.by_ring] = psn;
        if (before(psn, oldest_) || packet.sacked)
            continue;
        note(packet, rtt, now);
        packet.sacked = true;
        ++arrived_;
        lost_ -= packet.lost ? 1 : 0;
        packet.lost = false;
    }
    find_lost(highest, rtt);
}

void send_window::take_back(const std::uint32_t *words, std::uint32_t count)
{
    for (std::uint32_t psn = oldest_; before(psn, next_); ++psn) {
        const std::uint32_t bit = psn - oldest_ - 1;
        const bool kept = bit < count * 32 && (words[bit / 32] >> (bit % 32) & 1) != 0;
        sent_packet &packet = at(psn);
        if (!packet.sacked || kept)
            continue;
        packet.sacked = false;
        packet.again = true;
        --arrived_;
        mark_lost(psn);
    }
}

/// A packet is lost when several later ones have arrived the same way, or a packet that was sent
/// much later. `highest`: the last packets that have arrived over the network, and by a ring.
void send_window::find_lost(const std::uint32_t (&highest)[2], const rtt_estimator &rtt)
{
    const std::int64_t patience = patience_ns(rtt);
    for (std::uint32_t psn = oldest_; before(psn, next_); ++psn) {
        sent_packet &packet = at(psn);
        if (packet.sacked || packet.lost)
            continue;
        const bool overtaken = !packet.again && distance(psn, highest[packet.by_ring]) >=
                                                    static_cast<std::int32_t>(reorder_threshold);
        if (overtaken || packet.sent_ns + patience < latest_ns(packet)) {
            packet.lost = true;
            ++lost_;
            found_ = true;
            found_psn_ = psn;
        }
    }
}

std::uint32_t send_window::take_lost(std::int64_t now)
{
    std::uint32_t psn = oldest_;
    while (!at(psn).lost)
        ++psn;
    sent_packet &packet = at(psn);
    packet.lost = false;
    packet.again = true;
    packet.by_ring = packet.referred = false;
    packet.sent_ns = now;
    --lost_;
    return psn;
}

void send_window::mark_lost(std::uint32_t psn)
{
    sent_packet &packet = at(psn);
    if (packet.lost)
        return;
    packet.lost = true;
    ++lost_;
}

void send_window::repeat_latest()
{
    std::uint32_t psn = next_ - 1;
    while (psn != oldest_ && at(psn).sacked)
        --psn;
    repeat(psn);
}

void send_window::repeat_referred()
{
    for (std::uint32_t psn = oldest_; before(psn, next_); ++psn)
        if (at(psn).referred && !at(psn).sacked)
            repeat(psn);
}

void send_window::repeat(std::uint32_t psn)
{
    sent_packet &packet = at(psn);
    arrived_ -= packet.sacked ? 1 : 0;
    packet.sacked = false;
    packet.again = true; // the time until the peer is ready is no round-trip time
    mark_lost(psn);
}

} // namespace soft_hca
