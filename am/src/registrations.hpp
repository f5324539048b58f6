// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A cache of registrations of memory outside the segment, so that large transfers from and to it
// need no copy.
//
// The kernel tells a thread of the library when memory is unmapped, moved or emptied
// (userfaultfd), before the call that does so returns; registrations of it are not used again.
// Where userfaultfd is not allowed nothing is registered.
#pragma once

#include <dat2/udat.h>

#include <cstddef>
#include <cstdint>

namespace am {

struct registration;

namespace registrations {

/// Starts the thread that watches. Without it take() gives nothing. @return a status
int open();

/// A registration that covers the memory, until give(); null: the memory has to be copied.
registration *take(const void *memory, std::size_t size);
/// For one more transfer: a give() more.
void share(registration &r);
void give(registration &r);

DAT_LMR_CONTEXT context_of(const registration &r);

std::uint64_t made();
std::uint64_t hits();

} // namespace registrations
} // namespace am
