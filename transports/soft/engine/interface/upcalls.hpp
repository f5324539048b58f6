// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Upcalls of the engine. All are made from the device's own threads, without a lock.
#pragma once

#include <cstddef>
#include <cstdint>

namespace soft_hca {

struct inbound_request;
class net_address;
struct connection_end;
enum class local_obstacle : std::uint8_t;

enum class connection_event : std::uint8_t {
    established,
    rejected, ///< the peer's consumer rejected the request; with data
    refused,  ///< the port is closed, or no listener accepted the request
    unreachable,
    timed_out,
    accept_failed,
    disconnected,
    broken,
};

/// A further event of a queue pair: it holds more receives of a shared queue than its soft high
/// watermark.
inline constexpr auto watermark_event = static_cast<std::uint32_t>(connection_event::broken) + 1;
/// A further event of a queue pair: it is known whether its peer's memory can be accessed directly.
inline constexpr auto path_event = watermark_event + 1;

enum class key_trouble : std::uint8_t {
    wants_key, ///< the peer takes only sealed packets, and we have no key
    other_key, ///< we have one, and the peer another or none
};

struct upcalls {
    void (*completion)(void *queue_owner);
    void (*overflow)(void *queue_owner);
    void (*connection)(void *pair_owner, connection_event what, const void *data, std::size_t size);
    /// Before `connection` says that it has ended, where no consumer has closed it, or before the
    /// queue pair is freed, reset or abandoned. May be null.
    void (*ended)(void *pair_owner, const connection_end &how);
    /// Returns true when the request is accepted for processing: it has to be accepted or rejected
    /// later.
    bool (*request)(void *listener_owner, inbound_request &request);
    void (*limit)(void *shared_receives_owner);
    void (*watermark)(void *pair_owner);
    /// With `none`, writes and reads are direct from now on. Only of peers on this host.
    void (*path)(void *pair_owner, local_obstacle why_not_direct);
    /// Reports why a connection is not made, for a log; packets of a stranger cause the same
    /// report. It is called with locks of the engine held. May be null.
    void (*trouble)(key_trouble what, const net_address &peer);
    /// The network interface of the device was removed: settings::watched. It should fail now. By
    /// the thread of the device that takes requests.
    void (*gone)(void *device_owner);
    /// As connection(), of a queue pair that is for an exchange: one event, from established to
    /// accept_failed. Null where there are none.
    void (*exchange)(void *pair_owner, connection_event what, const void *data, std::size_t size);

    void report(key_trouble what, const net_address &peer) const
    {
        if (trouble != nullptr)
            trouble(what, peer);
    }
};

} // namespace soft_hca
