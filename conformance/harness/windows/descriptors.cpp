// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Windows has no descriptors, and no provider there makes one for a CNO.
#include "harness/descriptors.hpp"

namespace conformance {

bool is_readable(int, milliseconds)
{
    return false;
}

bool is_closed(int)
{
    return false;
}

descriptor_set::descriptor_set() : fd_(-1) {}

descriptor_set::~descriptor_set() = default;

bool descriptor_set::add(int) const
{
    return fd_ >= 0;
}

int descriptor_set::wait(milliseconds) const
{
    return fd_;
}

} // namespace conformance
