// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The data that a connection request is repeated with, and the time until which it is repeated.
#pragma once

#include "dapls_ib.hpp"
#include "service_address.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <sys/socket.h>

namespace dapl::DAPL_TRANSPORT {

/// Programs that exchange their addresses first may connect before the peer listens. Their requests
/// are repeated with exponential back-off until the caller's timeout or the port's own limit; where
/// the peer listens and has no room for one yet, until the caller's timeout.
class connect_attempt {
public:
    /// What an adapter's requests can be.
    struct limits {
        int family;             ///< family of the addresses
        std::size_t data_size;  ///< bytes of private data
        std::uint32_t retry_ms; ///< how long they are repeated
    };

    /// Fails where the parameters are beyond the limits, or without memory.
    static status make(const connect_params &, const limits &, std::unique_ptr<connect_attempt> &);

    sockaddr *peer() { return reinterpret_cast<sockaddr *>(&peer_); } ///< address with port number
    DAT_CONN_QUAL qualifier() const { return qualifier_; }
    private_data data() const { return {bytes_, size_}; }

    /// The time to repeat a request that found no listener, on the clock of osd::now_ns(); never
    /// when that is too late.
    std::int64_t next_try();
    /// The time to repeat a request that the peer has put off. The common layer ends the attempt at
    /// the caller's timeout.
    std::int64_t next_try_later();
    static constexpr std::int64_t never = INT64_MAX;

private:
    static constexpr std::uint32_t first_delay_ms = 5;
    static constexpr std::uint32_t longest_delay_ms = 100;
    static constexpr std::uint32_t longest_put_off_ms = 500;

    connect_attempt(const connect_params &, std::uint32_t retry_ms);

    sockaddr_storage peer_{};
    DAT_CONN_QUAL qualifier_;
    std::int64_t give_up_ns_;
    std::uint32_t delay_ms_ = first_delay_ms;
    std::size_t size_;
    unsigned char bytes_[256];
};

} // namespace dapl::DAPL_TRANSPORT
