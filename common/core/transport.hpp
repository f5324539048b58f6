// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The port this library is made for, held against the contract.
#pragma once

#include "dapls_ib_check.hpp"
#include "port.hpp"

namespace dapl::DAPL_TRANSPORT {

template struct check_transport<transport>;

namespace core {

inline constexpr features claims = transport::claims;

} // namespace core

inline DAT_UINT64 total_length(DAT_COUNT segments, const DAT_LMR_TRIPLET *local)
{
    DAT_UINT64 total = 0;
    for (DAT_COUNT i = 0; i < segments; ++i)
        total += local[i].segment_length;
    return total;
}

/// Whether these are more segments than the attributes allow this RDMA operation. 0 there: as many
/// as any request has.
inline bool has_too_many(DAT_COUNT segments, opcode operation, const DAT_EP_ATTR &attr)
{
    const DAT_COUNT most =
        operation == opcode::rdma_read ? attr.max_rdma_read_iov : attr.max_rdma_write_iov;
    return most > 0 && segments > most;
}

} // namespace dapl::DAPL_TRANSPORT
