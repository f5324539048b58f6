// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Endpoint attributes, which differ between the generations only in the width of the sizes.
#pragma once

namespace dat12 {

/// Translates attributes either way. Whether sizes and numbers of segments can be said in the other
/// generation is the caller's matter.
template <typename From, typename To>
void copy_attributes(const From &from, To &to)
{
    to.service_type = static_cast<decltype(to.service_type)>(from.service_type);
    to.max_message_size = static_cast<decltype(to.max_message_size)>(from.max_message_size);
    to.max_rdma_size = static_cast<decltype(to.max_rdma_size)>(from.max_rdma_size);
    to.qos = from.qos;
    to.recv_completion_flags =
        static_cast<decltype(to.recv_completion_flags)>(from.recv_completion_flags);
    to.request_completion_flags =
        static_cast<decltype(to.request_completion_flags)>(from.request_completion_flags);
    to.max_recv_dtos = from.max_recv_dtos;
    to.max_request_dtos = from.max_request_dtos;
    to.max_recv_iov = from.max_recv_iov;
    to.max_request_iov = from.max_request_iov;
    to.max_rdma_read_in = from.max_rdma_read_in;
    to.max_rdma_read_out = from.max_rdma_read_out;
    to.srq_soft_hw = from.srq_soft_hw;
    to.max_rdma_read_iov = from.max_rdma_read_iov;
    to.max_rdma_write_iov = from.max_rdma_write_iov;
    to.ep_transport_specific_count = from.ep_transport_specific_count;
    to.ep_transport_specific = from.ep_transport_specific;
    to.ep_provider_specific_count = from.ep_provider_specific_count;
    to.ep_provider_specific = from.ep_provider_specific;
}

} // namespace dat12
