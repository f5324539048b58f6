// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What programs find in provider_specific_attr, under the names that OFED's providers use.
#pragma once

#include "dapls_ib.hpp"

namespace dapl::DAPL_TRANSPORT {

/// The attributes that programs ask every adapter for. Texts are kept, not copied.
struct common_attributes {
    const char *provider; ///< kind of network
    const char *device;
    const char *mtu;
    const char *port = "1";
    bool port_active = true;
    bool rdma_read = true;
    bool agreed_reads = false; ///< [qp_query] it tells the RDMA reads that both sides agreed on
};

/// Member of a port's hca.
class named_attributes {
public:
    /// Begins anew with these, and with the extended operations that `attr` has.
    void set(const common_attributes &common, const hca_attr &attr);
    /// Adds an attribute, or leaves it out if there is no room.
    void add(const char *name, const char *value);
    void show_in(hca_attr &attr) const
    {
        attr.named_attrs = entries_;
        attr.num_named_attrs = count_;
    }

private:
    static constexpr DAT_COUNT room = 16;
    DAT_NAMED_ATTR entries_[room] = {};
    DAT_COUNT count_ = 0;
};

} // namespace dapl::DAPL_TRANSPORT
