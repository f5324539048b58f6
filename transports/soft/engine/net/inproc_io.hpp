// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A network inside the process, without system calls between sender and receiver.
#pragma once

#include "net.hpp"

#include <atomic>
#include <cstdint>

namespace soft_hca {

class inproc_io;

/// What the ends of one such network are attached to. It outlives them.
class inproc_network {
public:
    bool attach(inproc_io &end, net_address &given);
    void detach(inproc_io &end);
    /// Returns false when no end has this address.
    bool deliver(const net_address &from, const net_address &to, const out_packet &packet);
    /// A function that sees each packet before it is sent. It is called under the lock of the
    /// network.
    using listener = void (*)(void *context, const net_address &from, const net_address &to,
                              const out_packet &packet);
    /// Sets the listener; null ends it.
    void listen_in(listener hears, void *context);
    /// Puts one end behind a router that translates its address. A datagram to its own address, or
    /// to an unused address, is lost.
    void translate(const net_address &inside, const net_address &outside);
    /// Loses the next datagrams on their way.
    void lose(std::uint32_t count) { lost_next_.store(count); }
    /// While jammed, sends return send_result::busy.
    void jam(bool jammed) { jammed_.store(jammed); }
    bool jammed() const { return jammed_.load(); }
    /// Reports closed ports only to those who probe them, as on Windows.
    void report_to_probes_only() { probes_only_.store(true); }
    bool reports_to_probes_only() const { return probes_only_.load(); }
    bool has_end(const net_address &at);

private:
    static constexpr std::uint32_t capacity = 64;
    osd::mutex lock_;
    inproc_io *ends_[capacity] OSD_GUARDED_BY(lock_) = {};
    listener hears_ OSD_GUARDED_BY(lock_) = nullptr;
    void *hears_with_ OSD_GUARDED_BY(lock_) = nullptr;
    bool translates_ OSD_GUARDED_BY(lock_) = false;
    net_address inside_ OSD_GUARDED_BY(lock_);
    net_address outside_ OSD_GUARDED_BY(lock_);
    std::uint16_t next_port_ OSD_GUARDED_BY(lock_) = 1;
    std::atomic<std::uint32_t> lost_next_{0};
    std::atomic<bool> jammed_{false};
    std::atomic<bool> probes_only_{false};
};

class inproc_io final : public packet_io {
public:
    ~inproc_io() override { close(); }
    /// A port of 0 in `at` is chosen; others that are taken are refused.
    bool open(inproc_network &network, const net_address &at);
    void close();

    const net_address &address() const override { return address_; }
    send_result send(const net_address &to, const out_packet *packets, std::uint32_t count,
                     std::uint32_t &done) override;
    std::uint32_t receive(in_packets *into, std::uint32_t capacity) override;
    bool take_icmp_error(icmp_error &out) override;
    void probe_port(const net_address &to, const out_packet &packet) override;
    waitable descriptor() const override { return arrived_.descriptor(); }

private:
    friend class inproc_network;
    struct held {
        held *next = nullptr;
        net_address from;
        std::size_t size = 0;
        std::uint8_t *bytes() { return reinterpret_cast<std::uint8_t *>(this + 1); }
    };
    struct error_slot {
        icmp_error error;
        bool full = false;
    };
    static constexpr std::uint32_t batch = 32;
    static constexpr std::uint32_t max_queued = 4096;

    void put(const net_address &from, const out_packet &packet);
    void report_closed(const net_address &to, const out_packet &packet);
    static void release(held *list);

    inproc_network *network_ = nullptr;
    net_address address_;
    wake_signal arrived_;
    osd::mutex lock_;
    held *head_ OSD_GUARDED_BY(lock_) = nullptr;
    held *tail_ OSD_GUARDED_BY(lock_) = nullptr;
    std::uint32_t queued_ OSD_GUARDED_BY(lock_) = 0;
    error_slot error_ OSD_GUARDED_BY(lock_);
    held *lent_ = nullptr; ///< buffers that the last receive returned
};

} // namespace soft_hca
