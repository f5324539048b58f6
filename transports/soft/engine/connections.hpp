// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Listeners, and the requests that come in on them.
#pragma once

#include "net.hpp"
#include "upcalls.hpp"
#include "wire.hpp"

#include "osd_sync.hpp"

#include <atomic>
#include <cstdint>

namespace soft_hca {

struct settings;

class listener {
public:
    packet_io *io = nullptr;
    void *owner = nullptr;
    std::uint64_t qualifier = 0;
    listener *next = nullptr;
};

/// A connection request that was received. It is kept for a while after it was answered, because
/// its sender retransmits it until the answer arrives.
class inbound_request {
public:
    enum class state : std::uint8_t { offered, accepted, rejected };

    net_address peer;
    handshake hello;
    std::uint32_t credit = 0;
    std::uint8_t data[max_private_data];
    std::uint16_t data_size = 0;

    // Under connections::lock_.
    state now = state::offered;
    bool withdrawn = false; ///< its sender gave up
    std::int64_t forget_ns = INT64_MAX;
    reject_code code = reject_code::no_listener;
    std::uint8_t answer[max_private_data];
    std::uint16_t answer_size = 0;
    inbound_request *next = nullptr;
};

class connections {
public:
    ~connections() { close(); }
    /// Both outlive it.
    bool open(const settings &how, const upcalls &tell);
    /// The socket from which connection requests are rejected.
    void reject_from(packet_io &io) { answers_ = &io; }

    /// Zero, or a system error number.
    int add(listener &made, std::uint64_t &qualifier, void *owner);
    /// On return no request upcall of this listener is running.
    void remove(listener &victim);

    /// Marks a request as accepted. False when its sender has withdrawn it.
    bool accept(inbound_request &request);
    void reject(inbound_request &request, reject_code code, const void *data, std::size_t size);

    /// Receives requests and makes upcalls. By the first shard's thread.
    void serve();
    void forget_old(std::int64_t now);
    bool remembers() const { return remembered_.load(std::memory_order_relaxed) != 0; }
    waitable descriptor() const { return waiting_.descriptor(); }
    /// All listeners were removed before.
    void close();

private:
    static constexpr std::uint32_t max_remembered = 4096;
    static constexpr std::int64_t memory_ns = 2'000'000'000;

    bool serve_listener(listener &at) OSD_REQUIRES(lock_);
    bool arrived(listener &at, const packet &p, const net_address &from) OSD_REQUIRES(lock_);
    void offer(listener &at, const packet &p, const net_address &from) OSD_REQUIRES(lock_);
    inbound_request *find(const net_address &from, std::uint32_t id, std::uint32_t tag)
        OSD_REQUIRES(lock_);
    packet_io *make_io(std::uint16_t port, int &error);
    void send_rejection(const inbound_request &request);

    const settings *how_ = nullptr;
    const upcalls *tell_ = nullptr;
    packet_io *answers_ = nullptr;
    descriptor_set waiting_;
    osd::mutex lock_;
    osd::condition quiet_;
    listener *listeners_ OSD_GUARDED_BY(lock_) = nullptr;
    inbound_request *requests_ OSD_GUARDED_BY(lock_) = nullptr;
    std::atomic<std::uint32_t> remembered_{0};
    const listener *busy_ OSD_GUARDED_BY(lock_) = nullptr; ///< whose upcall is running
};

} // namespace soft_hca
