// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A posted bind of an RMR. It has two references: the RMR's, as long as the window may be bound by
// it, and the reference of the queue it was posted to, until it completes.
#pragma once

#include "lmr.hpp"

namespace dapl::DAPL_TRANSPORT::core {

class rmr;

struct binding {
    binding(rmr &window, lmr *to, const DAT_LMR_TRIPLET &range, DAT_MEM_PRIV_FLAGS rights,
            bool for_one_connection)
        : bound_rmr(&window), region(to), part(range), privileges(rights),
          one_connection(for_one_connection)
    {}

    void release()
    {
        if (references.fetch_sub(1, std::memory_order_acq_rel) == 1)
            delete this;
    }
    rmr *const bound_rmr; ///< the RMR, for its handle only: it may have been freed
    std::atomic<int> references{2};
    std::atomic<bool> failed{false};

    // The RMR's.
    user_of<lmr> region;
    const DAT_LMR_TRIPLET part;
    const DAT_MEM_PRIV_FLAGS privileges;
    const bool one_connection;
    DAT_RMR_CONTEXT context = 0;
    work_queue *queue = nullptr; ///< held
    const transport::wr *request = nullptr;
    binding *older = nullptr;
};

} // namespace dapl::DAPL_TRANSPORT::core
