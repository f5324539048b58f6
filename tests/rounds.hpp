// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How often tests repeat something.
#pragma once

namespace test_run {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
inline constexpr bool sanitized =
    __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);
#else
inline constexpr bool sanitized = false;
#endif

#ifdef _WIN32
inline constexpr bool emulated = true; // by Wine, mostly
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
