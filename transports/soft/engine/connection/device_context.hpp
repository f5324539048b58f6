// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the objects of a device share: settings, the consumer's upcalls, memory keys, listeners.
#pragma once

#include "direct/direct_access.hpp"
#include "handshake/connections.hpp"
#include "interface/settings.hpp"
#include "interface/upcalls.hpp"
#include "memory/memory_table.hpp"
#include "memory/memory_windows.hpp"
#include "net/net_watch.hpp"
#include "seal/seal.hpp"
#include "thread/callback_waiter.hpp"
#include "window/early_packets.hpp"
#include "window/window_reserve.hpp"

#include <atomic>
#include <memory>

namespace soft_hca {

struct protection_domain {};

class device_context {
public:
    const soft_hca::settings &settings() const { return settings_; }
    const soft_hca::upcalls &upcalls() const { return upcalls_; }
    /// Size of the largest datagram that is sent and received.
    std::uint32_t datagram() const { return datagram_; }
    /// It has failed: nothing begins any more, and what has begun ends.
    bool failed() const { return failed_.load(); }

    std::unique_ptr<seal_device> seals; ///< null on a device without a key
    memory_table memory;
    memory_windows windows{memory};
    early_packets early;
    window_reserve large_windows;
    connections listening;
    direct_access direct;
    callback_waiter waiter;
    interface_watch below; ///< the interface that it sends through

protected:
    soft_hca::settings settings_;
    soft_hca::upcalls upcalls_{};
    std::uint32_t datagram_ = 0;
    std::atomic<bool> failed_{false};
};

} // namespace soft_hca
