// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The memory of links, which begins at a page. What a copy of a MiB takes depends on which pages
// the system has given: where stacks are compared, all their links of a process use one piece.
#pragma once

#include <cstddef>
#include <memory>

namespace bench {

/// Makes all links of this process that are made from now on use the same memory.
void share_link_memory();

/// Zeros of that size; one piece for all who hold it, where it is shared. Throws program::failure
/// when there is no memory.
std::shared_ptr<std::byte> link_memory(std::size_t size);

} // namespace bench
