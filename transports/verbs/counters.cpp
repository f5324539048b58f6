// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "counters.hpp"

#include "osd_system.hpp"

#include <cstdio>
#include <cstdlib>

namespace dapl::verbs::vrb {

namespace {

struct source {
    int counter;
    const char *file;
};

/// All devices have the first files; the drivers mlx4, mlx5 and rxe have hw_counters. Two files of
/// one counter are added up.
constexpr source sources[] = {
    {DCNT_IA_LNK_ERR_RCV, "counters/port_rcv_errors"},
    {DCNT_IA_LNK_ERR_RCV_REM_PHYS, "counters/port_rcv_remote_physical_errors"},
    {DCNT_IA_LNK_ERR_RCV_CONSTRAINT, "counters/port_rcv_constraint_errors"},
    {DCNT_IA_LNK_ERR_XMT_DISCARDS, "counters/port_xmit_discards"},
    {DCNT_IA_LNK_ERR_XMT_CONTRAINT, "counters/port_xmit_constraint_errors"},
    {DCNT_IA_LNK_ERR_INTEGRITY, "counters/local_link_integrity_errors"},
    {DCNT_IA_LNK_ERR_EXC_BUF_OVERRUN, "counters/excessive_buffer_overrun_errors"},
    {DCNT_IA_LNK_WARN_RCV_SW_RELAY, "counters/port_rcv_switch_relay_errors"},
    {DCNT_IA_LNK_WARN_XMT_WAIT, "counters/port_xmit_wait"},
    {DCNT_IA_DIAG_ERR_RQ_RAE, "hw_counters/rq_num_rae"},
    {DCNT_IA_DIAG_ERR_RQ_RAE, "hw_counters/resp_remote_access_errors"},
    {DCNT_IA_DIAG_ERR_RQ_OOS, "hw_counters/rq_num_oos"},
    {DCNT_IA_DIAG_ERR_RQ_OOS, "hw_counters/out_of_sequence"},
    {DCNT_IA_DIAG_ERR_RQ_OOS, "hw_counters/out_of_seq_request"},
    {DCNT_IA_DIAG_ERR_RQ_RIRE, "hw_counters/rq_num_rire"},
    {DCNT_IA_DIAG_ERR_RQ_UDSDPRD, "hw_counters/rq_num_udsdprd"},
    {DCNT_IA_DIAG_ERR_SQ_RAE, "hw_counters/sq_num_rae"},
    {DCNT_IA_DIAG_ERR_SQ_RAE, "hw_counters/req_remote_access_errors"},
    {DCNT_IA_DIAG_ERR_SQ_OOS, "hw_counters/sq_num_oos"},
    {DCNT_IA_DIAG_ERR_SQ_OOS, "hw_counters/packet_seq_err"},
    {DCNT_IA_DIAG_ERR_SQ_OOS, "hw_counters/rcvd_seq_err"},
    {DCNT_IA_DIAG_ERR_SQ_RIRE, "hw_counters/sq_num_rire"},
    {DCNT_IA_DIAG_ERR_SQ_RIRE, "hw_counters/req_remote_invalid_request"},
    {DCNT_IA_DIAG_ERR_SQ_RREE, "hw_counters/sq_num_rree"},
    {DCNT_IA_DIAG_ERR_SQ_RREE, "hw_counters/retry_rnr_exceeded_err"},
    {DCNT_IA_DIAG_ERR_SQ_TREE, "hw_counters/sq_num_tree"},
    {DCNT_IA_DIAG_ERR_SQ_TREE, "hw_counters/req_transport_retries_exceeded"},
    {DCNT_IA_DIAG_ERR_SQ_TREE, "hw_counters/retry_exceeded_err"},
};

DAT_UINT64 number_in(const char *folder, const char *file)
{
    char path[192];
    std::snprintf(path, sizeof path, "%s/%s", folder, file);
    std::size_t size = 0;
    char *const text = osd::read_file(path, 4096, &size);
    const DAT_UINT64 number = text != nullptr ? std::strtoull(text, nullptr, 10) : 0;
    std::free(text);
    return number;
}

} // namespace

void port_counters::open(const char *folder)
{
    std::snprintf(folder_, sizeof folder_, "%s", folder);
    before_ = {};
    device_counters now;
    read(now);
    before_ = now;
}

/// A counter of which somebody has set the device to 0 begins anew.
void port_counters::read(device_counters &out)
{
    for (const source &each : sources)
        out[each.counter] += number_in(folder_, each.file);
    for (int each = device_counters::first; each < DCNT_IA_ALL_COUNTERS; ++each)
        out[each] -= out[each] >= before_[each] ? before_[each] : 0;
}

} // namespace dapl::verbs::vrb
