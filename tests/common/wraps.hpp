// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Calls that leave the program's own objects for these functions pass through here (--wrap).
#pragma once

namespace wraps {

/// Counts of the calling thread since it began.
struct counts {
    unsigned long mutex_locks = 0;
    unsigned long allocations = 0;
    unsigned long yields = 0;
};
counts of_this_thread();

/// Makes the allocation after `skip` more fail, counted among allocations that may fail:
/// aligned_alloc and nothrow new. Negative: none.
void fail_allocation(int skip);
/// An allocation was failed since fail_allocation.
bool allocation_failed();

} // namespace wraps
