// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What queue pairs that are gone have told their peers, until the peers have heard it.
#pragma once

#include "packet_io.hpp"
#include "wire.hpp"

#include "osd_sync.hpp"

#include <atomic>
#include <cstdint>

namespace soft_hca {

inline constexpr std::uint32_t close_attempts = 6;
inline constexpr std::int64_t close_again_ns = 20'000'000;

struct farewell {
    net_address peer;
    base_header base; ///< of the close
    close_info closing;
    std::uint32_t tag = 0; ///< what the peer calls us by, with base.from
    std::uint32_t attempts_left = 0;
    std::int64_t due_ns = 0;
    farewell *next = nullptr;
};

/// Any thread.
class farewells {
public:
    ~farewells();

    /// Without memory it is as good as lost on the way.
    void add(const farewell &what);
    /// A packet for somebody who is not there any more. True when it was from the peer of a
    /// farewell, and needs no answer.
    bool take(const packet &p, const net_address &from, packet_io &io);
    /// The peer's host knows nobody there.
    void bounce(const net_address &to, const base_header &quoted);
    /// Sends what is due, and forgets what was sent often enough.
    void repeat(std::int64_t now, packet_io &io);
    /// When the next is due; INT64_MAX without any.
    std::int64_t due_ns() const { return due_ns_.load(); }
    /// Returns when the peers know, or none of them answers.
    void wait_heard();

private:
    template <class Which>
    void forget(Which &&which) OSD_REQUIRES(lock_);
    void update_due() OSD_REQUIRES(lock_);

    osd::mutex lock_;
    osd::condition heard_;
    farewell *first_ OSD_GUARDED_BY(lock_) = nullptr;
    std::atomic<std::int64_t> due_ns_{INT64_MAX};
};

} // namespace soft_hca
