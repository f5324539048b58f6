// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "farewells.hpp"

#include <algorithm>
#include <new>

namespace soft_hca {

namespace {

void transmit(const net_address &to, const base_header &base, const close_info *closing,
              packet_io &io)
{
    std::uint8_t body[close_size];
    out_packet out;
    out.begin();
    out.add(out.header, write_base(out.header, base));
    if (closing != nullptr)
        out.add(body, write_close(body, *closing));
    std::uint32_t done = 0;
    (void)io.send(to, &out, 1, done);
}

/// Whether it is of the connection that this one ended.
bool of_peer(const farewell &f, const packet &p, const net_address &from)
{
    const std::uint32_t tag = p.base.kind == packet_kind::reset ? f.base.tag : f.tag;
    return p.base.to == f.base.from && p.base.tag == tag && p.base.from == f.base.to &&
           from == f.peer;
}

} // namespace

farewells::~farewells()
{
    osd::lock_guard hold(lock_);
    forget([](const farewell &) { return true; });
}

void farewells::add(const farewell &what)
{
    auto *made = new (std::nothrow) farewell(what);
    if (made == nullptr)
        return;
    osd::lock_guard hold(lock_);
    made->next = first_;
    first_ = made;
    update_due();
}

template <class Which>
void farewells::forget(Which &&which)
{
    for (farewell **at = &first_; *at != nullptr;) {
        farewell *const each = *at;
        if (!which(*each)) {
            at = &each->next;
            continue;
        }
        *at = each->next;
        delete each;
    }
    update_due();
    if (first_ == nullptr)
        heard_.broadcast();
}

void farewells::update_due()
{
    std::int64_t due = INT64_MAX;
    for (const farewell *each = first_; each != nullptr; each = each->next)
        due = std::min(due, each->due_ns);
    due_ns_.store(due);
}

bool farewells::take(const packet &p, const net_address &from, packet_io &io)
{
    if (due_ns() == INT64_MAX)
        return false;
    const bool both = p.base.kind == packet_kind::close;
    const bool heard =
        both || p.base.kind == packet_kind::close_ack || p.base.kind == packet_kind::reset;
    bool known = false;
    osd::lock_guard hold(lock_);
    forget([&](const farewell &each) {
        const bool its = of_peer(each, p, from);
        known = known || its;
        if (its && both) {
            base_header ack = each.base;
            ack.kind = packet_kind::close_ack;
            transmit(from, ack, nullptr, io);
        }
        return its && heard;
    });
    return known;
}

void farewells::bounce(const net_address &to, const base_header &quoted)
{
    osd::lock_guard hold(lock_);
    forget([&](const farewell &each) {
        return each.peer == to && each.base.from == quoted.from && each.base.tag == quoted.tag;
    });
}

void farewells::repeat(std::int64_t now, packet_io &io)
{
    if (due_ns() > now)
        return;
    osd::lock_guard hold(lock_);
    forget([now](const farewell &each) { return each.attempts_left == 0 && each.due_ns <= now; });
    for (farewell *each = first_; each != nullptr; each = each->next) {
        if (each->due_ns > now)
            continue;
        transmit(each->peer, each->base, &each->closing, io);
        --each->attempts_left;
        each->due_ns = now + close_again_ns;
    }
    update_due();
}

void farewells::wait_heard()
{
    // Whoever repeats them may be gone, as threads are while a process of Windows ends.
    const osd::deadline limit =
        osd::deadline::after_ns((close_attempts + 2) * static_cast<std::uint64_t>(close_again_ns));
    osd::lock_guard hold(lock_);
    while (first_ != nullptr && heard_.wait(lock_, limit) != osd::wait_result::timed_out) {
    }
}

} // namespace soft_hca
