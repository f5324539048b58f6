// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the engine needs of a network: send datagrams, receive datagrams, sleep until some come.
#pragma once

#include "osd_address.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace soft_hca {

/// Something to sleep on until it is readable: a descriptor or handle of the system, or negative
/// for none.
using waitable = std::intptr_t;

/// The address that a datagram comes from or goes to: IPv4 or IPv6 address and port.
class net_address {
public:
    net_address() { std::memset(&storage_, 0, sizeof storage_); }

    /// Returns false for another family, and changes nothing.
    bool assign(const sockaddr *from)
    {
        const std::size_t size = size_of(from->sa_family);
        if (size != 0)
            std::memcpy(&storage_, from, size);
        return size != 0;
    }
    /// As osd::address::read() does.
    bool read(const char *text)
    {
        osd::address found;
        return found.read(text) && assign(found.get());
    }
    sockaddr *get() { return &storage_.any; }
    const sockaddr *get() const { return &storage_.any; }
    std::size_t size() const { return size_of(family()); }
    static constexpr std::size_t capacity() { return sizeof(storage); }
    int family() const { return storage_.any.sa_family; }
    /// The port in host byte order.
    std::uint16_t port() const { return swapped(storage_.v4.sin_port); }
    void set_port(std::uint16_t port) { storage_.v4.sin_port = swapped(port); }
    /// The class of packets to this address, or in which one came: the upper six bits of a byte of
    /// their IP header. No part of the identity of the address.
    std::uint8_t traffic_class() const { return traffic_class_; }
    void set_traffic_class(unsigned tos) { traffic_class_ = static_cast<std::uint8_t>(tos & 0xfc); }

    bool same_host(const net_address &other) const
    {
        if (family() != other.family())
            return false;
        if (family() == AF_INET)
            return storage_.v4.sin_addr.s_addr == other.storage_.v4.sin_addr.s_addr;
        return std::memcmp(&storage_.v6.sin6_addr, &other.storage_.v6.sin6_addr,
                           sizeof(in6_addr)) == 0;
    }
    /// The host's part, of 4 or 16 bytes.
    void copy_host(std::uint8_t *out) const
    {
        if (family() == AF_INET)
            std::memcpy(out, &storage_.v4.sin_addr, sizeof(in_addr));
        else
            std::memcpy(out, &storage_.v6.sin6_addr, sizeof(in6_addr));
    }
    /// Takes host and port of the other, and keeps the class.
    void move_to(const net_address &other) { storage_ = other.storage_; }
    friend bool operator==(const net_address &a, const net_address &b)
    {
        return a.storage_.v4.sin_port == b.storage_.v4.sin_port && a.same_host(b);
    }

private:
    static std::size_t size_of(int family)
    {
        return family == AF_INET    ? sizeof(sockaddr_in)
               : family == AF_INET6 ? sizeof(sockaddr_in6)
                                    : 0;
    }
    static std::uint16_t swapped(std::uint16_t port)
    {
        std::uint8_t bytes[2];
        std::memcpy(bytes, &port, 2);
        return static_cast<std::uint16_t>(bytes[0] << 8 | bytes[1]);
    }

    // Both structures have the port in one place.
    union storage {
        sockaddr any;
        sockaddr_in v4;
        sockaddr_in6 v6;
    } storage_;
    std::uint8_t traffic_class_ = 0;
};

struct bytes_view {
    const void *at;
    std::size_t size;
};

/// A datagram to be sent, in pieces: a header, and payload that is not copied before the send.
struct out_packet {
    static constexpr std::uint32_t max_pieces = 5;
    std::uint8_t header[128];
    bytes_view piece[max_pieces]; ///< the first is usually the header
    std::uint32_t pieces;
    std::uint32_t size;

    void begin() { pieces = size = 0; }
    void add(const void *at, std::size_t bytes)
    {
        if (bytes == 0)
            return;
        piece[pieces++] = {at, bytes};
        size += static_cast<std::uint32_t>(bytes);
    }
};

enum class send_result {
    sent,
    busy,        ///< the network takes no more at the moment
    unreachable, ///< there is no route to that address
    refused,     ///< the port is closed
    bad_memory,  ///< a piece of the next packet is not mapped
};

/// Received packets: one or more datagrams of one sender, each of `segment` bytes but the last.
struct in_packets {
    net_address from;
    std::uint8_t *bytes = nullptr;
    std::size_t size = 0;
    std::size_t segment = 0;
};

/// The network reports that a datagram of ours did not arrive, and quotes its beginning, from which
/// its sender is found. UDP sockets get it by ICMP.
struct icmp_error {
    net_address to;
    send_result why;
    std::uint8_t bytes[128];
    std::size_t size;
};

/// Sends may come from any thread; receiving and taking errors is for one thread at a time.
class packet_io {
public:
    packet_io() = default;
    packet_io(const packet_io &) = delete;
    packet_io &operator=(const packet_io &) = delete;
    virtual ~packet_io() {}

    virtual const net_address &address() const = 0;
    /// Sends all to one address, in order. `done` is the number of packets sent; the result is
    /// about the next packet.
    virtual send_result send(const net_address &to, const out_packet *packets, std::uint32_t count,
                             std::uint32_t &done) = 0;
    /// Size of the receive buffer in bytes.
    virtual std::uint32_t receive_room() const { return 4 << 20; }
    /// Takes arrived datagrams; they are valid until the next call. Returns how many entries were
    /// filled.
    virtual std::uint32_t receive(in_packets *into, std::uint32_t capacity) = 0;
    /// Copies received bytes to memory of the consumer. With `last_last`, the last byte is stored
    /// after all others. False when not all of that memory can be written: consumers may unmap it
    /// at any time. Any thread may call it: a thread that posts a receive places packets that were
    /// kept for it.
    virtual bool place(std::uint8_t *to, const std::uint8_t *from, std::size_t size,
                       bool last_last);
    virtual bool take_icmp_error(icmp_error &out) = 0;
    /// An answer to this packet is overdue: provokes an error if the port is closed, on systems
    /// that report none by themselves. For the receiving thread.
    virtual void probe_port(const net_address &, const out_packet &) {}
    /// Readable when there is something to receive.
    virtual waitable descriptor() const = 0;
    /// Datagrams that are held back by delay become receivable then; the descriptor does not say
    /// so.
    virtual std::int64_t due_ns() const { return INT64_MAX; }
};

/// Places bytes on networks that cannot check: the process gets a fault where the memory is not
/// mapped.
inline bool packet_io::place(std::uint8_t *to, const std::uint8_t *from, std::size_t size,
                             bool last_last)
{
    std::memcpy(to, from, last_last ? size - 1 : size);
    if (last_last)
        __atomic_store_n(to + size - 1, from[size - 1], __ATOMIC_RELEASE);
    return true;
}

} // namespace soft_hca
