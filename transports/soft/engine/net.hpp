// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// All that the engine asks of an operating system beside osd: sockets, sleeping on several things,
// random numbers. Each system has a file of its own for it.
#pragma once

#include "osd_sync.hpp"
#include "osd_thread.hpp"
#include "packet_io.hpp"

#include <atomic>

namespace soft_hca {

/// What a network interface is like.
struct interface_info {
    net_address address;
    char name[64] = {};
    std::uint32_t mtu = 1500;
};

/// Looks for an interface by its name, or by an address of it. `family` is 4 or 6.
bool find_interface(const char *name, unsigned family, interface_info &out);

/// Random bytes that nobody can guess; false when the system has none.
[[nodiscard]] bool random_bytes(void *out, std::size_t size);

/// Many may be inside at a time, or one alone.
class gate {
public:
    void enter()
    {
        while ((state_.fetch_add(1, std::memory_order_acquire) & alone) != 0) {
            leave();
            osd::yield();
        }
    }
    void leave() { state_.fetch_sub(1, std::memory_order_release); }
    void enter_alone()
    {
        std::uint32_t nobody = 0;
        while (!state_.compare_exchange_weak(nobody, alone, std::memory_order_acquire)) {
            nobody = 0;
            osd::yield();
        }
    }
    void leave_alone() { state_.fetch_sub(alone, std::memory_order_release); }

private:
    static constexpr std::uint32_t alone = 0x80000000;
    std::atomic<std::uint32_t> state_{0};
};

/// A UDP socket. Batches that have equal sizes travel through the kernel as one.
class udp_io final : public packet_io {
public:
    ~udp_io() override { close(); }
    /// Binds to the address; a port of 0 is chosen. Zero or an error number of the system's.
    int open(const net_address &at, bool for_data);
    void close();

    const net_address &address() const override { return address_; }
    send_result send(const net_address &to, const out_packet *packets, std::uint32_t count,
                     std::uint32_t &done) override;
    bool borrows() const override { return borrows_.load(std::memory_order_relaxed); }
    std::uint32_t receive_room() const override { return receive_room_; }
    std::uint32_t receive(in_packets *into, std::uint32_t capacity) override;
    bool take_bounce(bounced &out) override;
    void doubt(const net_address &to, const out_packet &packet) override;
    waitable descriptor() const override { return socket_; }

    /// For tests: sends each datagram by itself.
    void set_segmentation(bool on) { segments_.store(on, std::memory_order_relaxed); }

private:
    static constexpr std::uint32_t batch = 4;
    static constexpr std::size_t buffer_size = 65536;

    send_result send_copied(const net_address &to, const out_packet *packets, std::uint32_t count,
                            std::uint32_t &done);
    enum class loan {
        sent,
        sent_by_copy, ///< begun without
        not_sent,     ///< begun, and perhaps lost
        never,        ///< the same, and it would be again: too large for the way
        refused,      ///< not begun
    };
    loan send_lent(const net_address &to, const out_packet &packet);
    bool fill_pipe(const out_packet &packet);
    loan empty_pipe(const net_address &to, const out_packet &packet);
    loan finish_by_copy(const out_packet &packet, std::size_t from);
    bool open_pipe();
    void close_pipe();
    void renew_pipe();

    waitable socket_ = -1;
    net_address address_;
    std::uint8_t *buffers_ = nullptr;
    std::uint32_t batch_ = batch;
    std::uint32_t receive_room_ = 0;
    std::atomic<bool> segments_{true};

    gate senders_; ///< alone inside is who uses the pipe, for which the socket keeps a header back
    std::atomic<bool> borrows_{false};
    int pipe_[2] = {-1, -1};
};

/// Wakes somebody who sleeps in wait_for.
class wake_signal {
public:
    ~wake_signal() { close(); }
    bool open();
    void close();
    bool is_open() const { return descriptor_ >= 0; }
    void raise();
    void clear();
    waitable descriptor() const { return descriptor_; }

private:
    waitable descriptor_ = -1;
};

/// Things to sleep on as if they were one.
class descriptor_set {
public:
    ~descriptor_set() { close(); }
    bool open();
    void close();
    bool add(waitable member);
    void remove(waitable member);
    /// Before all its members are looked at: what comes from here on makes it readable again.
    void clear();
    waitable descriptor() const { return descriptor_; }

private:
    waitable descriptor_ = -1;
};

/// Sleeps until one of them is readable, or the deadline has passed. Negative ones are skipped.
osd::wait_result wait_for(const waitable *descriptors, std::uint32_t count, osd::deadline until);

/// Errors of udp_io::open that have a meaning of their own.
bool is_address_in_use(int error);
bool is_forbidden(int error);

} // namespace soft_hca
