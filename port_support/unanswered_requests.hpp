// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How many connection requests may wait for the consumer's answer.
#pragma once

#include "dapl_chain.hpp"

#include <cstdint>
#include <sys/socket.h>

namespace dapl::DAPL_TRANSPORT {

/// A number that the addresses of one owner share: he has a whole network of IPv6 to himself.
std::uint64_t owner_of(const sockaddr_storage &);

/// `most`, but at most a quarter of the descriptors that the process may have now, and at least
/// two.
std::uint32_t within_descriptors(std::uint32_t most);

/// Base of what a port keeps of a request.
struct unanswered_request : list_link {
    sockaddr_storage source{}; ///< the peer's address
};

/// Bounds the requests of an adapter. Each holds a descriptor, and whoever reaches the adapter can
/// send them. So their number is limited, to a quarter of the descriptors that the process may have
/// at most, and a half of the places is for others than one address. Guarded by the owner's lock.
class unanswered_requests {
public:
    static constexpr std::uint32_t usual_most = 256;

    /// `adapter`: its name, for the log.
    explicit unanswered_requests(const char *adapter, std::uint32_t most = usual_most)
        : adapter_(adapter), most_(most)
    {}

    std::uint32_t count() const { return count_; }
    /// How many there may be now.
    std::uint32_t most() const { return within_descriptors(most_); }
    /// Whether one of this address may wait, where there is room at all. If not, that is logged
    /// once in a while, with what becomes of it `otherwise`.
    bool has_share(const sockaddr_storage &source, const char *otherwise);
    void add(unanswered_request &);
    /// Takes out a request that was answered, or whose sender has gone.
    void remove(unanswered_request &);
    /// Logs, once in a while, that so many wait, and what becomes of one of this address.
    void say_crowded(const sockaddr_storage &source, const char *what);
    unanswered_request *front() { return all_.front(); }

private:
    const char *const adapter_;
    const std::uint32_t most_;
    list<unanswered_request, unanswered_request> all_;
    std::uint32_t count_ = 0;
    std::int64_t say_again_ns_ = 0;
};

} // namespace dapl::DAPL_TRANSPORT
