// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Objects that threads use until the process ends: they are never destroyed, and take no memory
// that there might not be.
#pragma once

#include <cstddef>
#include <new>

namespace am {

/// The only one of its type.
template <typename Object>
Object &lasting()
{
    alignas(Object) static std::byte memory[sizeof(Object)];
    return *new (memory) Object;
}

} // namespace am
