// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How often tests repeat something.
#pragma once

namespace test_run {

#if defined(__has_feature)
inline constexpr bool thread_sanitized = __has_feature(thread_sanitizer);
inline constexpr bool address_sanitized = __has_feature(address_sanitizer);
#else
#ifdef __SANITIZE_THREAD__
inline constexpr bool thread_sanitized = true;
#else
inline constexpr bool thread_sanitized = false;
#endif
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool address_sanitized = true;
#else
inline constexpr bool address_sanitized = false;
#endif
#endif
inline constexpr bool sanitized = thread_sanitized || address_sanitized;

#ifdef TESTS_EMULATED // by Wine or QEMU: the build says so
inline constexpr bool emulated = true;
#else
inline constexpr bool emulated = false;
#endif

/// Repetitions, or objects of a kind: fewer where they are slow.
template <class Number>
constexpr Number rounds(Number wanted)
{
    return sanitized || emulated ? wanted / 4 + 1 : wanted;
}

} // namespace test_run
