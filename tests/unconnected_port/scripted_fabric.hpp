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
    int stopped = -1;            ///< sends to this device do not end, until it is another one
    bool dead_stop = false;      ///< nor do sends to devices that were closed
    bool cancels = false;        ///< such sends end when they are cancelled
    bool forgets = true;         ///< numbers of peers are free again
    bool knows_nobody = false;   ///< names of peers get no number
    bool keeps_accesses = false; ///< accesses do not end
    bool refuses_access = false; ///< accesses are refused with EAGAIN
    bool fails_access = false;   ///< accesses end with an error
    bool reads_ahead = false;    ///< datagrams that have arrived make no descriptor readable
    bool records = false;

    std::vector<datagram> recorded;
    std::vector<memory_rights> rights; ///< in the order of registrations
    unsigned ended_accesses = 0;
    unsigned refused_accesses = 0;
    unsigned deregistered = 0;
    unsigned asked = 0;     ///< for numbers of peers
    unsigned given_up = 0;  ///< numbers of peers that the layer does not need any more
    unsigned cancelled = 0; ///< sends
    unsigned misused = 0;   ///< numbers that were used after they were given up, or given up in use

    /// Puts bytes before a device as if a peer had sent them.
    void inject(std::size_t device, const datagram &bytes);

    /// Peers that a device has a number for.
    std::size_t known_to(std::size_t device);

    std::mutex lock;
    std::vector<scripted_fabric *> devices;
    std::uint32_t name_size = 1;
    std::uint32_t peer_stays_ms = 1000; ///< for devices that are opened from now on
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
    bool forget(fabric_peer peer) override;
    void cancel(void *cookie) override;
    int send(fabric_peer to, const void *bytes, std::size_t size, void *, void *cookie) override;
    int access(const fabric_access &what) override;
    bool next(fabric_event &out) override;
    void give_back(void *buffer) override { delete static_cast<datagram *>(buffer); }
    int descriptor() const override;
    bool may_sleep() override;

private:
    friend class scripted_network;

    static constexpr int nobody = -1;

    void arrive(const datagram &bytes);
    void signal();
    bool is_known(fabric_peer) const;
    bool has_stopped(fabric_peer) const;
    bool has_in_flight(fabric_peer) const;
    void end_stuck();

    const fabric_traits traits_;
    const bool has_descriptor_;
    int descriptor_ = -1;
    unsigned turn_ = 0;
    std::size_t index_ = 0;
    std::deque<datagram *> inbox_;
    std::deque<fabric_event> done_;
    struct pending_access {
        fabric_access what;
        fabric_key key;
    };
    std::deque<pending_access> pending_;
    struct stuck_send {
        fabric_peer to;
        void *cookie;
    };
    std::vector<stuck_send> stuck_;
    std::vector<int> numbers_; ///< device of each peer, or nobody
};

} // namespace dapl::DAPL_TRANSPORT::unconnected
