// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "osd_sync.hpp"

#include <dat2/udat.h>

#include <cstddef>
#include <memory>

namespace dapl::DAPL_TRANSPORT::core {

class lmr;

/// The regions of an adapter by their local context, in chains that stay short. Without memory for
/// more of these they grow longer.
class lmr_index {
public:
    void insert(lmr &region) OSD_EXCLUDES(lock_);
    void remove(lmr &region) OSD_EXCLUDES(lock_);
    /// Whether one of them covers the segment.
    bool covers(const DAT_LMR_TRIPLET &segment) OSD_EXCLUDES(lock_);

private:
    lmr *&chain_of(DAT_LMR_CONTEXT context) OSD_REQUIRES(lock_);
    void grow() OSD_REQUIRES(lock_);

    osd::mutex lock_;
    lmr *only_ OSD_GUARDED_BY(lock_) = nullptr; ///< the chain of an adapter with few regions
    std::unique_ptr<lmr *[]> chains_ OSD_GUARDED_BY(lock_);
    unsigned bits_ OSD_GUARDED_BY(lock_) = 0; ///< log2 of the number of chains
    std::size_t regions_ OSD_GUARDED_BY(lock_) = 0;
};

} // namespace dapl::DAPL_TRANSPORT::core
