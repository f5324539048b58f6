// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Process-wide objects that need no start-up code and are never destroyed.
#pragma once

namespace dat {

/// An object that is never destroyed. Providers register from their constructors, which may run
/// before ours, and call from their destructors, which may run after ours. So the objects that they
/// meet are there before the first instruction (declare it constinit) and stay until the library is
/// unmapped.
template <typename T>
union immortal {
    constexpr immortal() : value() {}
    // NOLINTNEXTLINE(modernize-use-equals-default): the point is that `value` is left alone
    ~immortal() {}
    immortal(const immortal &) = delete;
    immortal &operator=(const immortal &) = delete;

    T value;
};

} // namespace dat
