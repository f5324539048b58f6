// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A bind of an RMR that was posted. Two keep it: the RMR, as long as its window may be bound so;
// and the queue it was posted to, until it completes.
#pragma once

#include "lmr.hpp"
#include "work_queue.hpp"

namespace dapl::DAPL_TRANSPORT::core {

class rmr;

struct binding {
    binding(rmr &window, lmr *to, const DAT_LMR_TRIPLET &what, DAT_MEM_PRIV_FLAGS rights)
        : of(&window), region(to), part(what), privileges(rights)
    {}

    void let_go()
    {
        if (holders.fetch_sub(1, std::memory_order_acq_rel) == 1)
            delete this;
    }
    /// It has completed, and not as a failure.
    bool done() const
    {
        return !failed.load(std::memory_order_acquire) && queue->has_finished(*request, this);
    }

    /// It failed, or nobody will tell any more how it ended.
    bool lost() const
    {
        return failed.load(std::memory_order_acquire) || (!done() && queue->owner == nullptr);
    }

    rmr *const of; ///< to name it: it may be gone
    std::atomic<int> holders{2};
    std::atomic<bool> failed{false};

    // The RMR's.
    user_of<lmr> region;
    const DAT_LMR_TRIPLET part;
    const DAT_MEM_PRIV_FLAGS privileges;
    DAT_RMR_CONTEXT context = 0;
    work_queue *queue = nullptr; ///< held
    const transport::wr *request = nullptr;
    binding *older = nullptr;
};

} // namespace dapl::DAPL_TRANSPORT::core
