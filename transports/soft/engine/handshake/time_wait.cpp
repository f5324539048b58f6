// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "time_wait.hpp"

#include "seal/checked_sender.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace soft_hca {

namespace {

void transmit(const closed_connection &of, const base_header &base, const close_info *closing,
              packet_io &io)
{
    std::uint8_t body[close_size];
    out_packet out;
    out.begin();
    out.add(out.header, write_base(out.header, base));
    if (closing != nullptr)
        out.add(body, write_close(body, *closing));
    complete(out, base.version);
    std::uint32_t done = 0;
    if (base.version != sealed_version)
        (void)io.send(of.peer, &out, 1, done);
    else if (of.seal != nullptr)
        (void)send_sealed(io, of.peer, out, *of.seal, base.to, done);
}

/// Whether the packet belongs to this connection. A reset carries the peer's tag.
bool of_peer(const closed_connection &c, const packet &p, const net_address &from)
{
    const std::uint32_t tag = p.base.kind == packet_kind::reset ? c.base.tag : c.tag;
    return p.base.to == c.base.from && p.base.tag == tag && p.base.from == c.base.to &&
           p.base.version == c.base.version && from == c.peer;
}

} // namespace

time_wait::~time_wait()
{
    osd::lock_guard hold(lock_);
    drop([](const closed_connection &) { return true; });
}

void time_wait::add(closed_connection what)
{
    auto *made = new (std::nothrow) closed_connection(std::move(what));
    if (made == nullptr)
        return;
    osd::lock_guard hold(lock_);
    made->next = first_;
    first_ = made;
    update_due();
}

template <class Which>
void time_wait::drop(Which &&which)
{
    for (closed_connection **at = &first_; *at != nullptr;) {
        closed_connection *const each = *at;
        if (!which(*each)) {
            at = &each->next;
            continue;
        }
        *at = each->next;
        delete each;
    }
    update_due();
    if (first_ == nullptr)
        empty_.broadcast();
}

void time_wait::update_due()
{
    std::int64_t due = INT64_MAX;
    for (const closed_connection *each = first_; each != nullptr; each = each->next)
        due = std::min(due, each->due_ns);
    due_ns_.store(due);
}

bool time_wait::accept(const packet &p, const net_address &from, packet_io &io)
{
    if (due_ns() == INT64_MAX)
        return false;
    const bool crossing = p.base.kind == packet_kind::close; // both sides close at once
    const bool acknowledged =
        crossing || p.base.kind == packet_kind::close_ack || p.base.kind == packet_kind::reset;
    bool known = false;
    osd::lock_guard hold(lock_);
    drop([&](const closed_connection &each) {
        const bool its = of_peer(each, p, from);
        known = known || its;
        if (its && crossing) {
            base_header ack = each.base;
            ack.kind = packet_kind::close_ack;
            transmit(each, ack, nullptr, io);
        }
        return its && acknowledged;
    });
    return known;
}

bool time_wait::accept_sealed(std::uint8_t *bytes, std::size_t size, const sealed_header &header,
                              const net_address &from, packet_io &io)
{
    packet p;
    bool opened = false;
    if (due_ns() == INT64_MAX)
        return false;
    {
        osd::lock_guard hold(lock_);
        for (closed_connection *each = first_; each != nullptr && !opened; each = each->next)
            opened = each->base.from == header.to && each->peer == from && each->seal != nullptr &&
                     each->seal->open_packet(bytes, size, header, p);
    }
    return opened && accept(p, from, io);
}

void time_wait::port_closed(const net_address &to, const base_header &quoted)
{
    osd::lock_guard hold(lock_);
    drop([&](const closed_connection &each) {
        return each.peer == to && each.base.from == quoted.from && each.base.tag == quoted.tag;
    });
}

void time_wait::on_timer(std::int64_t now, packet_io &io)
{
    if (due_ns() > now)
        return;
    osd::lock_guard hold(lock_);
    drop([now](const closed_connection &each) {
        return each.attempts_left == 0 && each.due_ns <= now;
    });
    for (closed_connection *each = first_; each != nullptr; each = each->next) {
        if (each->due_ns > now)
            continue;
        transmit(*each, each->base, &each->closing, io);
        --each->attempts_left;
        each->due_ns = now + close_interval_ns;
    }
    update_due();
}

void time_wait::drain()
{
    // The thread that retransmits them may be gone, as threads are while a process of Windows ends.
    const osd::deadline limit = osd::deadline::after_ns(
        (close_attempts + 2) * static_cast<std::uint64_t>(close_interval_ns));
    osd::lock_guard hold(lock_);
    while (first_ != nullptr && empty_.wait(lock_, limit) != osd::wait_result::timed_out) {
    }
}

} // namespace soft_hca
