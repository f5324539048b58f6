// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tcp_cm.hpp"

#include "dapl_debug.hpp"
#include "errno_status.hpp"
#include "osd_address.hpp"
#include "osd_descriptor.hpp"
#include "service_address.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <netinet/tcp.h>
#include <new>
#include <unistd.h>
#include <utility>

namespace dapl::DAPL_TRANSPORT {

using phase = connection_phase;

// ---------------------------------------------------------------------------------------- messages

namespace {

enum class message : std::uint8_t {
    request = 1,
    accept,
    reject_by_consumer,
    reject_by_port,
    ready,   ///< the active side has seen the acceptance
    goodbye, ///< the connection ends as its consumer wants it
    later,   ///< the passive side has no room for a request now
};

} // namespace

/// Numbers are big-endian. The address and the private data follow.
struct tcp_cm_header {
    unsigned char magic[4];
    std::uint8_t version;
    std::uint8_t kind;
    std::uint8_t address_size[2]; // the low one first, as the high one was added later
    std::uint8_t data_size[2];
    std::uint8_t reserved_too[6];
    std::uint8_t qualifier[8];
};
static_assert(sizeof(tcp_cm_header) == 24);

namespace {

constexpr unsigned char tcp_cm_magic[4] = {'D', 'A', 'T', 0xc3};
constexpr std::uint8_t tcp_cm_version = 1;
constexpr std::size_t max_frame =
    sizeof(tcp_cm_header) + tcp_cm_address::max_size + tcp_cm::max_private_data;

template <std::size_t N>
void put(std::uint8_t (&to)[N], std::uint64_t value)
{
    for (std::size_t i = N; i-- > 0; value >>= 8)
        to[i] = static_cast<std::uint8_t>(value);
}

template <std::size_t N>
std::uint64_t get(const std::uint8_t (&from)[N])
{
    std::uint64_t value = 0;
    for (const std::uint8_t byte : from)
        value = value << 8 | byte;
    return value;
}

std::size_t address_size(const tcp_cm_header &header)
{
    return header.address_size[0] | std::size_t{header.address_size[1]} << 8;
}

bool is_valid(const tcp_cm_header &header)
{
    return std::memcmp(header.magic, tcp_cm_magic, sizeof tcp_cm_magic) == 0 &&
           header.version == tcp_cm_version && address_size(header) <= tcp_cm_address::max_size &&
           get(header.data_size) <= tcp_cm::max_private_data;
}

std::size_t size_of(const tcp_cm_header &header)
{
    return sizeof header + address_size(header) + get(header.data_size);
}

enum class heard {
    nothing, ///< no whole frame
    frame,
    garbage,
    end, ///< the connection has ended; errno says why, 0 if in order
};

constexpr std::int64_t resume_after_ns = 100'000'000;
constexpr std::int64_t drain_tick_ns = 1'000'000;

} // namespace

struct tcp_channel : tcp_source, unanswered_request {
    tcp_channel(int socket, int watched_by) : tcp_source(false), epoll(watched_by) { fd = socket; }

    heard hear();
    message kind() const { return static_cast<message>(header.kind); }
    void take_address();
    /// The frame may be gone as soon as an upcall runs.
    private_data copy_data(unsigned char (&to)[tcp_cm::max_private_data]) const;
    /// Returns false when the peer is gone. Everything said before an answer fits into any socket's
    /// buffer.
    bool say(message, const tcp_cm_address *, const private_data &, DAT_CONN_QUAL = 0) const;

    const int epoll;
    tcp_cm *asks = nullptr; ///< connection manager that awaits the consumer's answer to this
                            ///< request
    tcp_connection *connection = nullptr; ///< owner; null for a stranger and for a request
    bool is_connected = true;             ///< the kernel has answered connect()
    tcp_listener *from = nullptr;         ///< listener at which a stranger came
    std::int64_t expires_ns = 0;          ///< time at which a stranger is closed
    tcp_cm_address peer;
    tcp_cm_header header{};
    std::size_t have = 0;    ///< bytes of the present frame
    bool is_garbage = false; ///< bytes made no frame: nothing more may be heard, and its sizes are
                             ///< no sizes
    unsigned char bytes[max_frame];
};

namespace {

/// A forked child may have the descriptor too: epoll would go on reporting it, the peer would not
/// hear of the end, and the port of a listener would stay taken.
void close_watched(int epoll, int fd)
{
    (void)::epoll_ctl(epoll, EPOLL_CTL_DEL, fd, nullptr);
    (void)::shutdown(fd, SHUT_RDWR);
    ::close(fd);
}

} // namespace

void close_channel::operator()(tcp_channel *channel) const
{
    channel->tcp_source::unlink();
    if (channel->fd >= 0)
        close_watched(channel->epoll, channel->fd);
    delete channel;
}

void refuse_channel::operator()(tcp_channel *channel) const
{
    tcp_request unanswered{std::unique_ptr<tcp_channel, refuse_channel>(channel)};
    tcp_cm &cm = *channel->asks;
    osd::lock_guard hold(cm.service_.lock);
    (void)cm.answered(unanswered);
}

/// Collects one frame. The next call begins another.
heard tcp_channel::hear()
{
    assert(!is_garbage);
    for (;;) {
        const std::size_t wanted = have < sizeof header ? sizeof header : size_of(header);
        if (have == wanted) {
            have = 0;
            return heard::frame;
        }
        errno = 0;
        const ssize_t got = ::recv(fd, bytes + have, wanted - have, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return heard::nothing;
        if (got <= 0)
            return heard::end;
        have += static_cast<std::size_t>(got);
        if (have == sizeof header) {
            std::memcpy(&header, bytes, sizeof header);
            is_garbage = !is_valid(header);
            if (is_garbage)
                return heard::garbage;
        }
    }
}

const tcp_cm_address &tcp_request::peer() const
{
    return channel->peer;
}

void tcp_channel::take_address()
{
    peer.size = address_size(header);
    std::memcpy(peer.bytes, bytes + sizeof header, peer.size);
}

private_data tcp_channel::copy_data(unsigned char (&to)[tcp_cm::max_private_data]) const
{
    const std::size_t size = get(header.data_size);
    std::memcpy(to, bytes + sizeof header + address_size(header), size);
    return {to, size};
}

bool tcp_channel::say(message kind, const tcp_cm_address *address, const private_data &given,
                      DAT_CONN_QUAL qualifier) const
{
    private_data data = given;
    if (data.size > tcp_cm::max_private_data) {
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "%zu bytes of private data do not fit, of which %zu are sent: "
                 "hca_attr::max_private_data_size is too high",
                 data.size, tcp_cm::max_private_data);
        data.size = tcp_cm::max_private_data;
    }
    unsigned char out[max_frame];
    tcp_cm_header head{};
    std::memcpy(head.magic, tcp_cm_magic, sizeof tcp_cm_magic);
    head.version = tcp_cm_version;
    head.kind = static_cast<std::uint8_t>(kind);
    const std::size_t own_size = address == nullptr ? 0 : address->size;
    head.address_size[0] = static_cast<std::uint8_t>(own_size);
    head.address_size[1] = static_cast<std::uint8_t>(own_size >> 8);
    put(head.data_size, data.size);
    put(head.qualifier, qualifier);
    std::memcpy(out, &head, sizeof head);
    if (own_size != 0)
        std::memcpy(out + sizeof head, address->bytes, own_size);
    if (data.size != 0)
        std::memcpy(out + sizeof head + own_size, data.bytes, data.size);
    const std::size_t size = size_of(head);
    return ::send(fd, out, size, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

// ----------------------------------------------------------------------------------------- sockets

namespace {

int make_socket(int family)
{
    return osd::beyond_standard(
        ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
}

void set_option(int fd, int level, int option, int value)
{
    (void)::setsockopt(fd, level, option, &value, sizeof value);
}

/// A host that vanishes is noticed within some ten seconds.
void tune(int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 4);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

sockaddr *generic(sockaddr_storage &address)
{
    return reinterpret_cast<sockaddr *>(&address);
}

socklen_t length_of(sockaddr_storage &address)
{
    return static_cast<socklen_t>(osd::address::size_of(generic(address)));
}

tcp_channel_ptr make_channel(int fd, int epoll)
{
    tcp_channel_ptr made(new (std::nothrow) tcp_channel(fd, epoll));
    if (made == nullptr)
        ::close(fd);
    return made;
}

/// How long nothing has come, the time in the kernel's queue included.
std::int64_t silent_ms(int fd)
{
    tcp_info info{};
    socklen_t size = sizeof info;
    return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_last_data_recv
                                                                      : 0;
}

/// Resets a connection. SO_LINGER would do so at the last close only, which may be a forked
/// child's.
void reset(int fd)
{
    const sockaddr nobody{AF_UNSPEC, {}};
    (void)::connect(fd, &nobody, sizeof nobody);
}

int error_of(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;
    return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

void say_goodbye(tcp_connection &q)
{
    if (q.is_established() && q.channel != nullptr)
        (void)q.channel->say(message::goodbye, nullptr, {});
}

bool watch(int epoll, tcp_source &source, std::uint32_t events)
{
    epoll_event event{};
    event.events = events;
    event.data.ptr = &source;
    const int operation = std::exchange(source.is_watched, true) ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    return ::epoll_ctl(epoll, operation, source.fd, &event) == 0;
}

} // namespace

tcp_cm::~tcp_cm()
{
    while (tcp_channel *stranger = strangers_.front())
        close_channel{}(stranger);
    if (epoll_ >= 0)
        ::close(epoll_);
}

bool tcp_cm::open(const sockaddr_storage &address)
{
    address_ = address;
    epoll_ = osd::beyond_standard(::epoll_create1(EPOLL_CLOEXEC));
    return epoll_ >= 0 && service_.events.add(epoll_, EPOLLIN, this);
}

// --------------------------------------------------------------------------------------- listening

namespace {

/// `at` is the adapter's address.
status bind_listener(tcp_listener &l, sockaddr_storage at, DAT_CONN_QUAL &qualifier)
{
    port_support::set_port(generic(at), port_support::port_of(qualifier));
    l.fd = make_socket(at.ss_family);
    if (l.fd < 0)
        return status_of_errno(errno);
    set_option(l.fd, SOL_SOCKET, SO_REUSEADDR, 1);
    tune(l.fd); // each accepted socket inherits this
    socklen_t size = length_of(at);
    if (::bind(l.fd, generic(at), size) != 0 || ::listen(l.fd, SOMAXCONN) != 0 ||
        ::getsockname(l.fd, generic(at), &size) != 0)
        return errno == EADDRINUSE ? status::error(DAT_CONN_QUAL_IN_USE) : status_of_errno(errno);
    if (qualifier == 0)
        qualifier = osd::address::port_of(generic(at));
    return success;
}

} // namespace

status tcp_cm::listen(tcp_listener &l, service_point &owner, DAT_CONN_QUAL &qualifier)
{
    if (qualifier != 0 && port_support::port_of(qualifier) == 0)
        return invalid_parameter(2);
    l.owner = &owner;
    status bound = bind_listener(l, address_, qualifier);
    l.qualifier = qualifier;
    l.is_watched = false;
    if (bound.ok() && !watch(epoll_, l, EPOLLIN))
        bound = status_of_errno(errno);
    if (!bound.ok() && l.fd >= 0)
        ::close(std::exchange(l.fd, -1));
    return bound;
}

void tcp_cm::stop_listening(tcp_listener &l)
{
    osd::lock_guard hold(service_.lock);
    close_watched(epoll_, std::exchange(l.fd, -1));
    l.unlink();
    for (tcp_channel *at = strangers_.front(); at != nullptr;) {
        tcp_channel *const next = strangers_.after(*at);
        if (at->from == &l)
            (void)take_out(*at);
        at = next;
    }
    service_.wait_quiet(&l);
}

void tcp_cm::take_stranger(tcp_listener &l)
{
    const std::uint32_t most = requests_.most();
    const bool full = stranger_count_ + requests_.count() >= most;
    if (full && strangers_.empty())
        return wait_for_answers(l);
    if (full || stranger_count_ >= std::min(limits_.max_strangers, most / 2))
        return make_room(l);
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    const int fd =
        osd::beyond_standard(::accept4(l.fd, generic(peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd < 0) {
        if (errno == EMFILE || lacks_resources(errno)) {
            if (!std::exchange(l.waiting_logged, true))
                dapl_log(DAPL_DBG_TYPE_WARN, "%s: accept failed, connection requests wait: %s",
                         service_.name, std::strerror(errno));
            pause(l, osd::now_ns() + resume_after_ns);
        }
        return;
    }
    l.waiting_logged = false;
    tcp_channel_ptr made = make_channel(fd, epoll_);
    if (made == nullptr)
        return;
    tcp_channel &stranger = *made.release();
    stranger.source = peer;
    stranger.from = &l;
    stranger.expires_ns = ns_from_now(limits_.stranger_ms);
    strangers_.push(stranger);
    ++stranger_count_;
    // a socket that has waited in the kernel's queue has its request already
    if (!hear_stranger(stranger) && !watch(epoll_, stranger, EPOLLIN))
        drop(stranger);
}

/// A burst of honest peers may be faster than their requests: a silent one is dropped only when it
/// has had time to send its own. The listener's event comes again.
void tcp_cm::make_room(tcp_listener &l)
{
    tcp_channel *least = strangers_.front();
    for (tcp_channel *at = least; at != nullptr && least->have == 0; at = strangers_.after(*at))
        if (at->have != 0)
            least = at;
    const std::int64_t more_ms =
        least->have != 0 ? 0 : std::int64_t{limits_.patience_ms} - silent_ms(least->fd);
    if (more_ms > 0)
        pause(l, ns_from_now(static_cast<std::uint32_t>(more_ms)));
    else if (!hear_stranger(*least))
        drop(*least);
}

void tcp_cm::wait_for_answers(tcp_listener &l)
{
    requests_.say_crowded(requests_.front()->source, "further ones wait");
    pause(l, INT64_MAX);
}

/// Connections stay in the kernel's queue until then, or until there is room.
void tcp_cm::pause(tcp_listener &l, std::int64_t until_ns)
{
    (void)watch(epoll_, l, 0);
    paused_.push(l);
    resume_ns_ = until_ns;
}

void tcp_cm::resume_listeners(std::int64_t now)
{
    if (now < resume_ns_)
        return;
    while (tcp_listener *l = paused_.front()) {
        l->unlink();
        (void)watch(epoll_, *l, EPOLLIN);
    }
}

void tcp_cm::place_is_free()
{
    if (paused_.empty())
        return;
    resume_ns_ = 0;
    if (!service_.events.is_current())
        service_.events.kick();
}

tcp_channel_ptr tcp_cm::take_out(tcp_channel &stranger)
{
    stranger.tcp_source::unlink();
    --stranger_count_;
    place_is_free();
    return tcp_channel_ptr(&stranger);
}

/// An honest peer repeats its request.
void tcp_cm::drop(tcp_channel &stranger)
{
    reset(stranger.fd);
    (void)take_out(stranger);
}

void tcp_cm::expire_strangers(std::int64_t now)
{
    for (tcp_channel *first = strangers_.front(); first != nullptr && first->expires_ns <= now;
         first = strangers_.front())
        drop(*first);
}

/// Returns false while it has sent nothing whole; otherwise it is none any more.
bool tcp_cm::hear_stranger(tcp_channel &stranger)
{
    const heard what = stranger.hear();
    if (what == heard::nothing)
        return false;
    tcp_channel_ptr channel = take_out(stranger);
    if (what == heard::frame && channel->kind() == message::request)
        request_came(std::move(channel), *stranger.from);
    else if (what != heard::end)
        dapl_log(DAPL_DBG_TYPE_CM,
                 "%s: dropped a TCP connection that sent no request of this protocol",
                 service_.name);
    return true;
}

/// Until it is answered its end is watched, and nothing is read.
void tcp_cm::request_came(tcp_channel_ptr channel, tcp_listener &l)
{
    unsigned char copy[max_private_data];
    if (!requests_.has_share(channel->source, "further requests of that address are put off"))
        return (void)channel->say(message::later, nullptr, {});
    if (!watch(epoll_, *channel, EPOLLRDHUP))
        return reset(channel->fd);
    channel->asks = this;
    requests_.add(*channel);
    channel->take_address();
    sockaddr_storage peer = channel->source;
    const cr_params params{generic(peer), osd::address::port_of(generic(peer)),
                           channel->copy_data(copy)};
    const bool for_this = get(channel->header.qualifier) == l.qualifier;
    tcp_request request{std::unique_ptr<tcp_channel, refuse_channel>(channel.release())};
    const bool taken = for_this && user_.offer(l, request, params);
    if (!taken && request.channel != nullptr)
        refuse(request, reject_reason::non_consumer, {});
}

/// Takes the channel of a request that waits no longer.
tcp_channel_ptr tcp_cm::answered(tcp_request &request)
{
    tcp_channel_ptr channel(request.channel.release());
    channel->asks = nullptr;
    if (channel->fd >= 0) {
        requests_.remove(*channel);
        place_is_free();
    }
    return channel;
}

/// What the request says stays with the port until the consumer answers it.
void tcp_cm::sender_has_gone(tcp_channel &channel)
{
    close_watched(epoll_, std::exchange(channel.fd, -1));
    requests_.remove(channel);
    place_is_free();
}

// ---------------------------------------------------------------------------------- the active
// side

status tcp_cm::connect(tcp_connection &q, const connect_params &params, const tcp_cm_address &own)
{
    std::unique_ptr<connect_attempt> attempt;
    const status made = connect_attempt::make(
        params, {address_.ss_family, max_private_data, limits_.connect_retry_ms}, attempt);
    if (!made.ok())
        return made;
    osd::lock_guard hold(service_.lock);
    q.attempt = std::move(attempt);
    q.own = own;
    q.enter(phase::connecting);
    const int error = try_connect(q);
    if (lacks_resources(error)) {
        q.attempt.reset();
        q.enter(phase::idle);
        return status_of_errno(error);
    }
    if (error != 0)
        attempt_failed(q, error);
    return success;
}

/// 0, or why it cannot be.
int tcp_cm::try_connect(tcp_connection &q)
{
    const int fd = make_socket(address_.ss_family);
    if (fd < 0)
        return errno;
    q.channel = make_channel(fd, epoll_);
    if (q.channel == nullptr)
        return ENOMEM;
    q.channel->connection = &q;
    q.channel->is_connected = false;
    tune(fd);
    // connect() finds a port: a port that bind() found could serve no connection to another peer
    set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    // the port stays free for a listener, also while the ended connection is in TIME_WAIT
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    sockaddr_storage from = address_;
    port_support::set_port(generic(from), 0);
    sockaddr *const to = q.attempt->peer();
    const bool begun = ::bind(fd, generic(from), length_of(from)) == 0 &&
                       (::connect(fd, to, static_cast<socklen_t>(osd::address::size_of(to))) == 0 ||
                        errno == EINPROGRESS) &&
                       watch(epoll_, *q.channel, EPOLLOUT);
    const int error = begun ? 0 : errno;
    if (!begun)
        q.channel.reset();
    return error;
}

void tcp_cm::connected(tcp_connection &q)
{
    q.channel->is_connected = true;
    const int error = error_of(q.channel->fd);
    const bool said = error == 0 && q.channel->say(message::request, &q.own, q.attempt->data(),
                                                   q.attempt->qualifier());
    if (!said)
        attempt_failed(q, error != 0 ? error : ECONNRESET);
    else if (!watch(epoll_, *q.channel, EPOLLIN))
        attempt_failed(q, errno);
}

/// The peer does not listen yet, or had no time for the request: repeats it with back-off.
void tcp_cm::attempt_failed(tcp_connection &q, int error)
{
    q.channel.reset();
    const bool repeats = error == ECONNREFUSED || error == ECONNRESET;
    const std::int64_t next = repeats ? q.attempt->next_try() : connect_attempt::never;
    if (next != connect_attempt::never)
        service_.schedule(q, next);
    else
        end_attempt(q, connection_event_of_errno(error));
}

void tcp_cm::end_attempt(tcp_connection &q, DAT_EVENT_NUMBER event, const private_data &data)
{
    abandon(q);
    service_.deliver_soon(q, event, data);
}

void tcp_cm::abandon(tcp_connection &q)
{
    q.channel.reset();
    q.forget_attempt();
    q.enter(phase::dead);
    user_.tear_down(q);
}

void tcp_cm::answer_came(tcp_connection &q)
{
    unsigned char copy[max_private_data];
    const message answer = q.channel->kind();
    const private_data data = q.channel->copy_data(copy);
    if (answer == message::reject_by_consumer)
        return end_attempt(q, DAT_CONNECTION_EVENT_PEER_REJECTED, data);
    if (answer == message::later) {
        q.channel.reset();
        return service_.schedule(q, q.attempt->next_try_later());
    }
    q.channel->take_address();
    const bool up = answer == message::accept && user_.bring_up(q, q.channel->peer) &&
                    q.channel->say(message::ready, nullptr, {});
    if (!up)
        return end_attempt(q, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    q.attempt.reset();
    q.enter(phase::live);
    service_.deliver(q, DAT_CONNECTION_EVENT_ESTABLISHED, data);
}

// --------------------------------------------------------------------------------- the passive
// side

status tcp_cm::accept(tcp_request &request, tcp_connection &q, const private_data &data,
                      const tcp_cm_address &own)
{
    if (data.size > max_private_data)
        return invalid_parameter(3);
    osd::lock_guard hold(service_.lock);
    q.channel = answered(request);
    q.channel->connection = &q;
    q.enter(phase::accepting);
    const bool accepted = user_.bring_up(q, q.channel->peer) &&
                          q.channel->say(message::accept, &own, data) &&
                          watch(epoll_, *q.channel, EPOLLIN);
    if (accepted)
        service_.schedule(q, ns_from_now(limits_.ready_ms));
    else
        end_attempt(q, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    return success;
}

void tcp_cm::refuse(tcp_request &request, reject_reason reason, const private_data &data)
{
    const bool consumer = reason == reject_reason::consumer;
    (void)answered(request)->say(consumer ? message::reject_by_consumer : message::reject_by_port,
                                 nullptr, data);
}

void tcp_cm::reject(tcp_request &request, reject_reason reason, const private_data &data)
{
    tcp_cm &cm = *request.channel->asks;
    osd::lock_guard hold(cm.service_.lock);
    cm.refuse(request, reason, data);
}

// --------------------------------------------------------------------------------------- connected

void tcp_cm::hear_peer(tcp_connection &q)
{
    const heard what = q.channel->hear();
    const int error = what == heard::end && errno != 0 ? errno : EPROTO;
    const bool framed = what == heard::frame;
    if (what == heard::nothing)
        return;
    switch (q.phase()) {
    case phase::connecting:
        return framed ? answer_came(q) : attempt_failed(q, error);
    case phase::accepting:
        if (!framed || q.channel->kind() != message::ready)
            return end_attempt(q, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
        q.cancel();
        q.enter(phase::live);
        return service_.deliver(q, DAT_CONNECTION_EVENT_ESTABLISHED);
    default:
        return peer_ended(q, framed && q.channel->kind() == message::goodbye);
    }
}

/// The consumer wants the end of a connection: the peer is told.
void tcp_cm::end_here(tcp_connection &q)
{
    say_goodbye(q);
    abandon(q);
    service_.deliver_soon(q, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/// The peer has said goodbye, or is gone without it.
void tcp_cm::peer_ended(tcp_connection &q, bool said_goodbye)
{
    const bool wanted = q.phase() == phase::closing;
    abandon(q);
    const bool broken = !wanted && (!said_goodbye || user_.has_failed(q));
    service_.deliver_soon(q,
                          broken ? DAT_CONNECTION_EVENT_BROKEN : DAT_CONNECTION_EVENT_DISCONNECTED);
}

void tcp_cm::disconnect(tcp_connection &q, DAT_CLOSE_FLAGS flags)
{
    osd::lock_guard hold(service_.lock);
    const phase now = q.phase();
    if (now == phase::connecting || now == phase::accepting) {
        abandon(q);
    } else if (now == phase::live && flags == DAT_CLOSE_GRACEFUL_FLAG) {
        q.close_by_ns = ns_from_now(limits_.linger_ms);
        q.enter(phase::closing);
        service_.schedule(q, 0);
    } else if (q.is_established() && flags != DAT_CLOSE_GRACEFUL_FLAG) {
        end_here(q);
    }
}

void tcp_cm::disconnect_clean(tcp_connection &q)
{
    osd::lock_guard hold(service_.lock);
    say_goodbye(q);
    if (q.phase() == phase::idle)
        user_.tear_down(q);
    else
        abandon(q);
}

/// Ends a connection without a goodbye: the peer takes it for broken.
void tcp_cm::fail(tcp_connection &q)
{
    osd::lock_guard hold(service_.lock);
    if (q.is_established())
        end(q, DAT_CONNECTION_EVENT_BROKEN);
}

void tcp_cm::end(tcp_connection &q, DAT_EVENT_NUMBER event)
{
    abandon(q);
    service_.deliver_later(q, event);
}

void tcp_cm::lose(tcp_connection &q)
{
    if (!q.is_established() || q.channel == nullptr)
        return;
    const bool ended = q.phase() == phase::closing ||
                       (q.channel->hear() == heard::frame && q.channel->kind() == message::goodbye);
    end(q, ended ? DAT_CONNECTION_EVENT_DISCONNECTED : DAT_CONNECTION_EVENT_BROKEN);
}

void tcp_cm::forget(tcp_connection &q)
{
    osd::lock_guard hold(service_.lock);
    say_goodbye(q);
    q.channel.reset();
    q.enter(phase::idle); // stops an upcall that runs from failing it
    q.forget_attempt();
    service_.wait_quiet(&q);
}

// ----------------------------------------------------------------------------------------- service

void tcp_cm::attend(tcp_connection &q)
{
    if (service_.deliver_pending(q))
        return;
    if (q.attempt != nullptr) {
        if (const int error = try_connect(q); error != 0)
            attempt_failed(q, error);
    } else if (q.phase() == phase::accepting) {
        end_attempt(q, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    } else if (q.phase() == phase::closing) {
        if (!user_.is_drained(q) && osd::now_ns() < q.close_by_ns)
            return service_.schedule(q, osd::now_ns() + drain_tick_ns);
        end_here(q);
    }
}

void tcp_cm::serve_source(tcp_source &source)
{
    if (source.is_listener)
        return take_stranger(static_cast<tcp_listener &>(source));
    auto &channel = static_cast<tcp_channel &>(source);
    if (channel.asks != nullptr)
        sender_has_gone(channel);
    else if (channel.connection == nullptr)
        (void)hear_stranger(channel);
    else if (!channel.is_connected)
        connected(*channel.connection);
    else
        hear_peer(*channel.connection);
}

/// One event at a time: an upcall may free what the next one is of.
std::int64_t tcp_cm::serve()
{
    epoll_event event;
    for (int i = 0; i < batch && ::epoll_wait(epoll_, &event, 1, 0) == 1; ++i)
        serve_source(*static_cast<tcp_source *>(event.data.ptr));
    const std::int64_t now = osd::now_ns();
    expire_strangers(now);
    resume_listeners(now);
    while (connection_state *due = service_.timers.pop_due(now))
        attend(static_cast<tcp_connection &>(*due));
    std::int64_t next = service_.timers.next_due();
    if (tcp_channel *first = strangers_.front())
        next = std::min(next, first->expires_ns);
    if (!paused_.empty())
        next = std::min(next, resume_ns_);
    return next;
}

} // namespace dapl::DAPL_TRANSPORT
