// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "endpoint.hpp"

namespace dapl::DAPL_TRANSPORT::core {

/// A connection request, from its arrival until it is accepted or rejected.
class cr : public object {
public:
    static constexpr std::size_t slab_size = 16;
    static constexpr object_type pool = object_type::cr;
    static bool is_kind(mark kind) { return kind == mark::cr; }

    cr(const DAT_PROVIDER *vector, adapter &owner, transport::cr &&from_port,
       const cr_params &params, endpoint *brought);

    /// Rejects as NON_PEER_REJECTED, and releases the endpoint.
    void refuse();
    void reject(reject_reason why, const private_data &data);
    /// A reserved endpoint becomes UNCONNECTED again; one made for this request is destroyed.
    void release_endpoint();

    transport::cr port_cr;
    endpoint *const ep; ///< the endpoint of an RSP or of a PSP that makes endpoints, or null
    osd::address peer;
    const DAT_PORT_QUAL peer_port;
    const bool for_datagrams; ///< it asks for an address, see endpoint.hpp
    DAT_COUNT data_size;
    std::uint8_t data[private_data_limit]; ///< the consumer may write to it in place
    cr *next_early = nullptr;              ///< link of the list service_point::keep_early
};

} // namespace dapl::DAPL_TRANSPORT::core
