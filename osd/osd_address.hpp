// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Socket addresses.
#pragma once

#include "native_socket.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace osd {

/// A copy of an IPv4 or IPv6 socket address.
class address {
public:
    /// False, and no change, for any other family.
    bool assign(const sockaddr *from)
    {
        const std::size_t size = size_of(from);
        if (size != 0)
            std::memcpy(&storage_, from, size);
        return size != 0;
    }
    /// Reads an address in numbers, without a port. False, and no change, for any other text.
    bool read(const char *text)
    {
        sockaddr_in four{};
        sockaddr_in6 six{};
        four.sin_family = AF_INET;
        six.sin6_family = AF_INET6;
        if (::inet_pton(AF_INET, text, &four.sin_addr) == 1)
            return assign(reinterpret_cast<const sockaddr *>(&four));
        return ::inet_pton(AF_INET6, text, &six.sin6_addr) == 1 &&
               assign(reinterpret_cast<const sockaddr *>(&six));
    }
    /// The port in host byte order; the family is AF_INET or AF_INET6.
    static std::uint16_t port_of(const sockaddr *from)
    {
        // Both families have the port at this place.
        std::uint8_t bytes[2];
        std::memcpy(bytes, &reinterpret_cast<const sockaddr_in *>(from)->sin_port, sizeof bytes);
        return static_cast<std::uint16_t>(bytes[0] << 8 | bytes[1]);
    }
    /// Whether two addresses name one host; whatever their ports.
    static bool is_same_host(const sockaddr *a, const sockaddr *b)
    {
        return a->sa_family == b->sa_family &&
               std::memcmp(host_of(a), host_of(b), host_size(a)) == 0;
    }
    /// Whether two addresses name one host, or the second any host of that family.
    static bool is_host(const sockaddr *host, const sockaddr *meant)
    {
        static constexpr std::uint8_t any[sizeof(in6_addr)]{};
        return is_same_host(host, meant) ||
               (host->sa_family == meant->sa_family &&
                std::memcmp(host_of(meant), any, host_size(meant)) == 0);
    }

    /// Whether an address is this host's own loopback: 127.0.0.0/8, also within IPv6, or ::1.
    static bool is_loopback(const sockaddr *from)
    {
        if (from->sa_family == AF_INET6) {
            const auto *six = static_cast<const in6_addr *>(host_of(from));
            return IN6_IS_ADDR_LOOPBACK(six) ||
                   (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == loopback_net);
        }
        return from->sa_family == AF_INET &&
               *static_cast<const std::uint8_t *>(host_of(from)) == loopback_net;
    }

    sockaddr *get() { return reinterpret_cast<sockaddr *>(&storage_); }
    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage_); }

    static std::size_t size_of(const sockaddr *from)
    {
        switch (from->sa_family) {
        case AF_INET:
            return sizeof(sockaddr_in);
        case AF_INET6:
            return sizeof(sockaddr_in6);
        default:
            return 0;
        }
    }

private:
    friend class address_text;

    static constexpr std::uint8_t loopback_net = 127;

    static const void *host_of(const sockaddr *from)
    {
        if (from->sa_family == AF_INET6)
            return &reinterpret_cast<const sockaddr_in6 *>(from)->sin6_addr;
        return &reinterpret_cast<const sockaddr_in *>(from)->sin_addr;
    }

    static std::size_t host_size(const sockaddr *from)
    {
        return from->sa_family == AF_INET6 ? sizeof(in6_addr) : sizeof(in_addr);
    }

    alignas(sockaddr_storage) sockaddr_in6 storage_{}; ///< the larger of the two
};

/// An address in numbers, with its port: 192.0.2.1:5000 or [2001:db8::1]:5000.
class address_text {
public:
    explicit address_text(const sockaddr *of) : address_text(of, address::port_of(of)) {}
    address_text(const sockaddr *of, std::uint64_t port)
    {
        char host[INET6_ADDRSTRLEN] = "an unknown address";
        if (address::size_of(of) != 0)
            (void)::inet_ntop(of->sa_family, address::host_of(of), host, sizeof host);
        std::snprintf(text_, sizeof text_, of->sa_family == AF_INET6 ? "[%s]:%llu" : "%s:%llu",
                      host, static_cast<unsigned long long>(port));
    }
    const char *get() const { return text_; }

private:
    char text_[INET6_ADDRSTRLEN + 24];
};

} // namespace osd
