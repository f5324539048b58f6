// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "adapter.hpp"

#include "dapl_debug.hpp"
#include "osd_thread.hpp"

#include <cstdio>

namespace dapl::DAPL_TRANSPORT::core {

namespace {

/// Clears the limits of features that the port does not claim, even if the device has them.
void keep_what_is_claimed(hca_attr &attr)
{
    if constexpr (!claims.srq)
        attr.max_srqs = attr.max_recv_per_srq = 0;
    if constexpr (!claims.memory_windows)
        attr.max_mws = 0;
    attr.immediate_data = attr.immediate_data && claims.immediate_data;
    attr.atomics = attr.atomics && claims.atomics;
    if constexpr (!claims.datagrams)
        attr.max_datagram_size = 0;
    attr.solicited_wait = attr.solicited_wait && claims.solicited_wait;
    attr.qos = claims.qos ? attr.qos : DAT_QOS_BEST_EFFORT;
    attr.ep_windows = attr.ep_windows && claims.ep_windows && attr.max_mws != 0;
    attr.send_invalidate = attr.send_invalidate && claims.send_invalidate;
}

} // namespace

status adapter::open_hca()
{
    const hca_open_params params{line.info.ia_name, line.params, this,
                                 counts.load(std::memory_order_relaxed)};
    const status opened = transport::dapls_ib_open_hca(hca, params);
    hca_open_ = opened.ok();
    if (hca_open_)
        transport::dapls_ib_query_hca(hca, attr);
    keep_what_is_claimed(attr);
    return opened;
}

void adapter::close_hca()
{
    if (hca_open_)
        transport::dapls_ib_close_hca(hca);
    hca_open_ = false;
}

void adapter::offer_counters()
{
    if (const char *wrong = offered_.open(offered_counters::name, sizeof(offered_counters))) {
        dapl_log(DAPL_DBG_TYPE_WARN, "%s: its counters are not offered to dat-info --watch: %s",
                 line.info.ia_name, wrong);
        return;
    }
    std::snprintf(offered()->adapter, sizeof offered()->adapter, "%s", line.info.ia_name);
    counters.add_to(offered()->of_adapter);
}

void adapter::count_in_sum(endpoint_counters &of_one)
{
    if (offered() != nullptr)
        of_one.add_to(offered()->of_endpoints);
}

void adapter::count_in_sum(evd_counters &of_one)
{
    if (offered() != nullptr)
        of_one.add_to(offered()->of_evds);
}

std::size_t adapter::live_objects()
{
    osd::lock_guard hold(lock_);
    std::size_t count = 0;
    for (const object_pool &each : pools_)
        count += each.live();
    return count;
}

void adapter::await_unused(const object &condemned)
{
    {
        osd::lock_guard hold(lock_); // a find() that has seen it has its reference then
    }
    osd::wait_while([&condemned] { return in_use(condemned); });
}

DAT_IA_HANDLE adapter::consumer_handle() const
{
    DAT_IA_HANDLE index = DAT_HANDLE_NULL;
    (void)dats_get_ia_handle(const_cast<adapter *>(this), &index);
    return index;
}

} // namespace dapl::DAPL_TRANSPORT::core
