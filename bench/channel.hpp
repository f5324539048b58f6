// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The control connection of a measurement: a plain stream socket between its two processes. It
// carries the commands; end of file means that the peer has exited.
#pragma once

#include "program/failure.hpp"
#include "program/sockets.hpp"

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace bench {

using clock = std::chrono::steady_clock;
using seconds = std::chrono::duration<double>;

/// The peer process of a measurement has exited. It printed the reason unless it was killed.
class peer_ended : public program::failure {
public:
    peer_ended() : failure("the peer process exited during the measurement; see its error message")
    {}
};

class channel {
public:
    explicit channel(program::socket end) : socket_(std::move(end)) {}

    /// Both throw a failure when the peer has exited or after `limit`.
    void send_bytes(const void *bytes, std::size_t size, seconds limit = seconds(10));
    void receive_bytes(void *bytes, std::size_t size, seconds limit);

    template <class T>
    void send(const T &value)
    {
        static_assert(std::is_trivially_copyable_v<T>);
        send_bytes(&value, sizeof value);
    }
    template <class T>
    T receive(seconds limit)
    {
        static_assert(std::is_trivially_copyable_v<T>);
        T value;
        receive_bytes(&value, sizeof value, limit);
        return value;
    }

    bool peer_is_gone() const;
    /// Whether the other end is on this host.
    bool is_local() const;
    const program::socket &end() const { return socket_; }

private:
    program::socket socket_;
};

/// An IPv4 address as a text, with port 0.
sockaddr_storage any_port_of(const std::string &node);

/// Waits for one caller on a TCP port. Whoever else connects there is closed, and named on standard
/// error.
class peer_listener {
public:
    /// What a caller has said so far, at most as much as a client's first words. Returns nothing,
    /// or why this cannot become one; may say something to it before it is closed.
    using judge = std::function<std::string(channel &, std::span<const char>)>;

    /// Listens on a port, 0 for any free one; an empty address is every address.
    explicit peer_listener(unsigned short port, const std::string &address = "");
    unsigned short port() const;
    /// The first caller that has said `wanted` good bytes, which are stored at `words`.
    channel accept(void *words, std::size_t wanted, const judge &why_not, seconds limit);

private:
    class callers;

    program::socket socket_;
};

/// Calls a listening peer.
channel call_peer(const std::string &host, unsigned short port, seconds limit);

/// Bounds a wait that polls. spin() is called on each empty poll and costs an addition; now and
/// then it looks at the clock and at the peer.
class patience {
public:
    patience(const channel &peer, seconds limit) : peer_(&peer), limit_(limit) {}
    /// Both sides are in this process.
    explicit patience(seconds limit) : limit_(limit) {}

    void spin()
    {
        if ((++empty_polls_ & 4095) == 0) [[unlikely]]
            check();
    }
    /// Progress was made: restarts the timeout.
    void progress() { empty_polls_ = 0; }
    /// Notes that a blocking wait ran out of its slice of time.
    void slept()
    {
        empty_polls_ += 4096;
        check();
    }

private:
    void check(); // throws when the peer is gone or nothing happened for too long

    const channel *peer_ = nullptr;
    seconds limit_;
    unsigned long empty_polls_ = 0;
    clock::time_point since_;
};

} // namespace bench
