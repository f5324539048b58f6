// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Socket addresses.
#pragma once

#include "native_socket.hpp"

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
    sockaddr_storage storage_{};
};

} // namespace osd
