// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which events wake a waiter and trigger a CNO: all, but for successes of operations whose flags,
// or those of their endpoint, say otherwise.
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
    /// One of the CONFIG values of DAT_EVD_STATE.
    DAT_EVD_STATE config() const;
    /// A request is posted whose flags say that its success does not notify.
    void expect_unsignalled() { some_unsignalled_.store(true, std::memory_order_relaxed); }
    /// There may be completions that do not notify.
    bool any() const { return config() != DAT_EVD_STATE_CONFIG_THRESHOLD || some_unsignalled_; }
    /// What the CQ is armed for: solicited ones where no other success notifies.
    notify_on arming() const;

private:
    const bool arms_for_solicited_;
    std::atomic<int> queues_{0};
    std::atomic<int> selective_{0}; ///< of them, with either flag
    std::atomic<int> unsignalled_{0};
    std::atomic<int> solicited_{0};
    std::atomic<bool> some_unsignalled_{false}; ///< by the flag of a post
};

/// Whether a completion wakes a waiter and triggers a CNO. One that does not counts for the next
/// that does.
bool notifies(const completion &done);

} // namespace dapl::DAPL_TRANSPORT::core
