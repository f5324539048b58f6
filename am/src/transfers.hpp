// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Moving bytes to and from the segments of other ranks. Everything here posts and takes
// completions, and runs no handler.
#pragma once

#include "job.hpp"

namespace am {

enum class local_memory {
    reusable, ///< when the call returns
    lent      ///< until the operation is complete
};

/// Writes to memory of a connected peer, and counts its parts in `op`. What is reusable on return
/// is copied unless it is larger than a buffer, and then the caller has to wait.
void write_remote(peer &p, std::uint64_t remote, const void *local, std::size_t size,
                  dapl_am_op &op, local_memory promise);
void read_remote(peer &p, void *local, std::uint64_t remote, std::size_t size, dapl_am_op &op);

inline bool is_done(const dapl_am_op &op)
{
    return op.pending.load(std::memory_order_acquire) == 0;
}

/// Waits without running handlers.
void await_quietly(const dapl_am_op &op);
/// Waits, and polls.
void await(dapl_am_op &op);

/// A memset that a message has asked the peer for is done. The message does not name it by its
/// address: these are a place in a table, and how often it was used.
/// @return false if the peer has been asked for none of that name
bool fill_done(const peer &p, std::uint32_t place, std::uint32_t use);

/// Reads posted to learn that what was put has arrived.
std::uint64_t confirmations();

} // namespace am
