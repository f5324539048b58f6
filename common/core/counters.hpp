// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Counters of adapters, endpoints and EVDs. Those of hot calls are kept by wrappers around the
// calls, see calls/counting.hpp.
#pragma once

#include <dat2/dat_ib_extensions.h>
#include <dat2/udat.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace dapl::DAPL_TRANSPORT::core {

template <std::size_t N>
class counter_block {
public:
    void add(std::size_t which, DAT_UINT64 amount = 1)
    {
        values_[which].fetch_add(amount, std::memory_order_relaxed);
    }
    void take_back(std::size_t which) { values_[which].fetch_sub(1, std::memory_order_relaxed); }
    DAT_UINT64 read(std::size_t which, bool reset)
    {
        return reset ? values_[which].exchange(0, std::memory_order_relaxed)
                     : values_[which].load(std::memory_order_relaxed);
    }

private:
    std::array<std::atomic<DAT_UINT64>, N> values_{};
};

using adapter_counters = counter_block<DCNT_IA_ALL_COUNTERS>;
using endpoint_counters = counter_block<DCNT_EP_ALL_COUNTERS>;
using evd_counters = counter_block<DCNT_EVD_ALL_COUNTERS>;

} // namespace dapl::DAPL_TRANSPORT::core
