// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Other values for arguments and answers of operations.
#pragma once

#include "dapls_ib.hpp"
#include "spoil_dat.hpp"

namespace dapl::DAPL_TRANSPORT::faults {

inline void spoil(take_result &answer)
{
    answer = take_result::empty;
}
inline void spoil(osd::wait_result &answer)
{
    answer = osd::wait_result::timed_out;
}
inline void spoil(notify_on &what)
{
    what = what == notify_on::any ? notify_on::solicited : notify_on::any;
}
inline void spoil(reject_reason &why)
{
    why = why == reject_reason::consumer ? reject_reason::non_consumer : reject_reason::consumer;
}
/// Every right.
inline void spoil(mr_params &params)
{
    params.privileges = DAT_MEM_PRIV_ALL_FLAG;
}
inline void spoil(mw_params &params)
{
    params.privileges = DAT_MEM_PRIV_ALL_FLAG;
    params.one_connection = false;
}
inline void spoil(mr_keys &keys)
{
    keys.remote ^= 0x40000000;
}
inline void spoil(qp_params &params)
{
    params.max_recv = params.max_send = 1;
}
inline void spoil(srq_params &params)
{
    params.max_recv = 1;
}
inline void spoil(private_data &data)
{
    data = {};
}
inline void spoil(connect_params &params)
{
    params.data = {};
    params.qos = DAT_QOS_BEST_EFFORT;
}
inline void spoil(cr_params &params)
{
    params.data = {};
}
inline void spoil(datagram_address &peer)
{
    ++peer.number;
}
inline void spoil(extended_request &wanted)
{
    ++wanted.immediate;
    ++wanted.add_or_compare;
    ++wanted.swap;
    ++wanted.key;
    if (wanted.to != nullptr) {
        static thread_local DAT_RMR_TRIPLET beyond;
        beyond = *wanted.to;
        beyond.virtual_address += 8;
        wanted.to = &beyond;
    }
}
inline void spoil(hca_attr &limits)
{
    limits.max_eps = limits.max_cqs = limits.max_mrs = limits.max_iov_per_dto = 0;
    limits.max_message_size = 0;
}
/// Everything is counted twice.
inline void spoil(device_counters &counters)
{
    for (int i = device_counters::first; i < DCNT_IA_ALL_COUNTERS; ++i)
        counters[i] *= 2;
}
inline void spoil(qp_attr &given)
{
    ++given.max_rdma_read_in;
    ++given.max_rdma_read_out;
}
/// Nothing is counted.
inline void spoil(qp_counters &counters)
{
    for (qp_counters::named &each : counters)
        each.value = 0;
}

} // namespace dapl::DAPL_TRANSPORT::faults

#include "spoil_one.hpp"
