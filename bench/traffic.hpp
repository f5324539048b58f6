// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The traffic patterns that are measured, written once for every kind of link: dat_link, and
// fi_link, its twin on libfabric. Both sides keep Link::receive_pool receives
// posted; a receive is reposted immediately after its completion is taken.
#pragma once

#include "channel.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace bench {

enum class pattern : std::uint32_t {
    finish,         ///< nothing more to do
    ping_pong,      ///< two-sided, both sides poll
    blocking,       ///< two-sided, both sides block for the receive
    notified,       ///< two-sided, both sides block through a CNO
    write_pong,     ///< RDMA writes, both sides spin on the last byte
    write_spin,     ///< like write_pong, and all completions but a few are suppressed
    write_stream,   ///< RDMA writes one way
    read_stream,    ///< RDMA reads one way
    message_stream, ///< sends one way, acknowledged now and then
    write_both,     ///< RDMA writes in both directions at once
    read_both,      ///< RDMA reads in both directions at once
    message_both,   ///< sends in both directions at once
    connections,    ///< connect and disconnect
    line_probe,     ///< a cache line to and fro, see placement.hpp
};

/// What the leading side asks of the other before each measurement.
struct command {
    pattern what;
    std::uint32_t size; ///< bytes per message
    std::uint32_t count;
    std::uint32_t stack;      ///< index of the link, if there are several
    std::uint32_t window = 0; ///< outstanding operations, where both sides have some
};

/// Maximum number of unacknowledged messages, and how many one acknowledgement covers.
constexpr std::uint32_t stream_window = 64;
constexpr std::uint32_t ack_every = 32;

/// How long it takes to do something so often.
template <class Once>
seconds time_of(std::uint32_t count, Once once)
{
    const auto start = clock::now();
    for (std::uint32_t i = 0; i < count; ++i)
        once();
    return clock::now() - start;
}

template <class Link>
void await_receive(Link &link, patience &p)
{
    while (!link.poll_receive())
        p.spin();
    p.progress();
    link.post_receive();
}

template <class Link>
void await_request(Link &link, patience &p)
{
    while (!link.poll_request())
        p.spin();
    p.progress();
}

// -------------------------------------------------------------------------------------- ping-pong

template <class Link>
void ping(Link &link, std::uint32_t size, patience &p)
{
    link.post_send(size);
    await_receive(link, p);
    await_request(link, p);
}

template <class Link>
void pong(Link &link, std::uint32_t size, patience &p)
{
    await_receive(link, p);
    link.post_send(size);
    await_request(link, p);
}

/// Round trips in a row; their time in all.
template <class Link>
seconds ping_many(Link &link, std::uint32_t size, std::uint32_t count, patience &p)
{
    return time_of(count, [&] { ping(link, size, p); });
}

template <class Link>
void pong_many(Link &link, std::uint32_t size, std::uint32_t count, patience &p)
{
    for (std::uint32_t i = 0; i < count; ++i)
        pong(link, size, p);
}

template <class Link>
void ping_blocking(Link &link, std::uint32_t size, patience &p)
{
    link.post_send(size);
    link.wait_receive(p);
    link.post_receive();
    await_request(link, p);
}

template <class Link>
void pong_blocking(Link &link, std::uint32_t size, patience &p)
{
    link.wait_receive(p);
    link.post_receive();
    link.post_send(size);
    await_request(link, p);
}

template <class Link>
seconds ping_many_blocking(Link &link, std::uint32_t size, std::uint32_t count, patience &p)
{
    return time_of(count, [&] { ping_blocking(link, size, p); });
}

// ----------------------------------------------------------------------------------- RDMA writes

/// The byte that the n-th write ends with; it differs from the byte that the buffer starts with.
inline std::byte mark(std::uint32_t n)
{
    return static_cast<std::byte>(1 + n % 250);
}

template <class Link>
void await_mark(Link &link, std::uint32_t size, std::byte expected, patience &p)
{
    volatile std::byte &last = link.receive_buffer()[size - 1];
    while (last != expected)
        p.spin();
    p.progress();
}

template <class Link>
void write_mark(Link &link, std::uint32_t size, std::byte value)
{
    link.send_buffer()[size - 1] = value;
    link.post_write(size);
}

/// Clears the mark, on both sides, before a series of marked writes.
template <class Link>
void clear_mark(Link &link, std::uint32_t size)
{
    link.receive_buffer()[size - 1] = std::byte{0};
}

template <class Link>
void write_ping(Link &link, std::uint32_t size, std::uint32_t n, patience &p)
{
    write_mark(link, size, mark(n));
    await_mark(link, size, mark(n), p);
    await_request(link, p);
}

template <class Link>
void write_pong(Link &link, std::uint32_t size, std::uint32_t n, patience &p)
{
    await_mark(link, size, mark(n), p);
    write_mark(link, size, mark(n));
    await_request(link, p);
}

template <class Link>
seconds write_ping_many(Link &link, std::uint32_t size, std::uint32_t count, patience &p)
{
    std::uint32_t n = 0;
    return time_of(count, [&] { write_ping(link, size, n++, p); });
}

/// The period of signalled writes, for programs that poll memory only: most writes complete without
/// an event. One write in `reap_every` is signalled; its completion is taken after the peer has
/// answered. Until then the only DAT calls are posts.
constexpr std::uint32_t reap_every = 32;

template <class Link>
concept suppresses = requires(Link &link)
{
    link.post_silent_write(1u);
};

inline bool is_reaped(std::uint32_t n, std::uint32_t count)
{
    return n % reap_every == reap_every - 1 || n + 1 == count;
}

template <suppresses Link>
void write_spin_mark(Link &link, std::uint32_t size, std::uint32_t n, std::uint32_t count)
{
    link.send_buffer()[size - 1] = mark(n);
    if (is_reaped(n, count))
        link.post_write(size);
    else
        link.post_silent_write(size);
}

template <suppresses Link>
seconds spin_ping_many(Link &link, std::uint32_t size, std::uint32_t count, patience &p)
{
    std::uint32_t n = 0;
    return time_of(count, [&] {
        write_spin_mark(link, size, n, count);
        await_mark(link, size, mark(n), p);
        if (is_reaped(n, count))
            await_request(link, p);
        ++n;
    });
}

template <suppresses Link>
void spin_pong_many(Link &link, std::uint32_t size, std::uint32_t count, patience &p)
{
    for (std::uint32_t n = 0; n < count; ++n) {
        await_mark(link, size, mark(n), p);
        if (n != 0 && is_reaped(n - 1, count))
            await_request(link, p);
        write_spin_mark(link, size, n, count);
    }
    await_request(link, p);
}

// ---------------------------------------------------------------------------------------- streams

/// One-way requests with `window` of them outstanding. A message and its reply end the series, so
/// the time includes the delivery of the last byte.
template <class Link, class Post>
seconds stream(Link &link, Post post, std::uint32_t count, std::uint32_t window, patience &p)
{
    const auto start = clock::now();
    std::uint32_t posted = 0;
    for (std::uint32_t done = 0; done < count; ++done) {
        for (; posted < count && posted - done < window; ++posted)
            post();
        await_request(link, p);
    }
    ping(link, 1, p);
    return clock::now() - start;
}

template <class Link>
seconds write_many(Link &link, std::uint32_t size, std::uint32_t count, std::uint32_t window,
                   patience &p)
{
    return stream(
        link, [&] { link.post_write(size); }, count, std::min(window, stream_window), p);
}

template <class Link>
seconds read_many(Link &link, std::uint32_t size, std::uint32_t count, std::uint32_t window,
                  patience &p)
{
    return stream(
        link, [&] { link.post_read(size); }, count, std::min(window, stream_window), p);
}

/// Messages one way; never more than stream_window unacknowledged, so that each finds a receive.
template <class Link>
seconds send_many(Link &link, std::uint32_t size, std::uint32_t count, patience &p)
{
    const auto start = clock::now();
    std::uint32_t sent = 0, completed = 0, acknowledged = 0;
    while (acknowledged < count) {
        if (sent < count && sent - acknowledged < stream_window &&
            sent - completed < stream_window) {
            link.post_send(size);
            ++sent;
            continue;
        }
        const bool request = link.poll_request();
        completed += request;
        const bool ack = link.poll_receive();
        if (ack) {
            link.post_receive();
            acknowledged = std::min(acknowledged + ack_every, count);
        }
        if (request || ack)
            p.progress();
        else
            p.spin();
    }
    for (; completed < count; ++completed)
        await_request(link, p);
    return clock::now() - start;
}

template <class Link>
void take_many(Link &link, std::uint32_t count, patience &p)
{
    for (std::uint32_t i = 1; i <= count; ++i) {
        await_receive(link, p);
        if (i % ack_every == 0 || i == count) {
            link.post_send(1);
            await_request(link, p);
        }
    }
}

/// As many messages in each direction at once. A side is at most half a window ahead of what it has
/// received, so the other one has never more than a window to receive.
template <class Link>
seconds exchange_many(Link &link, std::uint32_t size, std::uint32_t count, patience &p)
{
    const auto start = clock::now();
    std::uint32_t sent = 0, completed = 0, received = 0;
    while (completed < count || received < count) {
        if (sent < count && sent < received + stream_window / 2 &&
            sent - completed < stream_window) {
            link.post_send(size);
            ++sent;
            continue;
        }
        const bool request = link.poll_request();
        completed += request;
        const bool message = link.poll_receive();
        if (message) {
            link.post_receive();
            ++received;
        }
        if (request || message)
            p.progress();
        else
            p.spin();
    }
    return clock::now() - start;
}

// ---------------------------------------------------------------------------------- the other side

/// Announces the next pattern to the other side and waits until it is ready for it.
inline void announce(channel &peer, const command &what, seconds limit)
{
    peer.send(what);
    peer.receive<char>(limit);
}

/// What the other side does in a two-sided or RDMA measurement.
template <class Link>
void take_part(Link &link, const command &what, patience &p)
{
    p.progress();
    switch (what.what) {
    case pattern::ping_pong:
        return pong_many(link, what.size, what.count, p);
    case pattern::write_stream:
    case pattern::read_stream:
        return pong(link, 1, p);
    case pattern::message_stream:
        return take_many(link, what.count, p);
    case pattern::write_both:
        (void)write_many(link, what.size, what.count, std::max(what.window, 1u), p);
        return;
    case pattern::read_both:
        if constexpr (requires { link.post_read(1u); })
            (void)read_many(link, what.size, what.count, std::max(what.window, 1u), p);
        return;
    case pattern::message_both:
        (void)exchange_many(link, what.size, what.count, p);
        return;
    case pattern::write_pong:
        for (std::uint32_t n = 0; n < what.count; ++n)
            write_pong(link, what.size, n, p);
        return;
    case pattern::write_spin:
        if constexpr (suppresses<Link>)
            spin_pong_many(link, what.size, what.count, p);
        return;
    case pattern::blocking:
    case pattern::notified:
        if constexpr (requires { link.wait_receive(p); })
            for (std::uint32_t n = 0; n < what.count; ++n)
                pong_blocking(link, what.size, p);
        return;
    default:
        return;
    }
}

template <class Link>
void answer(Link &link, const command &what, channel &leader, patience &p)
{
    if (what.what == pattern::write_pong || what.what == pattern::write_spin)
        clear_mark(link, what.size);
    leader.send('r');
    take_part(link, what, p);
}

} // namespace bench
