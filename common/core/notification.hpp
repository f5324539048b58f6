// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Decides which events wake a waiter and trigger a CNO: all, but for successes of operations whose
// flags, or whose endpoint's flags, say otherwise.
#pragma once

#include "work_queue.hpp"

namespace dapl::DAPL_TRANSPORT::core {

/// Queues of endpoints whose completion flags decide which of their completions notify: they
/// exclude thresholds on the EVD.
class notify_overrides {
public:
    /// Whether the device can be armed for solicited completions.
    explicit notify_overrides(bool arms_for_solicited) : arms_for_solicited_(arms_for_solicited) {}
    void add(DAT_COMPLETION_FLAGS flags, int change);
    /// The configuration of the EVD: a CONFIG value of DAT_EVD_STATE.
    DAT_EVD_STATE config() const;
    /// A request is posted whose flags say that its success does not notify.
    void expect_unsignalled() { some_unsignalled_.store(true, std::memory_order_relaxed); }
    /// There may be completions that do not notify.
    bool any() const { return config() != DAT_EVD_STATE_CONFIG_THRESHOLD || some_unsignalled_; }
    /// The completions for which to arm the CQ: solicited completions, unless other successes
    /// notify as well.
    notify_on arming() const;

private:
    const bool arms_for_solicited_;
    std::atomic<int> queues_{0};
    std::atomic<int> selective_{0}; ///< queues with either flag below
    std::atomic<int> unsignalled_{0};
    std::atomic<int> solicited_{0};
    std::atomic<bool> some_unsignalled_{false}; ///< posts had the flag
};

/// Whether a completion wakes a waiter and triggers a CNO. A silent completion counts for the next
/// that does.
bool notifies(const completion &done);

} // namespace dapl::DAPL_TRANSPORT::core
