// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "connections.hpp"

#include "interface/settings.hpp"
#include "net/inproc_io.hpp"
#include "net/observed_io.hpp"
#include "path_probe.hpp"
#include "seal/checked_sender.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace soft_hca {

bool connections::open(const settings &set, const upcalls &table, const seal_device *seals)
{
    settings_ = &set;
    upcalls_ = &table;
    seals_ = seals;
    return (seals != nullptr ? tokens_.open(sealed_period_ns) : tokens_.open()) && waiting_.open();
}

void connections::close()
{
    osd::lock_guard hold(lock_);
    for (inbound_request *&first : requests_)
        while (first != nullptr)
            forget(first);
    waiting_.close();
}

// ------------------------------------------------------------------------------------ listeners

packet_io *connections::make_io(std::uint16_t port, int &error)
{
    net_address at = settings_->address;
    at.set_port(port);
    error = ENOMEM;
    if (settings_->network != nullptr) {
        auto *io = new (std::nothrow) inproc_io;
        if (io != nullptr && io->open(*settings_->network, at))
            return io;
        delete io;
        error = EADDRINUSE;
        return nullptr;
    }
    auto *io = new (std::nothrow) udp_io;
    if (io != nullptr && (error = io->open(at, false)) == 0) {
        packet_io *const whole = observed(io, settings_->observer);
        error = whole == nullptr ? ENOMEM : 0;
        return whole;
    }
    delete io;
    return nullptr;
}

request_socket *connections::left_behind(std::uint64_t qualifier)
{
    for (request_socket *each = sockets_; each != nullptr; each = each->next)
        if (each->listener == nullptr && each->io != nullptr && each->qualifier == qualifier)
            return each;
    return nullptr;
}

/// Returns null, and a system error number.
request_socket *connections::open_socket(std::uint64_t qualifier, int &error)
{
    packet_io *const io = make_io(static_cast<std::uint16_t>(qualifier), error);
    if (io == nullptr)
        return nullptr;
    auto *const made = new (std::nothrow) request_socket;
    if (made == nullptr || !waiting_.add(io->descriptor())) {
        error = made == nullptr ? ENOMEM : EMFILE;
        delete made;
        delete io;
        return nullptr;
    }
    made->io = io;
    made->qualifier = qualifier != 0 ? qualifier : io->address().port();
    made->next = std::exchange(sockets_, made);
    return made;
}

int connections::add(listener &made, std::uint64_t &qualifier, void *owner)
{
    osd::lock_guard hold(lock_);
    int error = 0;
    request_socket *socket = left_ != 0 ? left_behind(qualifier) : nullptr;
    if (socket != nullptr)
        --left_;
    else
        socket = open_socket(qualifier, error);
    if (socket == nullptr)
        return error;
    socket->listener = &made;
    made.owner = owner;
    made.socket = socket;
    qualifier = socket->qualifier;
    return 0;
}

void connections::remove(listener &victim)
{
    osd::lock_guard hold(lock_);
    request_socket &socket = *std::exchange(victim.socket, nullptr);
    socket.listener = nullptr;
    socket.left_ns = osd::now_ns();
    ++left_;
    while (busy_ == &victim)
        (void)quiet_.wait(lock_, osd::deadline::never());
    if (socket.listener != nullptr)
        return; // it has a listener again
    if (left_ > max_left)
        close_io(socket);
    delete_unused(socket);
}

void connections::close_io(request_socket &at)
{
    waiting_.remove(at.io->descriptor());
    delete std::exchange(at.io, nullptr);
    --left_;
}

void connections::delete_unused(request_socket &at)
{
    if (at.listener != nullptr || at.remembered != 0)
        return;
    if (at.io != nullptr)
        close_io(at);
    request_socket **link = &sockets_;
    while (*link != &at)
        link = &(*link)->next;
    *link = at.next;
    delete &at;
}

// ------------------------------------------------------------------------------------- requests

inbound_request *&connections::bucket_of(const net_address &from, std::uint32_t id,
                                         std::uint32_t tag)
{
    return requests_[tokens_.hash(from, id, tag) % buckets];
}

inbound_request *connections::find(const net_address &from, std::uint32_t id, std::uint32_t tag)
{
    for (inbound_request *each = bucket_of(from, id, tag); each != nullptr; each = each->next)
        if (each->hello.id == id && each->hello.tag == tag && each->peer == from)
            return each;
    return nullptr;
}

/// Returns null when there are too many, of all senders or of this one's host, or no memory.
inbound_request *connections::remember(request_socket &through, const packet &p,
                                       const net_address &from, const seal_offer *offer)
{
    const auto source = static_cast<std::uint32_t>(tokens_.hash_of_host(from) % hosts);
    if (remembered_ >= max_remembered || of_host_[source] >= max_of_host)
        return nullptr;
    auto *made = new (std::nothrow) inbound_request;
    if (made == nullptr)
        return nullptr;
    if (offer != nullptr)
        made->offer.reset(new (std::nothrow) seal_offer(*offer));
    if (offer != nullptr && made->offer == nullptr) {
        delete made;
        return nullptr;
    }
    made->peer = from;
    made->hello = p.hello;
    made->credit = p.base.credit;
    made->version = p.base.version;
    made->exchange = (p.base.flags & flag_exchange) != 0;
    made->data_size = p.private_size;
    std::memcpy(made->data, p.private_data, p.private_size);
    made->source = source;
    made->through = &through;
    ++through.remembered;
    made->next = std::exchange(bucket_of(from, p.hello.id, p.hello.tag), made);
    ++of_host_[source];
    ++remembered_;
    return made;
}

/// Returns null while too many are in use. It is claimed by limit().
address_budget *connections::free_budget()
{
    for (address_budget &each : budgets_)
        if (each.is_free())
            return &each;
    return nullptr;
}

void connections::limit(inbound_request &made, address_budget &budget, std::size_t size)
{
    made.may_send = budget_use(budget);
    made.budget = &budget;
    made.use_of_budget = budget.use();
    budget.add(size, budget.use());
}

void connections::forget(inbound_request *&at)
{
    inbound_request *const gone = std::exchange(at, at->next);
    --of_host_[gone->source];
    --remembered_;
    --gone->through->remembered;
    delete_unused(*gone->through);
    delete gone;
}

/// Where packets wait to be served, copies of a request may be among them, which are taken for a
/// new one once it is forgotten: it is kept longer then, within a bound.
void connections::forget_old(std::int64_t now)
{
    osd::lock_guard hold(lock_);
    const waitable unread = waiting_.descriptor();
    const bool behind = remembered_ != 0 &&
                        wait_for(&unread, 1, osd::deadline::passed()) == osd::wait_result::woken;
    const std::int64_t before = now - (behind ? longest_memory_ns - memory_ns : 0);
    for (inbound_request *&first : requests_)
        for (inbound_request **at = &first; *at != nullptr;)
            if ((*at)->forget_ns > before)
                at = &(*at)->next;
            else
                forget(*at);
}

// -------------------------------------------------------------------------------------- answers

/// Sends an answer. A lost answer is sent again when the peer repeats its request. `offer`: the
/// offer of a sealed request, or null.
void connections::send(const net_address &to, const out_packet &packet, std::uint32_t id,
                       const seal_offer *offer)
{
    std::uint32_t done = 0;
    sealed_handshake sealed;
    if (offer == nullptr)
        (void)answers_->send(to, &packet, 1, done);
    else if (seals_->seal(packet, id, 0, nullptr, seal_context(*offer), sealed))
        (void)answers_->send(to, &sealed.packet(), 1, done);
}

void connections::send_retry(const handshake &to, const net_address &from, std::int64_t now,
                             const seal_offer *offer)
{
    const address_token token = tokens_.make(from, to, now);
    base_header base{packet_kind::retry,
                     0,
                     to.id,
                     to.tag,
                     token.id,
                     token.tag,
                     settings_->versions_and_padding(),
                     0};
    out_packet out;
    out.begin();
    if (offer == nullptr) {
        out.add(out.header, write_retry(out.header, base));
    } else {
        base.version = sealed_version;
        out.add(out.header, write_base(out.header, base));
    }
    send(from, out, to.id, offer);
}

/// Answers a request of a later version, whose sender falls back to a version that both speak. The
/// answer is shorter than the request, of which nothing is stored.
void connections::name_versions(const request_socket &at, const in_packets &question)
{
    handshake hello;
    const std::int64_t now = osd::now_ns();
    if (parse_later_request(question.bytes, question.size, hello) && !is_silent(at, now))
        send_retry(hello, question.from, now, nullptr);
}

namespace {

/// The body is what write_reject() wrote.
void make_rejection(out_packet &out, const handshake &to, std::uint8_t version,
                    const std::uint8_t *body, std::size_t size)
{
    out.begin();
    out.add(out.header,
            write_base(out.header, {packet_kind::reject, 0, to.id, to.tag, 0, 0, 0, 0, version}));
    out.add(body, size);
    complete(out, version);
}

} // namespace

/// Stores nothing of the request.
void connections::refuse(const packet &p, const net_address &from, const seal_offer *offer)
{
    std::uint8_t body[reject_size];
    const std::size_t size = write_reject(body, reject_code::no_listener, nullptr, 0);
    out_packet out;
    make_rejection(out, p.hello, p.base.version, body, size);
    send(from, out, p.hello.id, offer);
}

void connections::send_rejection(inbound_request &request)
{
    std::uint8_t body[reject_size + max_private_data];
    const std::size_t size = write_reject(body, request.code, request.answer, request.answer_size);
    out_packet out;
    make_rejection(out, request.hello, request.version, body, size);
    if (request.may_send.spend(out.size))
        send(request.peer, out, request.hello.id, request.offer.get());
}

bool connections::accept(inbound_request &request, budget_use &may_send, std::uint32_t &carried)
{
    osd::lock_guard hold(lock_);
    request.now = inbound_request::state::accepted;
    request.forget_ns = osd::now_ns() + memory_ns;
    may_send = std::move(request.may_send);
    carried = request.carried;
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

// ------------------------------------------------------------------------------------- arrivals

void connections::offer(listener &at, inbound_request &made)
{
    void *owner = at.owner;
    busy_ = &at;
    lock_.unlock();
    const bool taken = upcalls_->request(owner, made);
    lock_.lock();
    busy_ = nullptr;
    quiet_.broadcast();
    if (taken)
        return;
    made.now = inbound_request::state::rejected;
    made.forget_ns = osd::now_ns() + memory_ns;
    send_rejection(made);
}

namespace {

void note_size(inbound_request &of, const packet &p, std::size_t size)
{
    if ((p.base.flags & flag_padded) != 0 && size >= path_probe::base)
        of.carried = std::max(of.carried, static_cast<std::uint32_t>(size));
}

} // namespace

void connections::repeated(inbound_request &known, const packet &p, std::size_t size)
{
    note_size(known, p, size);
    if (known.budget != nullptr)
        known.budget->add(size, known.use_of_budget);
    if (known.now == inbound_request::state::rejected)
        send_rejection(known);
}

/// The listener was removed a short time ago: a sender repeats its request for as long to a closed
/// port.
bool connections::is_silent(const request_socket &at, std::int64_t now) const
{
    return at.listener == nullptr &&
           now - at.left_ns < std::int64_t{settings_->connect_retry_ms} * 1'000'000;
}

/// A packet that is not sealed with our key. The answer to a request that is not sealed at all says
/// which version this device speaks; it is shorter than the request, so that it cannot amplify.
void connections::not_ours(const request_socket &at, const in_packets &in)
{
    packet p;
    const std::int64_t now = osd::now_ns();
    const bool asks =
        parse(in.bytes, in.size, p) && p.base.kind == packet_kind::request && !is_silent(at, now);
    if (asks && p.base.ack == understands_retry)
        send_retry(p.hello, in.from, now, nullptr);
    if (seals_->may_report(now))
        upcalls_->report(key_trouble::other_key, in.from);
}

bool connections::arrived_sealed(request_socket &at, const in_packets &in)
{
    sealed_header header;
    opened_packet opened;
    if (!read_sealed(in.bytes, in.size, header) || !header.handshake ||
        !seals_->open_packet(in.bytes, in.size, header, seal_context(at.io->address()), opened)) {
        not_ours(at, in);
        return false;
    }
    return arrived(at, opened.plain, in.from, in.size, &opened.offer);
}

bool connections::arrived(request_socket &at, const packet &p, const net_address &from,
                          std::size_t size, const seal_offer *seal)
{
    const std::uint32_t tag = p.base.kind == packet_kind::close ? p.base.tag : p.hello.tag;
    inbound_request *known = find(from, p.base.from, tag);
    if (p.base.kind == packet_kind::close && known != nullptr)
        known->withdrawn = true;
    if (p.base.kind != packet_kind::request)
        return false;
    if (known != nullptr) {
        repeated(*known, p, size);
        return false;
    }
    const std::int64_t now = osd::now_ns();
    if (is_silent(at, now))
        return false;
    if (at.listener == nullptr || p.hello.qualifier != at.qualifier) {
        refuse(p, from, seal);
        return false;
    }
    const bool spoken = (settings_->versions() & set_of(p.base.version)) != 0;
    const bool proven = spoken && tokens_.valid({p.base.to, p.base.tag}, from, p.hello, now);
    if (!proven && p.base.ack == understands_retry) {
        send_retry(p.hello, from, now, seal);
        return false;
    }
    address_budget *const budget = proven ? nullptr : free_budget();
    inbound_request *const made =
        proven || budget != nullptr ? remember(at, p, from, seal) : nullptr;
    if (made == nullptr)
        return false; // its sender repeats it
    note_size(*made, p, size);
    if (budget != nullptr)
        limit(*made, *budget, size);
    offer(*at.listener, *made);
    return true;
}

bool connections::serve_socket(request_socket &at)
{
    in_packets group[1];
    while (at.left > 0 && at.io->receive(group, 1) != 0) {
        --at.left;
        // A copy of the packet is made: an upcall may change the list of sockets.
        packet p;
        if (group[0].segment != group[0].size || settings_->bad_network.stops(group[0].size))
            continue;
        if (seals_ != nullptr) {
            if (arrived_sealed(at, group[0]))
                return true;
        } else if (!parse(group[0].bytes, group[0].size, p)) {
            name_versions(at, group[0]);
        } else if (arrived(at, p, group[0].from, group[0].size, nullptr)) {
            return true;
        }
    }
    return false;
}

/// A flood at one listener takes nothing from the others.
void connections::share_turn()
{
    std::uint32_t count = 0;
    for (const request_socket *each = sockets_; each != nullptr; each = each->next)
        ++count;
    for (request_socket *each = sockets_; each != nullptr; each = each->next)
        each->left = std::max(max_at_once / count, least_share);
}

void connections::serve()
{
    osd::lock_guard hold(lock_);
    waiting_.clear();
    share_turn();
    bool again = true;
    while (again) {
        again = false;
        for (request_socket *each = sockets_; each != nullptr && !again; each = each->next)
            again = each->io != nullptr && serve_socket(*each);
    }
}

} // namespace soft_hca
