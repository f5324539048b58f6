// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Counters of adapters, endpoints and EVDs. Wrappers around the hot calls keep theirs, see
// calls/counting.hpp.
#pragma once

#include "dapls_ib.hpp"

#include <dat2/dat_ib_extensions.h>
#include <dat2/udat.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace dapl::DAPL_TRANSPORT::core {

template <std::size_t N>
using counter_values = std::array<std::atomic<DAT_UINT64>, N>;

template <std::size_t N>
class counter_block {
public:
    /// Counts in `sum`, too, from now on.
    void add_to(counter_values<N> &sum) { sum_ = sum.data(); }
    void add(std::size_t which, DAT_UINT64 amount = 1)
    {
        values_[which].fetch_add(amount, std::memory_order_relaxed);
        if (sum_ != nullptr)
            sum_[which].fetch_add(amount, std::memory_order_relaxed);
    }
    void take_back(std::size_t which) { add(which, ~DAT_UINT64{0}); }
    DAT_UINT64 read(std::size_t which, bool reset)
    {
        return reset ? values_[which].exchange(0, std::memory_order_relaxed)
                     : values_[which].load(std::memory_order_relaxed);
    }

private:
    counter_values<N> values_{};
    std::atomic<DAT_UINT64> *sum_ = nullptr;
};

/// The counters of an adapter, and the values that its device counts by itself. Those are sampled
/// in groups, from the opening of the adapter on.
class adapter_counters : public counter_block<DCNT_IA_ALL_COUNTERS> {
public:
    /// Adds the growth of the device's counters since the last call. Several threads may have read
    /// the device, and bring the readings in any order.
    void bring(device_counters &now) OSD_EXCLUDES(lock_)
    {
        osd::lock_guard hold(lock_);
        take_up(now);
    }
    /// Starts or stops the sampling of a group that the device counts: DCNT_IA_LNK or DCNT_IA_DIAG.
    /// `now` is what the device has counted. What it counts while a group is stopped is left out.
    void sample(DAT_IA_COUNTER_TYPE group, bool wanted, device_counters &now) OSD_EXCLUDES(lock_)
    {
        osd::lock_guard hold(lock_);
        take_up(now);
        is_stopped_[group == DCNT_IA_DIAG] = !wanted;
    }

private:
    void take_up(device_counters &now) OSD_REQUIRES(lock_)
    {
        for (int i = device_counters::first; i < DCNT_IA_ALL_COUNTERS; ++i) {
            if (now[i] <= brought_[i])
                continue;
            if (!is_stopped_[i >= DCNT_IA_DIAG_ERR_RQ_RAE])
                add(static_cast<std::size_t>(i), now[i] - brought_[i]);
            brought_[i] = now[i];
        }
    }

    osd::mutex lock_;
    device_counters brought_ OSD_GUARDED_BY(lock_);
    bool is_stopped_[2] OSD_GUARDED_BY(lock_) = {}; ///< of the link, of the diagnosis
};
using endpoint_counters = counter_block<DCNT_EP_ALL_COUNTERS>;
using evd_counters = counter_block<DCNT_EVD_ALL_COUNTERS>;

/// What a process offers of an adapter, from its opening on: a reset does not concern it. The pages
/// are zero at first, and so is all of this.
struct offered_counters {
    /// What the pages are called. The number at the end is the edition of the layout.
    static constexpr char name[] = "dapl-counters-1";

    char adapter[DAT_NAME_MAX_LENGTH];
    counter_values<DCNT_IA_ALL_COUNTERS> of_adapter;
    counter_values<DCNT_EP_ALL_COUNTERS> of_endpoints;
    counter_values<DCNT_EVD_ALL_COUNTERS> of_evds;
};

} // namespace dapl::DAPL_TRANSPORT::core
