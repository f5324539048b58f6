// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Work requests. Some have registered memory, for receives, sends and copied transfers.
#pragma once

#include "osd_sync.hpp"

#include <dat2/udat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace am {

struct peer;
struct registration;

} // namespace am

/// Transfers that are synchronized together: by a handle, or implicitly by a thread.
struct dapl_am_op {
    std::atomic<std::uint32_t> pending{0};
    am::peer *unconfirmed = nullptr; ///< has been written to, and no read has followed
    dapl_am_op *next = nullptr;

    bool is_done() const { return pending.load(std::memory_order_acquire) == 0; }
};

namespace am {

enum class work_kind : std::uint8_t { receive, send, transfer, read_copy };

/// A posted operation. The cookie of its completion points here.
struct work_request {
    work_request *next = nullptr;
    std::byte *data = nullptr; ///< buffer_size bytes, or none
    DAT_LMR_CONTEXT context = 0;
    work_kind kind = work_kind::receive;
    std::uint32_t length = 0;
    peer *owner = nullptr;
    dapl_am_op *op = nullptr;     ///< counts this transfer
    void *copy_to = nullptr;      ///< takes the data of a read_copy
    registration *lent = nullptr; ///< covers the memory of this transfer, which gives it back

    DAT_LMR_TRIPLET segment(std::size_t size) const
    {
        return {reinterpret_cast<DAT_VADDR>(data), static_cast<DAT_SEG_LENGTH>(size), context};
    }
};

constexpr std::size_t buffer_size = 8192;

/// Free work requests, which become more as they are needed and are never freed.
class work_pool {
public:
    /// Has memory registered for each work request. Without this call they have none.
    void open(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz);

    /// Takes one; null if no more can be made, which is reported.
    work_request *take() OSD_EXCLUDES(lock_);
    void give(work_request *chain) OSD_EXCLUDES(lock_);

    std::uint64_t made() const { return made_; }
    std::uint64_t locks() const { return locks_; }

private:
    static constexpr int chunk = 32;

    bool grow() OSD_REQUIRES(lock_);
    std::byte *register_buffers(DAT_LMR_CONTEXT &context) const;
    void count_lock() OSD_REQUIRES(lock_);

    osd::mutex lock_;
    work_request *free_ OSD_GUARDED_BY(lock_) = nullptr;
    DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz_ = DAT_HANDLE_NULL;
    std::atomic<std::uint64_t> made_{0};
    std::atomic<std::uint64_t> locks_{0};
};

} // namespace am
