// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections made over TCP, without the connection manager of the kernel (cm=tcp).
#pragma once

#include "internal.hpp"

namespace dapl::verbs::vrb {

/// [cm=tcp] The connection manager over TCP, and what it asks of the port. The peers tell one
/// another by it what the connection manager of the kernel would find out.
class tcp_side final : tcp_cm_user {
public:
    explicit tcp_side(hca &device);

    /// Chooses the address of the adapter and the entry of the GID table. Logs why not.
    status choose_addresses();
    /// What the peer is to know of q, with a new number for its first packet. Size 0 without
    /// random numbers; errno.
    tcp_cm_address describe(qp &q) const;

    tcp_cm cm;

private:
    bool offer(tcp_listener &, tcp_request &, const cr_params &) override;
    bool bring_up(tcp_connection &, const tcp_cm_address &peer) override;
    void tear_down(tcp_connection &) override;
    bool has_failed(tcp_connection &) override;
    bool is_drained(tcp_connection &) override;

    status choose_gid();

    hca &device_;
    std::uint8_t gid_index_ = 0;
    ibv_gid gid_{};
};

} // namespace dapl::verbs::vrb
