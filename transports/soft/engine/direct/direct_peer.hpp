// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A process whose board this device has mapped, and the local sockets to it.
#pragma once

#include "direct_board.hpp"
#include "net/net.hpp"
#include "net/net_local.hpp"
#include "osd_sync.hpp"

#include <atomic>
#include <cstdint>

namespace soft_hca {

/// The local sockets to a peer. Each of the two devices may connect some, several at a time, though
/// one would do. A surplus socket is closed by the side that connected it, and kept by the other
/// side until then: if both sides closed surplus sockets, each might close a socket that the other
/// keeps. The device's thread changes them, and others may ask meanwhile whether one is open.
class peer_sockets {
public:
    static constexpr std::uint32_t max_calls = 32; ///< without an answer, of a device to all others

    peer_sockets() = default;
    peer_sockets(const peer_sockets &) = delete;
    peer_sockets &operator=(const peer_sockets &) = delete;
    ~peer_sockets();

    /// Takes over a socket, and adds it to the set; closes a surplus socket that we connected
    /// (`called`). False if there is no room, or the system has no memory.
    bool add(waitable socket, bool called, descriptor_set &watched);
    /// Whether there is a socket that the peer has not closed.
    bool any_open() const;
    /// Closes sockets that the peer has closed. False if none is left, or if the peer has sent more
    /// than its hello: it is faulty, and could wake the thread that waits for the set all the time.
    bool check(descriptor_set &watched);
    /// Removes the sockets from the set.
    void ignore(descriptor_set &watched);

private:
    /// The calls, and one socket that each side keeps.
    static constexpr std::uint32_t most = max_calls + 2;

    bool check_all(descriptor_set &watched) OSD_REQUIRES(lock_);
    void close(std::uint32_t at, descriptor_set &watched) OSD_REQUIRES(lock_);

    mutable osd::mutex lock_;
    waitable sockets_[most] OSD_GUARDED_BY(lock_) = {};
    std::uint32_t count_ OSD_GUARDED_BY(lock_) = 0;
    waitable called_ OSD_GUARDED_BY(lock_) = -1; ///< the socket that we connected and keep
};

/// How long the end of an access of a peer is waited for. After a timeout the waits are short until
/// one of them succeeds. All of them together are bounded, and then a part of the time: a peer that
/// claims to be in an access of each of a thousand connections would keep the thread that ends them
/// from all others.
class access_patience {
public:
    static constexpr std::int64_t first_ns = 1'000'000'000;
    static constexpr std::int64_t last_ns = 100'000'000; ///< longest wait after a timeout

    std::int64_t at(std::int64_t now) const;
    /// A wait from then to now; `ended`: the access did.
    void note(bool ended, std::int64_t began, std::int64_t now);

private:
    static constexpr std::int64_t all_ns = 2 * first_ns;
    static constexpr std::int64_t rest = 8; ///< time of rest for each time that was waited

    std::atomic<bool> stuck_{false};
    std::atomic<std::int64_t> rested_ns_{0}; ///< time from which all waits have been rested from
};

/// A process whose board is mapped.
struct direct_peer {
    static constexpr std::int64_t short_time_ns = 1'000'000;

    local_process process;
    peer_sockets sockets;
    shared_memory memory;
    bool open_to_us = false;                             ///< we may access its memory
    std::atomic<bool> forbidden{false};                  ///< copies are refused, or it has gone
    std::atomic<std::int64_t> proven_ns{-short_time_ns}; ///< time when it was proven last
    access_patience patience;
    bool watched = true; ///< its sockets are in the set; false once it has gone
    std::uint32_t links = 0;
    direct_peer *next = nullptr;

    const direct_board &board() const { return *static_cast<const direct_board *>(memory.bytes()); }
    bool is_proven() const { return process.look() == local_process::presence::proven; }
    /// Whether the process was proven so short a time ago that the system cannot have reused its id
    /// since, and the system has noted neither its end nor an execve.
    bool was_proven(std::int64_t now) const
    {
        return now - proven_ns.load(std::memory_order_relaxed) < short_time_ns &&
               board().shows_life();
    }
    /// Copies pieces of its memory to ours, as local_process::fetch() does; 0 if it has gone. Where
    /// its life shows before and after, its id was its own all the time.
    std::ptrdiff_t fetch(const bytes_view *from, std::uint32_t from_count, const bytes_view *to,
                         std::uint32_t to_count, const local_guard &guard) const
    {
        if (!board().shows_life())
            return process.fetch_proven(from, from_count, to, to_count, guard);
        const std::ptrdiff_t done = process.fetch(from, from_count, to, to_count, guard);
        return done <= 0 || board().shows_life() ? done : 0;
    }
    bool is_gone() const { return process.look() == local_process::presence::gone; }
    /// Its process runs, as far as the system shows, and has not closed its device.
    bool is_alive() const { return !is_gone() && sockets.any_open(); }
};

} // namespace soft_hca
