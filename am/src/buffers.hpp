// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Work requests and the registered memory of those that have some: receives, sends, and copies of
// what is put or fetched.
#pragma once

#include "mutex.hpp"

#include <dat2/udat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace am {

struct peer;
struct registration;

} // namespace am

/// Operations that are synchronized together: a handle, or the implicit ones of a thread.
struct dapl_am_op {
    std::atomic<std::uint32_t> pending{0};
    am::peer *unconfirmed = nullptr; ///< has been written to, and no read follows
    dapl_am_op *next = nullptr;
};

namespace am {

enum class work_kind : std::uint8_t { receive, send, transfer, read_copy };

/// A posted operation; the cookie of its completion points here.
struct work {
    work *next = nullptr;
    std::byte *data = nullptr; ///< buffer_size bytes, or none
    DAT_LMR_CONTEXT context = 0;
    work_kind kind = work_kind::receive;
    std::uint32_t length = 0;
    peer *owner = nullptr;
    dapl_am_op *op = nullptr;     ///< counts a transfer
    void *copy_to = nullptr;      ///< read_copy: where the data goes
    registration *lent = nullptr; ///< of the memory of a transfer, to be given back
};

constexpr std::size_t buffer_size = 8192;

/// Free work requests, which grow in number as they are needed and are never given back.
class work_pool {
public:
    /// With memory for each, registered with the adapter; or without, if `ia` is null.
    void open(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz);

    /// @return one, or null if no more can be made, which is reported
    work *take();
    void give(work *chain);

    std::uint64_t made() const { return made_; }
    std::uint64_t locks() const { return locks_; }

private:
    bool grow();

    static constexpr int chunk = 32;

    mutex lock_;
    work *free_ = nullptr;
    DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz_ = DAT_HANDLE_NULL;
    std::atomic<std::uint64_t> made_{0};
    std::atomic<std::uint64_t> locks_{0};
};

} // namespace am
