// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Another process that has shown its board, and the sockets between it and us.
#pragma once

#include "direct_board.hpp"
#include "net.hpp"
#include "net_local.hpp"

#include <atomic>
#include <cstdint>

namespace soft_hca {

/// Of two devices each may call the other, and several times at once. Whoever has called closes
/// the sockets of its own that it does not need; those of the other side are kept until they are
/// closed there. If both sides closed what they do not need, each might close what the other keeps.
class peer_sockets {
public:
    static constexpr std::uint32_t max_calls = 32; ///< of a device at once, to all others

    peer_sockets() = default;
    peer_sockets(const peer_sockets &) = delete;
    peer_sockets &operator=(const peer_sockets &) = delete;
    ~peer_sockets();

    /// Takes over a socket, and waits for it in the set; false when there is no room, or no memory
    /// in the system. One that we have called by, and do not need, is closed.
    bool add(waitable socket, bool called, descriptor_set &watched);
    /// Whether the peer has one open.
    bool any_open() const;
    /// Closes those that the peer has closed. False when none is left, or when it has said more
    /// than a hello: it is not to be trusted, and would keep the thread awake that waits for it.
    bool check(descriptor_set &watched);
    /// Waits for them no more.
    void ignore(descriptor_set &watched);

private:
    static constexpr std::uint32_t most = max_calls + 2; ///< one that is kept by each side

    void close(std::uint32_t at, descriptor_set &watched);

    waitable sockets_[most] = {};
    std::uint32_t count_ = 0;
    waitable called_ = -1; ///< that of them by which we have called
};

/// A process that has shown its board.
struct direct_peer {
    local_process process;
    peer_sockets sockets;
    shared_memory memory;
    bool open_to_us = false;            ///< we may access its memory
    std::atomic<bool> forbidden{false}; ///< the system has changed its mind
    std::atomic<bool> stuck{false};
    bool watched = true;
    std::uint32_t links = 0;
    direct_peer *next = nullptr;

    const direct_board &board() const { return *static_cast<const direct_board *>(memory.bytes()); }
    bool is_proven() const { return process.look() == local_process::presence::proven; }
    bool is_gone() const { return process.look() == local_process::presence::gone; }
    /// It runs, as far as can be known, and has its device open.
    bool is_alive() const { return !is_gone() && sockets.any_open(); }
};

} // namespace soft_hca
