// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The memory of links, which begins at a page. The pages that the system gives decide how long a
// copy of a MiB takes: where stacks are compared, all links of a process use one piece.
#pragma once

#include <cstddef>
#include <memory>

namespace bench {

/// Lets all links of this process that are made from now on share one piece of memory.
void share_link_memory();

/// Returns zeros of this size, in one piece for all holders where memory is shared. Throws
/// program::failure when there is no memory.
std::shared_ptr<std::byte> link_memory(std::size_t size);

} // namespace bench
