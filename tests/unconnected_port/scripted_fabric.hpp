// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A device without connections inside the process, which does what a test says.
#pragma once

#include "unconnected/unconnected_port.hpp"

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace dapl::DAPL_TRANSPORT::unconnected {

using datagram = std::vector<std::uint8_t>;

class scripted_fabric;

/// What the devices of a process are attached to, and how they behave.
class scripted_network {
public:
    static scripted_network &get();

    /// For devices that are opened from now on.
    fabric_traits traits;
    bool has_descriptor = true;

    // Settings for all devices, at any time.
    bool shuffles = false;       ///< datagrams overtake one another
    bool busy = false;           ///< sends are refused with EAGAIN
    bool loses = false;          ///< sends end with an error
    int stopped = -1;            ///< sends to this device do not end
    bool keeps_accesses = false; ///< accesses do not end
    bool refuses_access = false; ///< accesses are refused with EAGAIN
    bool reads_ahead = false;    ///< datagrams that have arrived make no descriptor readable
    bool records = false;

    std::vector<datagram> recorded;
    std::vector<memory_rights> rights; ///< in the order of registrations
    unsigned ended_accesses = 0;
    unsigned refused_accesses = 0;
    unsigned deregistered = 0;

    /// Puts bytes before a device as if a peer had sent them.
    void inject(std::size_t device, const datagram &bytes);

    std::mutex lock;
    std::vector<scripted_fabric *> devices;
};

class scripted_fabric final : public fabric {
public:
    scripted_fabric();
    ~scripted_fabric() override;

    fabric_traits traits() const override { return traits_; }
    int own_name(fabric_name &out) override;
    int peer_of(const fabric_name &name, fabric_peer &out) override;
    int register_memory(void *address, std::uint64_t, memory_rights, void *&handle,
                        fabric_key &key) override;
    void deregister_memory(void *) override;
    int send(fabric_peer to, const void *bytes, std::size_t size, void *, void *cookie) override;
    int access(const fabric_access &what) override;
    bool next(fabric_event &out) override;
    void give_back(void *buffer) override { delete static_cast<datagram *>(buffer); }
    int descriptor() const override;
    bool may_sleep() override;

private:
    friend class scripted_network;

    void arrive(const datagram &bytes);
    void signal();

    const fabric_traits traits_;
    const bool has_descriptor_;
    int descriptor_ = -1;
    unsigned turn_ = 0;
    std::size_t index_ = 0;
    std::deque<datagram *> inbox_;
    std::deque<fabric_event> done_;
    std::deque<fabric_access> pending_;
};

} // namespace dapl::DAPL_TRANSPORT::unconnected
