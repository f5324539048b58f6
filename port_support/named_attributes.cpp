// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "named_attributes.hpp"

namespace dapl::DAPL_TRANSPORT {

namespace {

const char *text_of(bool yes)
{
    return yes ? "TRUE" : "FALSE";
}

} // namespace

void named_attributes::add(const char *name, const char *value)
{
    if (count_ < room)
        entries_[count_++] = {name, value};
}

void named_attributes::set(const common_attributes &common, const hca_attr &attr)
{
    count_ = 0;
    add("DAT_IB_PROVIDER_NAME", common.provider);
    add("DAT_IB_DEVICE_NAME", common.device);
    add("DAT_IB_CONNECTIVITY_MODE", "DIRECT");
    add("DAT_IB_RDMA_READ", text_of(common.rdma_read));
    add("DAT_IB_TRANSPORT_MTU", common.mtu);
    add("DAT_IB_PORT_NUMBER", common.port);
    add("DAT_IB_PORT_STATUS", common.port_active ? "PORT_ACTIVE" : "PORT_DOWN");
    add(DAT_IB_ATTR_IMMED_DATA, text_of(attr.immediate_data));
    add(DAT_IB_ATTR_FETCH_AND_ADD, text_of(attr.atomics));
    add(DAT_IB_ATTR_CMP_AND_SWAP, text_of(attr.atomics));
    add(DAT_IB_ATTR_UD, text_of(attr.max_datagram_size != 0));
    add("DAPL_AGREED_READS", text_of(common.agreed_reads));
}

} // namespace dapl::DAPL_TRANSPORT
