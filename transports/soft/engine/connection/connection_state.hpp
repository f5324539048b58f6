// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The state of a connection, its handshake, and its close.
#pragma once

#include "handshake/connections.hpp"
#include "handshake/path_probe.hpp"
#include "pair_context.hpp"
#include "peer_path.hpp"

#include <memory>

namespace soft_hca {

class connection_state {
public:
    enum class state : std::uint8_t {
        idle,       ///< takes receives
        connecting, ///< has sent a request
        accepting,  ///< has sent an accept
        live,
        draining, ///< live, and will close when all that was posted is acknowledged
        dead,     ///< requests and receives that are posted come back flushed
    };

    connection_state() = default;
    connection_state(const device_context &device, const pair_params &params,
                     std::uint32_t first_psn)
        : device_(&device), params_(&params), first_psn_(first_psn)
    {}

    state now_in() const { return state_; }
    bool is(state which) const { return state_ == which; }
    bool connected() const { return state_ == state::live || state_ == state::draining; }

    // --- beginning

    /// Keeps what the request or accept says. False when out of memory.
    bool prepare(std::uint64_t qualifier, const void *data, std::size_t size);
    /// Requests or accepts are padded from now on, to datagrams of at most this size. A request is
    /// repeated by the round trip that its retry has shown.
    void probe_path(std::uint32_t largest, std::int64_t now);
    /// Limits the bytes that are sent to the peer of an accept.
    budget_use &may_send() { return handshake_.may_send; }
    /// Enters the state after prepare(). The first handshake is due at once.
    void begin(state next) { state_ = next; }
    /// Sends the request or accept, and arms the timer for the next attempt.
    send_result send_handshake(peer_path &path, std::uint32_t ack, std::uint32_t credit,
                               std::int64_t now);
    /// Time since the handshake was first sent: a round trip, when the peer has just answered.
    std::int64_t handshake_age(std::int64_t now) const { return now - handshake_.sent_ns; }
    bool handshake_is_due(std::int64_t now) const
    {
        return handshake_.due_ns != 0 && now >= handshake_.due_ns;
    }
    /// Counts a retry of the accept. False when they are used up.
    bool retry_accept();
    /// Nothing listens at the peer's port. Programs that exchange their addresses first may be
    /// early: false when that has been so for too long.
    bool retry_refused(std::int64_t now);
    void establish(std::int64_t now);
    /// Keeps the private data of the answer, for the upcall.
    void keep_private_data(const packet &answer);
    /// Copies them to memory of `max_private_data` bytes, and forgets them. Returns their size.
    std::size_t take_private_data(std::uint8_t *to);

    // --- being connected

    void note_heard(std::int64_t now) { heard_ns_ = now; }
    /// Whether a peer that was heard then has been silent for a while since, or `times` as long.
    bool peer_is_silent(std::int64_t now, std::int64_t heard_ns, std::int64_t times = 1) const;
    std::int64_t heard_ns() const { return heard_ns_; }
    void drain(std::int64_t now);
    bool lingered_enough(std::int64_t now) const
    {
        return linger_until_ != 0 && now >= linger_until_;
    }

    // --- ending

    /// A close is to be sent, and retransmitted until it is acknowledged.
    void begin_close(const close_info &why) { close_ = {why, close_attempts, 0}; }
    const close_info &closing() const { return close_.why; }
    void note_close_sent(std::int64_t now);
    bool close_is_due(std::int64_t now) const { return close_.due_ns != 0 && now >= close_.due_ns; }
    /// The peer has it, or is gone.
    void end_close() { close_.attempts_left = 0, close_.due_ns = 0; }
    bool has_unacknowledged_close() const { return close_.attempts_left != 0; }
    /// What TIME_WAIT keeps of the connection.
    closed_connection closed(peer_path &path, const base_header &base) const
    {
        return {path.peer(),          base,          close_.why,      path.tag(),
                close_.attempts_left, close_.due_ns, path.take_seal()};
    }
    /// A close continues to be retransmitted.
    void enter_dead();

    /// Time at which the next timer expires; INT64_MAX: never.
    std::int64_t due_ns() const
    {
        const std::int64_t linger = connected() ? linger_until_ : 0;
        if ((handshake_.due_ns | close_.due_ns | linger) == 0)
            return INT64_MAX;
        return earliest(earliest(handshake_.due_ns, close_.due_ns), linger);
    }
    std::uint32_t first_psn() const { return first_psn_; }

private:
    /// What a handshake carries: ours, and then what the peer has answered.
    struct hello_data {
        std::uint64_t qualifier = 0;
        std::size_t size = 0;
        bool is_peers = false;
        std::uint8_t bytes[max_private_data];
    };
    struct handshake_attempt {
        budget_use may_send;
        path_probe probe;
        std::int64_t sent_ns = 0; ///< first
        std::int64_t due_ns = 0;  ///< 0: not armed
        std::uint32_t delay_us = first_delay_us;
        std::uint32_t retries = 0;  ///< number of times that the accept was sent again
        std::uint32_t requests = 0; ///< that were sent
        std::int64_t refused_since_ns = 0;
    };
    struct close_attempt {
        close_info why;
        std::uint32_t attempts_left = 0;
        std::int64_t due_ns = 0; ///< 0: not armed
    };
    static constexpr std::uint32_t shortest_delay_us = 5'000;
    static constexpr std::uint32_t first_delay_us = 20'000;
    static constexpr std::uint32_t longest_delay_us = 500'000;
    static constexpr std::uint32_t requests_until_anew = 5;

    /// The earlier of two timers; 0 means that a timer is not armed.
    static std::int64_t earliest(std::int64_t a, std::int64_t b)
    {
        return a == 0 || (b != 0 && b < a) ? b : a;
    }
    static constexpr std::uint32_t request_attempts = 2; ///< times that a size of datagram is tried
    static constexpr std::uint32_t accept_attempts = 4;  ///< a round trip may take 300 ms

    handshake hello(const peer_path &path) const;
    void end_handshake();

    const device_context *device_ = nullptr;
    const pair_params *params_ = nullptr;
    state state_ = state::idle;
    std::uint32_t first_psn_ = 0;
    handshake_attempt handshake_;
    std::unique_ptr<hello_data> data_; ///< null when nobody needs it any more
    close_attempt close_;
    std::int64_t linger_until_ = 0; ///< draining ends then at the latest
    std::int64_t heard_ns_ = 0;     ///< time of the last packet from the peer
};

} // namespace soft_hca
