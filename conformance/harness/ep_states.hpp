// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Endpoints in each of their states.
#pragma once

#include "harness/support.hpp"

#include "harness/peer.hpp"

#include <memory>

namespace conformance {

/// An endpoint that keeps its RSP or request, in each of the states in turn.
struct in_state {
    explicit in_state(DAT_EP_STATE wanted);

    adapter ia;
    test_endpoint ep;
    test_endpoint peer;
    std::unique_ptr<listener> at;
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    DAT_EP_HANDLE subject = DAT_HANDLE_NULL;

private:
    void reserve();
    void become_passive();
    void become_tentative();
};

struct state_row {
    DAT_EP_STATE state;
    unsigned subtype;
};

/// All that a consumer can hold an endpoint in for as long as it takes to look.
constexpr state_row steady_states[] = {
    {DAT_EP_STATE_UNCONNECTED, DAT_INVALID_STATE_EP_UNCONNECTED},
    {DAT_EP_STATE_RESERVED, DAT_INVALID_STATE_EP_RESERVED},
    {DAT_EP_STATE_PASSIVE_CONNECTION_PENDING, DAT_INVALID_STATE_EP_PASSCONNPENDING},
    {DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING, DAT_INVALID_STATE_EP_TENTCONNPENDING},
    {DAT_EP_STATE_ACTIVE_CONNECTION_PENDING, DAT_INVALID_STATE_EP_ACTCONNPENDING},
    {DAT_EP_STATE_CONNECTED, DAT_INVALID_STATE_EP_CONNECTED},
    {DAT_EP_STATE_DISCONNECTED, DAT_INVALID_STATE_EP_DISCONNECTED},
};

/// A request whose peer is stopped, and which we have accepted.
struct accepted_request {
    accepted_request();
    bool pending() const { return own.state() == DAT_EP_STATE_COMPLETION_PENDING; }

    adapter ia;
    test_endpoint own;
    listener at;
    peer_process peer;
};

/// A graceful disconnect that waits for transfers to a peer which is stopped.
struct lingering {
    static constexpr std::size_t size = 1 << 20;
    static constexpr std::uint64_t writes = 12; // more than the sockets of both sides hold
    static constexpr std::uint64_t requests = writes + 1; ///< the writes and a message

    lingering();
    /// Whether requests are pending. A device may place all data without the process of the peer,
    /// which takes some time; shared memory places the data of the writes.
    bool pending() const;

    peer_process peer;
    adapter ia;
    test_endpoint own;
    DAT_RMR_TRIPLET memory{};
};

} // namespace conformance
