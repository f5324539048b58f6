// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// TIME_WAIT: connections that were closed here, whose queue pairs are gone, and whose peers have
// not acknowledged the close yet. The close is retransmitted a few times.
#pragma once

#include "net/packet_io.hpp"
#include "seal/seal.hpp"
#include "wire/wire.hpp"

#include "osd_sync.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace soft_hca {

inline constexpr std::uint32_t close_attempts = 6;
inline constexpr std::int64_t close_interval_ns = 20'000'000;

struct closed_connection {
    net_address peer;
    base_header base; ///< header of the close
    close_info closing;
    std::uint32_t tag = 0; ///< our own, which packets of the peer carry, with base.from
    std::uint32_t attempts_left = 0;
    std::int64_t due_ns = 0;
    std::unique_ptr<connection_seal> seal; ///< null on a device without a key
    closed_connection *next = nullptr;
};

/// The connections that this side has closed, until their peers have acknowledged the close. All
/// functions may be called by any thread.
class time_wait {
public:
    ~time_wait();

    /// Out of memory, the close counts as lost.
    void add(closed_connection what);
    /// A packet for a connection that does not exist any more. True when it came from the peer of a
    /// connection in TIME_WAIT, and needs no reset.
    bool accept(const packet &p, const net_address &from, packet_io &io);
    /// Handles a sealed packet like accept(), and opens it in place.
    bool accept_sealed(std::uint8_t *bytes, std::size_t size, const sealed_header &header,
                       const net_address &from, packet_io &io);
    /// The peer's host has reported that its port is closed.
    void port_closed(const net_address &to, const base_header &quoted);
    /// Retransmits closes that are due, and drops a close that was sent often enough.
    void on_timer(std::int64_t now, packet_io &io);
    /// Time at which the next close is due; INT64_MAX without any.
    std::int64_t due_ns() const { return due_ns_.load(); }
    /// Returns when all peers have acknowledged, or the attempts are used up.
    void drain();

private:
    template <class Which>
    void drop(Which &&which) OSD_REQUIRES(lock_);
    void update_due() OSD_REQUIRES(lock_);

    osd::mutex lock_;
    osd::condition empty_;
    closed_connection *first_ OSD_GUARDED_BY(lock_) = nullptr;
    std::atomic<std::int64_t> due_ns_{INT64_MAX};
};

} // namespace soft_hca
