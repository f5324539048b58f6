// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "connections.hpp"

#include "inproc_io.hpp"
#include "settings.hpp"

#include <cerrno>
#include <cstring>
#include <new>

namespace soft_hca {

bool connections::open(const settings &how, const upcalls &tell)
{
    how_ = &how;
    tell_ = &tell;
    return waiting_.open();
}

void connections::close()
{
    osd::lock_guard hold(lock_);
    while (requests_ != nullptr) {
        inbound_request *next = requests_->next;
        delete requests_;
        requests_ = next;
    }
    remembered_ = 0;
    waiting_.close();
}

// ------------------------------------------------------------------------------------ listeners

packet_io *connections::make_io(std::uint16_t port, int &error)
{
    net_address at = how_->address;
    at.set_port(port);
    error = ENOMEM;
    if (how_->network != nullptr) {
        auto *io = new (std::nothrow) inproc_io;
        if (io != nullptr && io->open(*how_->network, at))
            return io;
        delete io;
        error = EADDRINUSE;
        return nullptr;
    }
    auto *io = new (std::nothrow) udp_io;
    if (io != nullptr && (error = io->open(at, false)) == 0)
        return io;
    delete io;
    return nullptr;
}

int connections::add(listener &made, std::uint64_t &qualifier, void *owner)
{
    int error = 0;
    made.io = make_io(static_cast<std::uint16_t>(qualifier), error);
    if (made.io == nullptr)
        return error;
    if (qualifier == 0)
        qualifier = made.io->address().port();
    made.owner = owner;
    made.qualifier = qualifier;
    osd::lock_guard hold(lock_);
    made.next = listeners_;
    listeners_ = &made;
    if (waiting_.add(made.io->descriptor()))
        return 0;
    listeners_ = made.next;
    delete made.io;
    made.io = nullptr;
    return EMFILE;
}

void connections::remove(listener &victim)
{
    osd::lock_guard hold(lock_);
    for (listener **at = &listeners_; *at != nullptr; at = &(*at)->next)
        if (*at == &victim) {
            *at = victim.next;
            break;
        }
    while (busy_ == &victim)
        (void)quiet_.wait(lock_, osd::deadline::never());
    waiting_.remove(victim.io->descriptor());
    delete victim.io;
    victim.io = nullptr;
}

// ------------------------------------------------------------------------------------- requests

inbound_request *connections::find(const net_address &from, std::uint32_t id, std::uint32_t tag)
{
    for (inbound_request *each = requests_; each != nullptr; each = each->next)
        if (each->hello.id == id && each->hello.tag == tag && each->peer == from)
            return each;
    return nullptr;
}

void connections::send_rejection(const inbound_request &request)
{
    std::uint8_t body[reject_size + max_private_data];
    const std::size_t size = write_reject(body, request.code, request.answer, request.answer_size);
    out_packet out;
    out.begin();
    out.add(out.header, write_base(out.header, {packet_kind::reject, 0, request.hello.id,
                                                request.hello.tag, 0, 0, 0, 0}));
    out.add(body, size);
    std::uint32_t done = 0;
    (void)answers_->send(request.peer, &out, 1,
                         done); // if it is lost, the peer retransmits the request
}

bool connections::accept(inbound_request &request)
{
    osd::lock_guard hold(lock_);
    request.now = inbound_request::state::accepted;
    request.forget_ns = osd::now_ns() + memory_ns;
    return !request.withdrawn;
}

void connections::reject(inbound_request &request, reject_code code, const void *data,
                         std::size_t size)
{
    osd::lock_guard hold(lock_);
    request.now = inbound_request::state::rejected;
    request.forget_ns = osd::now_ns() + memory_ns;
    request.code = code;
    request.answer_size = static_cast<std::uint16_t>(size);
    if (size != 0)
        std::memcpy(request.answer, data, size);
    send_rejection(request);
}

void connections::forget_old(std::int64_t now)
{
    osd::lock_guard hold(lock_);
    for (inbound_request **at = &requests_; *at != nullptr;) {
        inbound_request *each = *at;
        if (each->forget_ns > now) {
            at = &each->next;
            continue;
        }
        *at = each->next;
        delete each;
        --remembered_;
    }
}

void connections::offer(listener &at, const packet &p, const net_address &from)
{
    // A flood of requests is limited by the rate at which answered ones expire.
    auto *made = remembered_ < max_remembered ? new (std::nothrow) inbound_request : nullptr;
    if (made == nullptr)
        return;
    made->peer = from;
    made->hello = p.hello;
    made->credit = p.base.credit;
    made->data_size = p.private_size;
    std::memcpy(made->data, p.private_data, p.private_size);
    made->next = requests_;
    requests_ = made;
    ++remembered_;
    bool taken = false;
    if (p.hello.qualifier == at.qualifier) {
        void *owner = at.owner;
        busy_ = &at;
        lock_.unlock();
        taken = tell_->request(owner, *made);
        lock_.lock();
        busy_ = nullptr;
        quiet_.broadcast();
    }
    if (taken)
        return;
    made->now = inbound_request::state::rejected;
    made->forget_ns = osd::now_ns() + memory_ns;
    send_rejection(*made);
}

/// True when an upcall was made: the list of listeners may have changed.
bool connections::arrived(listener &at, const packet &p, const net_address &from)
{
    const std::uint32_t tag = p.base.kind == packet_kind::close ? p.base.tag : p.hello.tag;
    inbound_request *known = find(from, p.base.from, tag);
    if (p.base.kind == packet_kind::close && known != nullptr)
        known->withdrawn = true;
    if (p.base.kind != packet_kind::request)
        return false;
    if (known != nullptr) {
        if (known->now == inbound_request::state::rejected)
            send_rejection(*known);
        return false;
    }
    offer(at, p, from);
    return true;
}

bool connections::serve_listener(listener &at)
{
    in_packets group[1];
    while (at.io->receive(group, 1) != 0) {
        // Copies what it needs: an upcall may change the list of listeners.
        packet p;
        if (group[0].segment == group[0].size && parse(group[0].bytes, group[0].size, p) &&
            arrived(at, p, group[0].from))
            return true;
    }
    return false;
}

void connections::serve()
{
    osd::lock_guard hold(lock_);
    waiting_.clear();
    bool again = true;
    while (again) {
        again = false;
        for (listener *each = listeners_; each != nullptr && !again; each = each->next)
            again = serve_listener(*each);
    }
}

} // namespace soft_hca
