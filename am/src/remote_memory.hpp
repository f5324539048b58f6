// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Moving bytes to and from the segments of other ranks. Everything here posts and takes
// completions, and runs no handler.
#pragma once

#include "job_context.hpp"

#include <cstddef>
#include <cstdint>

namespace am {

class registration_cache;
class reachable_memory;

enum class local_memory {
    reusable, ///< the caller may change it when the call returns
    lent      ///< the caller leaves it alone until the operation is complete
};

class remote_memory {
public:
    remote_memory(job_context &job, registration_cache &cache) : job_(job), cache_(cache) {}

    // These want a connected peer, and count the parts of the transfer in `op`.

    /// Copies reusable memory, unless it is larger than a buffer: then the caller waits.
    void write(peer &p, std::uint64_t remote, const void *local, std::size_t size, dapl_am_op &op,
               local_memory promise);
    /// Writes from memory that is larger than a buffer and reusable when `written` is complete.
    /// False when it cannot be registered: then it was copied, and counted in `op`.
    bool write_uncopied(peer &p, std::uint64_t remote, const void *local, std::size_t size,
                        dapl_am_op &written, dapl_am_op &op);
    /// Writes a buffer.
    void write_buffer(peer &p, work_request &buffer, std::uint64_t remote, std::size_t size,
                      dapl_am_op &op);
    void read(peer &p, void *local, std::uint64_t remote, std::size_t size, dapl_am_op &op);

    /// Reads from the peer that the operation has written to, behind all that was written, so that
    /// it completes when the data have arrived.
    void confirm(dapl_am_op &op);
    /// Notes that an operation writes to a peer next. The read that confirms it can wait until it
    /// is synchronized, or until a write to another peer needs the place.
    void confirm_later(peer &p, dapl_am_op &op);

    /// Waits without running handlers.
    void await_quietly(const dapl_am_op &op);

    /// Returns the number of reads posted to learn that written data have arrived.
    std::uint64_t confirmations() const { return confirmations_; }

private:
    void write_part(peer &p, work_request &w, const DAT_LMR_TRIPLET &local, std::uint64_t remote,
                    dapl_am_op &op);
    void copy_and_write(peer &p, std::uint64_t remote, const std::byte *local, std::size_t size,
                        dapl_am_op &op);
    void write_from(const reachable_memory &from, peer &p, std::uint64_t remote, const void *local,
                    std::size_t size, dapl_am_op &op);
    void read_part(const reachable_memory &into, peer &p, std::byte *local, std::uint64_t remote,
                   std::size_t size, dapl_am_op &op);

    job_context &job_;
    registration_cache &cache_;
    std::atomic<std::uint64_t> confirmations_{0};
};

} // namespace am
